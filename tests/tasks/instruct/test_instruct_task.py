"""The task `instruct` on its embedded data: texts, prompts, rewards, spans, demonstrations."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from mrtpo.config import SettingsError, settings_from
from mrtpo.contexts import chosen_information, informed
from mrtpo.records import Reward
from mrtpo.tasks import get_task
from mrtpo.tasks.instruct import prepare as preparation
from mrtpo.tasks.instruct.prompts import constraints_of
from mrtpo.tasks.instruct.synthetic import COMMON, PLAIN, drawn, names_of, tokens_of, written
from mrtpo.tasks.instruct.task import Instruct
from mrtpo.validation import DataError, validate_prompts
from mrtpo.verifiers.constraints import check

SMALL = {
    "task": "instruct",
    "data": {"train_prompts": 60, "valid_prompts": 20, "test_prompts": 20},
}


@pytest.fixture(scope="module")
def settings():
    return settings_from(SMALL)


@pytest.fixture(scope="module")
def prepared(settings):
    return preparation.prepare(settings)


@pytest.fixture(scope="module")
def task(settings):
    task = get_task(settings, Path())
    assert isinstance(task, Instruct)
    return task


def passes(constraint, text):
    return check(constraint.id, constraint.arguments, text).passed


NAMES = names_of()


@pytest.mark.parametrize("count", [1, 4, 12])
def test_constraints_that_are_drawn_are_kept_by_their_text(count):
    for seed in range(30):
        rules, text = drawn(count, random.Random(seed))
        assert len(rules) == count and {*rules} <= {*NAMES}
        assert all(passes(c, text) for c in rules.values())
        assert drawn(count, random.Random(seed)) == (rules, text)


def test_what_is_to_be_broken_is_broken_and_the_rest_is_kept():
    rng = random.Random(1)
    for _ in range(50):
        rules, _ = drawn(8, rng)
        broken = set(rng.sample(list(rules), 3))
        text = written(rules, set(rules) - broken, broken, rng)
        assert {name for name, c in rules.items() if not passes(c, text)} == broken


def test_what_is_not_told_is_mostly_broken_by_chance():
    rng = random.Random(2)
    kept = dict.fromkeys(NAMES, 0)
    for _ in range(300):
        rules, _ = drawn(12, rng)
        text = written(rules, (), (), rng)
        for name, c in rules.items():
            kept[name] += passes(c, text)
    assert max(kept.values()) / 300 < 0.35


def test_words_are_different_and_no_words_of_the_sentences():
    assert len({*PLAIN, *COMMON}) == len(PLAIN) + len(COMMON) == 28
    assert not {*PLAIN} & {"write", "numbered", "lines"}


def test_prompts_state_every_constraint_once_and_no_two_ask_for_the_same(prepared):
    seen = set()
    for split, prompts in prepared.prompts.items():
        assert len(prompts) == {"train": 60, "valid": 20, "test": 20}[split]
        for prompt in prompts:
            lines = [entry.text for entry in prompt.information]
            text = prompt.messages[-1].content
            assert all(text.count(line) == 1 for line in lines)
            assert 4 <= len(lines) <= 12 and prompt.kind == f"{len(lines)} constraints"
            assert frozenset(lines) not in seen
            seen.add(frozenset(lines))


def test_a_prompt_is_its_own_full_context_and_one_line_can_be_left_out(prepared):
    prompt = prepared.prompts["train"][0]
    chosen = chosen_information(prompt, {})
    assert informed(prompt, chosen, set(chosen)) == prompt.messages
    left = prompt.information[1]
    (message,) = informed(prompt, chosen, set(chosen) - {left.reward})
    assert left.text not in message.content
    assert all(e.text in message.content for e in prompt.information if e != left)


def test_validation_accepts_what_is_generated_and_refuses_what_is_stated_twice(prepared, tmp_path):
    frame = pd.DataFrame(prepared.rows)
    validate_prompts(frame, prepared.limits, tmp_path)
    prompt = prepared.prompts["train"][0]
    twice = replace(prompt, information=(prompt.information[0],) * 2)
    made = preparation.Made(twice, "other", "file", 3)
    frame.loc[0] = preparation.validation_row(made) | {"prompt_size": 1}
    with pytest.raises(DataError, match="stated_fault"):
        validate_prompts(frame, prepared.limits, tmp_path)


def test_validation_refuses_a_reference_that_breaks_a_constraint(prepared):
    prompt = prepared.prompts["train"][0]
    assert preparation.reference_fault(prompt) == ""
    assert preparation.reference_fault(replace(prompt, reference="1 x")).startswith("breaks local")


def test_unknown_constraints_are_a_fault(prepared):
    prompt = prepared.prompts["train"][0]
    payload = json.loads(prompt.payload)
    payload["constraints"][0]["id"] = "local:rhyme"
    broken = replace(prompt, payload=json.dumps(payload))
    assert "unknown constraint 'local:rhyme'" in preparation.constraints_fault(broken)


def test_every_reward_of_the_task_is_given_and_those_of_other_prompts_are_absent(task, prepared):
    prompts = prepared.prompts["train"][:10]
    verdicts = task.verify(prompts, [prompt.reference for prompt in prompts])
    for prompt, verdict in zip(prompts, verdicts, strict=True):
        assert [reward.name for reward in verdict.rewards] == list(NAMES)
        asked = {each.reward for each in constraints_of(prompt)}
        for reward in verdict.rewards:
            expected = (1.0, "ok") if reward.name in asked else (None, "absent")
            assert (reward.value, reward.status) == expected
        assert verdict.metrics == (Reward("followed", 1.0, "ok"), Reward("all", 1.0, "ok"))


def test_followed_is_the_share_of_the_prompts_own_constraints(task, prepared):
    prompt = prepared.prompts["train"][0]
    (verdict,) = task.verify([prompt], ["  "])
    assert [m.value for m in verdict.metrics] == [0.0, 0.0]
    (verdict,) = task.verify([prompt], ["1 rain\n2 owl\n3 of\n4 to"])
    own = [r.value for r in verdict.rewards if r.status == "ok"]
    assert verdict.metrics[0].value == sum(own) / len(own)


def test_a_demonstration_keeps_what_is_told_but_for_noise(task, prepared):
    rng = random.Random(3)
    for prompt in prepared.prompts["train"][:20]:
        names = frozenset(entry.reward for entry in prompt.information)
        right = task.demonstration(prompt, names, {}, rng)
        assert task.verify([prompt], [right])[0].metrics[1].value == 1.0
        wrong = task.demonstration(prompt, names, dict.fromkeys(names, 1.0), rng)
        assert task.verify([prompt], [wrong])[0].metrics[0].value == 0.0


def test_spans_are_those_of_the_prompts_constraints(task):
    data = dict.fromkeys(("train_prompts", "valid_prompts", "test_prompts"), 1)
    data |= dict.fromkeys(("fewest_constraints", "most_constraints"), 12)
    made = preparation.prepare(settings_from({**SMALL, "data": data})).prompts["train"][0]
    given = {each.reward: each.constraint.arguments for each in constraints_of(made)}
    text = made.reference
    spans = task.spans(made, text)
    assert set(spans) == {*NAMES}
    for name, ((start, end),) in spans.items():
        asked, shown = given[name], text[start:end]
        assert shown == asked.get("mark", asked.get("word", ""))
        assert text[:start].splitlines()[-1].strip(" .):-") == f"{asked['line']:02}"


def test_a_text_that_breaks_everything_has_the_same_places_to_blame(task, prepared):
    rng = random.Random(3)
    for prompt in prepared.prompts["train"][:20]:
        rules = {each.reward: each.constraint for each in constraints_of(prompt)}
        text = written(rules, (), frozenset(rules), rng)
        assert task.verify([prompt], [text])[0].metrics[0].value == 0.0
        assert set(task.spans(prompt, text)) == set(rules)


def test_parts_are_the_spans_once_and_in_order(task, prepared):
    prompt = prepared.prompts["train"][0]
    parts = task.parts(prompt, prompt.reference)
    places = [place for part in parts for place in (part.start, part.end)]
    assert places == sorted(places) and places[-1] <= len(prompt.reference)
    assert {part.name for part in parts} == {"constraints"}


def test_the_fewest_constraints_are_not_more_than_the_most():
    with pytest.raises(SettingsError, match="fewest_constraints must not exceed"):
        settings_from({**SMALL, "data": {"fewest_constraints": 5, "most_constraints": 4}})


@pytest.mark.parametrize(("lines", "most"), [(4, 3), (24, 12)])
def test_texts_have_as_many_lines_as_asked_for_each_with_a_rule_at_most(lines, most):
    data = {"lines": lines, "fewest_constraints": most, "most_constraints": most}
    task = get_task(settings_from({**SMALL, "data": {**SMALL["data"], **data}}), Path())
    assert isinstance(task, Instruct)
    assert task.reward_names == names_of(lines)
    assert set(task.noise) == set(names_of(lines))
    assert f"{lines:02}" in task.words and f"{lines + 1:02}" not in task.words
    rng, seen = random.Random(4), set()
    for prompt in task.prepare().prompts["train"]:
        names = frozenset(each.reward for each in constraints_of(prompt))
        assert len(names) == most and names <= set(names_of(lines))
        seen |= names
        answer = task.demonstration(prompt, names, {}, rng)
        assert len(answer.splitlines()) == len(prompt.reference.splitlines()) == lines
        assert task.verify([prompt], [answer])[0].metrics[1].value == 1.0
    assert len(seen) > most


def test_constraints_are_not_more_than_the_lines_of_an_answer():
    with pytest.raises(SettingsError, match="a line has one"):
        settings_from({**SMALL, "data": {"lines": 6}})
    settings_from({"task": "text2sql", "data": {"lines": 6}})


def test_the_tokenizer_keeps_what_rules_and_texts_share_whole():
    assert set(tokens_of(3)) < set(tokens_of()) < set(tokens_of(24))
