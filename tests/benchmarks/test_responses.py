"""Responses of a checkpoint: the file, and going on with it."""

import json

import pytest
from helpers import prompt, text_policy
from sums import Sums, write

from mrtpo.benchmarks import responses
from mrtpo.benchmarks.responses import Response, respond
from mrtpo.benchmarks.score import score_checkpoint
from mrtpo.config import settings_from

PROMPTS = [(q, prompt(n)) for q, n in enumerate((7, 2, 11, 4, 100))]


def made(file, policy=None, prompts=PROMPTS, **changes):
    how = {"made_by": {"model": "tiny"}, "samples": 2, "temperature": 1.0, "max_new_tokens": 6,
           "batch_size": 2, "seed": 0}  # fmt: skip
    return respond(policy or text_policy(), prompts, file, **{**how, **changes})


def test_each_question_has_its_greedy_response_and_its_samples(tmp_path):
    found = made(tmp_path / "r.jsonl")
    assert [(r.question, r.sample) for r in found] == [
        (q, s) for q in range(5) for s in (None, 0, 1)
    ]
    greedy = made(tmp_path / "g.jsonl", samples=0)
    assert greedy == [r for r in found if r.sample is None]


@pytest.mark.parametrize("kept", [0, 1, 4, 9, 14])
def test_a_killed_run_goes_on_to_the_same_responses(tmp_path, kept):
    file = tmp_path / "r.jsonl"
    whole = made(file)
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 16
    # Cut in the middle of a line, as a kill does.
    file.write_text("".join(lines[: 1 + kept]) + lines[1 + kept][:-9])
    assert made(file) == whole
    assert sorted(file.read_text().splitlines()) == sorted(line.rstrip("\n") for line in lines)


def test_what_is_there_is_not_sampled_again(tmp_path, monkeypatch):
    file = tmp_path / "r.jsonl"
    whole = made(file)

    def never(*_, **__):
        raise AssertionError("sampled again")

    monkeypatch.setattr(responses, "generate", never)
    assert made(file) == whole


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"made_by": {"model": "other"}}, "model"),
        ({"temperature": 0.5}, "temperature"),
        ({"seed": 1}, "seed"),
        ({"max_new_tokens": 5}, "max_new_tokens"),
        ({"prompts": PROMPTS[:3]}, "prompts"),
    ],
)
def test_responses_made_otherwise_are_not_mixed_in(tmp_path, change, named):
    file = tmp_path / "r.jsonl"
    made(file)
    before = file.read_text()
    with pytest.raises(ValueError, match=rf"r\.jsonl: .*\({named} differ\).*--out"):
        made(file, **change)
    assert file.read_text() == before


def test_a_response_keeps_its_text_whatever_is_in_it(tmp_path):
    file = tmp_path / "r.jsonl"
    whole = made(file, samples=0)
    lines = file.read_text().splitlines()
    odd = "a\u2028b\x85c\n\x00"
    lines[1] = json.dumps({**json.loads(lines[1]), "response": odd})
    file.write_text("\n".join(lines) + "\n")
    first = json.loads(lines[1])["question"]
    found = {r.question: r for r in made(file, samples=0)}
    assert found[first] == Response(first, None, odd, whole[first].finished)


def test_a_checkpoint_is_scored_from_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text_policy().save(tmp_path / "model")
    settings = settings_from({"sampling": {"max_new_tokens": 4}, "evaluate": {"batch_size": 2}})
    benchmark = Sums(write(tmp_path / "sums", 6))
    out = tmp_path / "v.jsonl"
    first = score_checkpoint(benchmark, "model", settings, out, samples=2, limit=3)
    assert first.counts["questions"] == 3
    assert first.counts["answers"] == 9
    assert "mean@2/right" in first.scores
    assert score_checkpoint(benchmark, "model", settings, out, samples=2, limit=3) == first
    text_policy(seed=1).save(tmp_path / "model")
    with pytest.raises(ValueError, match="weights differ"):
        score_checkpoint(benchmark, "model", settings, out, samples=2, limit=3)
