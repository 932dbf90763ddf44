"""The composer: what it states, what it never asks together, and that it can be followed."""

import random
import re
from itertools import combinations

import pytest

from mrtpo.tasks.instruct.compose import MOST, compatible, compose
from mrtpo.tasks.instruct.palette import (
    CONFLICTS,
    END_PHRASES,
    FIRST_WORDS,
    LAST_WORDS,
    RECIPES,
    WORDS,
)
from mrtpo.tasks.instruct.witness import FILLERS, witness
from mrtpo.verifiers.constraints import (
    KINDS,
    Constraint,
    MissingDataError,
    check,
    constraint,
    require_data_of,
)

PROMPTS = [f"Tell me about topic {i}, please." for i in range(60)]


@pytest.fixture(scope="module", autouse=True)
def _data():
    try:
        require_data_of(RECIPES)
    except MissingDataError as error:
        pytest.skip(str(error))


def drawn(id, seed=0):
    rng = random.Random(f"{id} {seed}")
    words = iter(rng.sample(WORDS, len(WORDS)))
    return constraint(id, RECIPES[id].draw(rng, words))


@pytest.mark.parametrize("count", range(1, MOST + 1))
def test_each_constraint_is_stated_once_in_a_line_that_can_be_taken_out(count):
    made = compose(PROMPTS[0], count, random.Random(count))
    assert len(made.constraints) == len(made.sentences) == len(made.lines) == count
    assert len({c.id for c in made.constraints}) == count
    assert made.text.startswith(f"{PROMPTS[0]}\n\n")
    assert made.text.split("\n")[-count:] == list(made.lines)
    for line in made.lines:
        assert made.text.count(line) == 1
        left = made.text.replace(line, "")
        assert all((other in left) is (other != line) for other in made.lines)


def test_the_seed_decides_and_every_kind_is_drawn():
    def made(seeds):
        return [compose(PROMPTS[seed], 1 + seed % MOST, random.Random(seed)) for seed in seeds]

    first = made(range(len(PROMPTS)))
    assert first == made(range(len(PROMPTS)))
    assert first[0] != compose(PROMPTS[0], 1, random.Random(1))
    assert {c.id for m in first for c in m.constraints} == set(RECIPES)


def test_wordings_vary_and_each_states_every_argument():
    for id, recipe in RECIPES.items():
        found = drawn(id)
        kind = KINDS[id]
        shown = {n: kind.arguments[n].shown(v) for n, v in found.arguments.items()}
        sentences = [text.format(**shown) for text in (kind.sentence, *recipe.wordings)]
        assert len(set(sentences)) == len(sentences) > 1
        for text in sentences:
            assert all(value in text for value in shown.values()), (id, text)
            assert "{" not in text and "\n" not in text
    made = [compose(PROMPTS[0], 6, random.Random(seed)) for seed in range(40)]
    commas = {s for m in made for c, s in zip(m.constraints, m.sentences, strict=True)
              if c.id == "punctuation:no_comma"}  # fmt: skip
    assert len(commas) == 3


def test_a_word_is_asked_about_once_and_never_one_of_the_prompt():
    prompt = f"Compare these: {' '.join(WORDS[:30])}."
    for seed in range(60):
        words = [
            word
            for found in compose(prompt, 10, random.Random(seed)).constraints
            if found.id.startswith("keywords:") and found.id != "keywords:letter_frequency"
            for value in found.arguments.values()
            for word in (value if isinstance(value, tuple) else [value])
            if word in WORDS
        ]
        assert len(words) == len(set(words))
        assert not set(words) & set(WORDS[:30])


def test_words_are_not_part_of_each_other_or_of_what_else_is_asked():
    for one, other in combinations(WORDS, 2):
        assert one not in other and other not in one
    rest = " ".join([*END_PHRASES, *FIRST_WORDS, *LAST_WORDS, *FILLERS.values()]).lower()
    assert not [word for word in WORDS if word in rest]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("change_case:english_lowercase", {}), ("change_case:english_capital", {})),
        (("punctuation:no_comma", {}), ("count:punctuation", {})),
        (("language:response_language", {"language": "de"}),
         ("keywords:existence", {"keywords": ["river"]})),
        (("first_word:first_word_answer", {"first_word": "Once"}), ("startend:quotation", {})),
        (("first_word:first_word_answer", {"first_word": "Once"}),
         ("detectable_format:title", {})),
        (("startend:end_checker", {"end_phrase": "That is it"}),
         ("last_word:last_word_answer", {"last_word": "here"})),
        (("count:numbers", {"N": 1}),
         ("detectable_format:multiple_sections", {"section_spliter": "Part", "num_sections": 2})),
        (("length_constraints:number_words", {"num_words": 40, "relation": "less than"}),
         ("length_constraints:number_paragraphs", {"num_paragraphs": 4})),
        (("length_constraints:number_words", {"num_words": 40, "relation": "less than"}),
         ("exact:sentence_range", {"min_sentences": 9, "max_sentences": 10})),
        (("length_constraints:number_sentences", {"num_sentences": 4, "relation": "less than"}),
         ("count:punctuation", {})),
        (("punctuation:no_comma", {}), ("punctuation:no_comma", {})),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_together_is_not_compatible(one, other):
    pair = [constraint(*one), constraint(*other)]
    assert not compatible(pair)
    assert compatible(pair[:1]) and compatible(pair[1:])


def test_conflicts_are_of_two_kinds_of_the_palette_and_have_a_reason():
    for pair, why in CONFLICTS.items():
        assert len(pair) == 2 and pair <= set(RECIPES)
        assert why


@pytest.mark.parametrize("id", RECIPES)
def test_every_pair_of_kinds_that_is_allowed_can_be_followed(id):
    """For each pair, arguments are drawn until they fit in numbers; a text that follows both is
    then built."""
    for other in RECIPES:
        if other <= id or frozenset((id, other)) in CONFLICTS:
            continue
        pairs = ([drawn(id, seed), drawn(other, seed)] for seed in range(20))
        pair = next(p for p in pairs if compatible(p) and not _share_words(p))
        assert witness(pair), pair


def _share_words(pair):
    words = [set(re.findall("[a-z]+", repr(c.arguments).lower())) & set(WORDS) for c in pair]
    return bool(words[0] & words[1])


@pytest.mark.parametrize("seed", range(12))
def test_twelve_constraints_at_once_can_be_followed(seed):
    made = compose(PROMPTS[seed], MOST, random.Random(seed))
    text = witness(made.constraints)
    assert text is not None, made.constraints
    assert all(check(c.id, c.arguments, text).passed for c in made.constraints)


def test_the_witness_does_not_pass_what_contradicts_itself():
    both = [Constraint("change_case:english_capital", {}),
            Constraint("change_case:english_lowercase", {})]  # fmt: skip
    assert witness(both) is None


@pytest.mark.parametrize("count", [0, MOST + 1])
def test_more_than_twelve_or_none_is_an_error(count):
    with pytest.raises(ValueError, match="1 to 12 are possible"):
        compose("Tea?", count, random.Random(0))


def test_too_few_kinds_that_go_together_are_an_error():
    kinds = ["change_case:english_capital", "change_case:english_lowercase"]
    with pytest.raises(ValueError, match="no 2 constraints that go together"):
        compose("Tea?", 2, random.Random(0), kinds)


def test_a_prompt_that_has_a_line_of_the_list_already_gets_another_wording():
    prompt = "Tell me.\n- Avoid commas."
    for seed in range(20):
        made = compose(prompt, 1, random.Random(seed), ["punctuation:no_comma"])
        assert made.lines != ("- Avoid commas.",)
