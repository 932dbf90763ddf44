"""Placements of credit for baselines and controls, against loops over Python numbers."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

import pytest
import torch
from helpers import mask_of
from torch import Tensor

from mrtpo.spread import cort_weights, entropy, lexemes, permuted, pooled, shuffled, words

LENGTHS = [7, 1, 12, 3, 5, 12, 2, 9]
GROUPS = [5, -2, 5, 5, -2, 8, 5, -2]  # interleaved; one group of a single row


def weighed(count: int, seed: int, share: float) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of many sizes, some exactly 0 and one pair without any; live pairs; the mask."""
    generator = torch.Generator().manual_seed(seed)
    mask_BT = mask_of(LENGTHS)
    shape = (len(LENGTHS), count, mask_BT.shape[1])
    weights_BKT = torch.rand(shape, generator=generator, dtype=torch.float64) ** 4 * 3
    weights_BKT *= torch.rand(shape, generator=generator) < 0.8
    weights_BKT[2, 0] = 0.0
    live_BK = torch.rand(shape[:2], generator=generator) < share
    return weights_BKT * mask_BT[:, None], live_BK, mask_BT


def slow_placed(own: list[float], placement: list[float] | None) -> list[float]:
    mass = sum(own)
    if placement is None or sum(placement) == 0:
        return [mass / len(own)] * len(own)
    return [mass * p / sum(placement) for p in placement]


def slow_shuffled(weights: Tensor, live: Tensor, groups: list[int]) -> Tensor:
    out = weights.clone()
    for b, length in enumerate(LENGTHS):
        for k in range(weights.shape[1]):
            if not live[b, k]:
                continue
            after = [*range(b + 1, len(LENGTHS)), *range(b)]
            others = [j for j in after if groups[j] == groups[b] and live[j, k]]
            placement = None
            if others:
                row = weights[others[0], k].tolist()
                placement = [row[t * LENGTHS[others[0]] // length] for t in range(length)]
            made = slow_placed(weights[b, k, :length].tolist(), placement)
            out[b, k, :length] = torch.tensor(made, dtype=torch.float64)
    return out


def slow_permuted(weights: Tensor, live: Tensor) -> Tensor:
    out = weights.clone()
    count = weights.shape[1]
    for b, length in enumerate(LENGTHS):
        for k in range(count):
            if not live[b, k]:
                continue
            others = [j % count for j in range(k + 1, k + count) if live[b, j % count]]
            placement = weights[b, others[0], :length].tolist() if others else None
            made = slow_placed(weights[b, k, :length].tolist(), placement)
            out[b, k, :length] = torch.tensor(made, dtype=torch.float64)
    return out


@pytest.mark.parametrize("count", [1, 2, 3, 16])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_controls_equal_the_loops_and_keep_each_mass(count: int, share: float) -> None:
    for seed in range(4):
        weights_BKT, live_BK, mask_BT = weighed(count, seed, share)
        by_row = shuffled(weights_BKT, live_BK, torch.tensor(GROUPS), mask_BT)
        by_reward = permuted(weights_BKT, live_BK, mask_BT)
        torch.testing.assert_close(by_row, slow_shuffled(weights_BKT, live_BK, GROUPS))
        torch.testing.assert_close(by_reward, slow_permuted(weights_BKT, live_BK))
        for made_BKT in (by_row, by_reward):
            torch.testing.assert_close(made_BKT.sum(2), weights_BKT.sum(2))
            assert torch.equal(made_BKT[~live_BK], weights_BKT[~live_BK])
            assert (made_BKT * (1 - mask_BT)[:, None] == 0).all()


def test_shuffled_by_hand() -> None:
    weights_BKT = torch.zeros(4, 1, 4)
    weights_BKT[0, 0] = torch.tensor([0.0, 0.0, 0.0, 4.0])
    weights_BKT[1, 0, :2] = torch.tensor([1.0, 3.0])
    weights_BKT[2, 0, :2] = torch.tensor([2.0, 0.0])
    weights_BKT[3, 0, :2] = torch.tensor([0.5, 1.5])
    live_BK = torch.tensor([[True], [True], [False], [True]])
    made = shuffled(weights_BKT, live_BK, torch.tensor([1, 1, 1, 2]), mask_of([4, 2, 2, 2]))
    assert made[0, 0].tolist() == [0.5, 0.5, 1.5, 1.5]  # row 1 stretched, with the mass of row 0
    # Tokens 0 and 2 of row 0 hold nothing of it, so there is no placement to take.
    assert made[1, 0].tolist() == [2.0, 2.0, 0.0, 0.0]
    assert made[2, 0].tolist() == [2.0, 0.0, 0.0, 0.0]  # not live
    assert made[3, 0].tolist() == [1.0, 1.0, 0.0, 0.0]  # alone in its group


def test_permuted_by_hand() -> None:
    weights_BKT = torch.tensor(
        [[[1.0, 3.0], [5.0, 5.0], [6.0, 2.0]], [[1.0, 3.0], [5.0, 5.0], [6.0, 2.0]]]
    )
    live_BK = torch.tensor([[True, False, True], [False, False, True]])
    made = permuted(weights_BKT, live_BK, torch.ones(2, 2))
    assert made[0].tolist() == [[3.0, 1.0], [5.0, 5.0], [2.0, 6.0]]
    assert made[1].tolist() == [[1.0, 3.0], [5.0, 5.0], [4.0, 4.0]]


def test_controls_do_not_change_what_they_are_given_nor_read_the_padding() -> None:
    weights_BKT, live_BK, mask_BT = weighed(3, 0, 0.7)
    before = weights_BKT.clone()
    dirty_BKT = weights_BKT + 50.0 * (1 - mask_BT)[:, None]
    group_B = torch.tensor(GROUPS)
    clean = shuffled(weights_BKT, live_BK, group_B, mask_BT)
    assert torch.equal(shuffled(dirty_BKT, live_BK, group_B, mask_BT)[live_BK], clean[live_BK])
    clean = permuted(weights_BKT, live_BK, mask_BT)
    assert torch.equal(permuted(dirty_BKT, live_BK, mask_BT)[live_BK], clean[live_BK])
    assert torch.equal(weights_BKT, before)


def test_an_empty_response_is_nobodys_placement() -> None:
    weights_BKT = torch.tensor([[[1.0, 3.0]], [[0.0, 0.0]], [[3.0, 0.0]]])
    live_BK = torch.ones(3, 1, dtype=torch.bool)
    made = shuffled(weights_BKT, live_BK, torch.zeros(3), mask_of([2, 0, 2]))
    assert made[:, 0].tolist() == [[4.0, 0.0], [0.0, 0.0], [0.75, 2.25]]


@pytest.mark.parametrize("strength", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(("sharpness", "offset"), [(1.0, 0.0), (5.0, 0.3), (-2.0, -1.0)])
def test_cort_weights_equal_the_loops(strength: float, sharpness: float, offset: float) -> None:
    mask_BT = mask_of(LENGTHS)
    generator = torch.Generator().manual_seed(3)
    delta_BT = 2 * torch.randn(mask_BT.shape, generator=generator, dtype=torch.float64)
    made_BT = cort_weights(delta_BT, mask_BT, strength=strength, sharpness=sharpness, offset=offset)
    for b, length in enumerate(LENGTHS):
        raised = [
            1 + strength * (1 / (1 + math.exp(-sharpness * (d - offset))) - 0.5)
            for d in delta_BT[b, :length].tolist()
        ]
        slow = [r / (sum(raised) / length) for r in raised]
        assert made_BT[b, :length].tolist() == pytest.approx(slow, rel=1e-12)
        assert (made_BT[b, length:] == 0).all()
    for garbage in (math.nan, math.inf, -math.inf):
        dirty_BT = torch.where(mask_BT.bool(), delta_BT, garbage)
        again_BT = cort_weights(
            dirty_BT, mask_BT, strength=strength, sharpness=sharpness, offset=offset
        )
        assert torch.equal(again_BT, made_BT)


def test_cort_weights_of_nothing_are_even() -> None:
    delta_BT = torch.tensor([[-1e9, -1e9, 0.0], [-1e9, 1e9, 0.0]])
    made = cort_weights(delta_BT, mask_of([2, 2, 3])[:2], strength=2.0, sharpness=1.0, offset=0.0)
    assert made.tolist() == [[1.0, 1.0, 0.0], [0.0, 2.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_entropy_equals_the_loops_also_with_tokens_of_probability_zero(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(20, 9, generator=generator, dtype=torch.float64)
    logits *= torch.logspace(-2, 2, 20, dtype=torch.float64)[:, None]
    logits[5:9, :4] = -math.inf
    logits[9, 1:] = -math.inf  # certain
    made_N = entropy(logits.log_softmax(-1).to(dtype))
    slow = []
    for row in logits.tolist():
        total = sum(math.exp(x - max(row)) for x in row)
        p = [math.exp(x - max(row)) / total for x in row]
        slow.append(-sum(x * math.log(x) for x in p if x > 0))
    assert made_N.tolist() == pytest.approx(slow, rel=1e-5, abs=1e-6)
    assert made_N[9] == 0
    assert float(entropy(torch.full((1, 8), -math.log(8.0)))) == pytest.approx(math.log(8))


def slow_lexeme_end(text: str, i: int) -> int:
    """Where the lexical unit that begins at i ends, one character at a time."""
    c = text[i]
    if c == "<":
        j = i + 2 if text[i + 1 : i + 2] == "/" else i + 1
        if j < len(text) and (text[j] == "_" or (text[j].isalnum() and not text[j].isdecimal())):
            while j < len(text) and (text[j].isalnum() or text[j] in "_-"):
                j += 1
            if text[j : j + 2] == "/>":
                return j + 2
            if text[j : j + 1] == ">":
                return j + 1
    if c in "'\"`":
        j = i + 1
        while j < len(text) and text[j] != "\n":
            if text[j] == "\\":
                j += 1 if text[j + 1 : j + 2] in ("\n", "") else 2
            elif text[j : j + 2] == c + c:
                j += 2
            elif text[j] == c:
                return j + 1
            else:
                j += 1
        return j
    if c.isdecimal() or (c == "." and text[i + 1 : i + 2].isdecimal()):
        j = i
        while text[j : j + 1].isdecimal():
            j += 1
        if text[j : j + 1] == "." and text[j + 1 : j + 2].isdecimal():
            j += 1
            while text[j : j + 1].isdecimal():
                j += 1
        if text[j : j + 1] in ("e", "E"):
            e = j + 2 if text[j + 1 : j + 2] in ("+", "-") else j + 1
            if text[e : e + 1].isdecimal():
                j = e
                while text[j : j + 1].isdecimal():
                    j += 1
        return j
    if c.isalnum() or c == "_":
        j = i
        while j < len(text) and (text[j].isalnum() or text[j] == "_"):
            j += 1
        return j
    for operator in ("->>", "->", ">=", "<=", "<>", "!=", "==", "||", "::"):
        if text.startswith(operator, i):
            return i + len(operator)
    return i + 1


def slow_word_end(text: str, i: int) -> int:
    def kind(c: str) -> str:
        return "space" if c.isspace() else "word" if c.isalnum() or c == "_" else "other"

    j = i
    while j < len(text) and kind(text[j]) == kind(text[i]):
        j += 1
    return j


def slow_units(pieces: Sequence[str], end_of: Callable[[str, int], int]) -> list[int]:
    text = "".join(pieces)
    unit_at, i, count = [-1] * len(text), 0, 0
    while i < len(text):
        if text[i].isspace():
            i += 1
            continue
        end = end_of(text, i)
        unit_at[i:end] = [count] * (end - i)
        count, i = count + 1, end
    numbers, start = [], 0
    for piece in pieces:
        solid = [i for i in range(start, len(text)) if not text[i].isspace()]
        numbers.append(unit_at[solid[0]] if solid else count)
        start += len(piece)
    return numbers


def spelled(units: Callable[[Sequence[str]], list[int]], text: str) -> list[str]:
    """The units of a text, read off its single characters, without white space around them."""
    parts: dict[int, str] = {}
    for character, unit in zip(text, units(list(text)), strict=True):
        parts[unit] = parts.get(unit, "") + character
    return [part.strip() for part in parts.values()]


@pytest.mark.parametrize("alphabet", [
    "ab1.eE+-'\"`\\\n <>/=!|:>,(é_\t", "<>/a-", "'\\\n a", "1.e+-", "é日٣ \u2003_½'²</>.e",
])  # fmt: skip
def test_units_equal_the_loops_on_random_texts_cut_at_random(alphabet: str) -> None:
    rng = random.Random(alphabet)
    for _ in range(400):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 40)))
        cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 25)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert words(pieces) == slow_units(pieces, slow_word_end), pieces
        assert lexemes(pieces) == slow_units(pieces, slow_lexeme_end), pieces


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT a.b, 'it''s' FROM t1",
     ["SELECT", "a", ".", "b", ",", "'it''s'", "FROM", "t1"]),
    ("x>=30 AND y<>1.5e-3 OR z!=.5", ["x", ">=", "30", "AND", "y", "<>", "1.5e-3", "OR", "z",
                                      "!=", ".5"]),
    ("<think>so</think>\n<answer/>", ["<think>", "so", "</think>", "<answer/>"]),
    ("a<b AND c>d", ["a", "<", "b", "AND", "c", ">", "d"]),
    ('{"k\\"1": -2, "l": []}', ["{", '"k\\"1"', ":", "-", "2", ",", '"l"', ":", "[", "]", "}"]),
    ("'open, to\nthe end'", ["'open, to", "the", "end", "'"]),
    ("`a b`||\"c \"\"d\"::text", ["`a b`", "||", '"c ""d"', "::", "text"]),
    ("a->>'$.b' == 3.", ["a", "->>", "'$.b'", "==", "3", "."]),
    ("''", ["''"]),
    ("'a\\'b' c", ["'a\\'b'", "c"]),
])  # fmt: skip
def test_lexemes_by_hand(text: str, expected: list[str]) -> None:
    assert spelled(lexemes, text) == expected


def test_words_by_hand() -> None:
    text = "Don't stop: x_1>=30,\n  naïve 日本!"
    expected = ["Don", "'", "t", "stop", ":", "x_1", ">=", "30", ",", "naïve", "日本", "!"]
    assert spelled(words, text) == expected


def test_tokens_belong_where_their_first_character_lies_and_space_to_what_follows() -> None:
    pieces = ["SEL", "ECT", " ", " na", "me(", ")", "", "é", "\n", ""]
    assert words(pieces) == [0, 0, 1, 1, 1, 2, 3, 3, 4, 4]
    assert lexemes(pieces) == [0, 0, 1, 1, 1, 3, 4, 4, 5, 5]
    assert lexemes(["'", " ", "a", " ", "b", "'", " c"]) == [0, 0, 0, 0, 0, 0, 1]
    for units in (words, lexemes):
        assert units([]) == []
        assert units(["", " ", ""]) == [0, 0, 0]


@pytest.mark.parametrize("unit", [
    "<", "<a", "'", "\\", "''", "'\\", "a", "1", "1e", "1.", " ", "\"a'", "<a-", "</a/", "`\n", "",
])  # fmt: skip
def test_units_take_time_linear_in_the_text(unit: str) -> None:
    def seconds(times: int) -> float:
        pieces = [unit] * times
        best = math.inf
        for _ in range(3):
            start = time.perf_counter()
            lexemes(pieces)
            words(pieces)
            lexemes(["'" + unit * times])
            best = min(best, time.perf_counter() - start)
        return best

    # 16 times the text: about 16 times as long, against 256 times if it were quadratic.
    assert seconds(32_000) < 80 * max(seconds(2_000), 1e-4)


def slow_pooled(distance: list[float], units: list[int]) -> list[float]:
    means = {}
    for unit in units:
        members = [d for d, u in zip(distance, units, strict=True) if u == unit]
        means[unit] = sum(members) / len(members)
    return [means[unit] for unit in units]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("spread_of_units", [1, 3, 40])
def test_pooled_equals_the_loops_and_keeps_each_sum(
    dtype: torch.dtype, spread_of_units: int
) -> None:
    mask_BT = mask_of(LENGTHS)
    generator = torch.Generator().manual_seed(6)
    distance_BT = torch.rand(mask_BT.shape, generator=generator, dtype=torch.float64) ** 5
    unit_BT = torch.randint(spread_of_units, mask_BT.shape, generator=generator)
    made_BT = pooled(distance_BT.to(dtype), unit_BT, mask_BT)
    assert made_BT.dtype == dtype
    for b, length in enumerate(LENGTHS):
        slow = slow_pooled(distance_BT[b, :length].tolist(), unit_BT[b, :length].tolist())
        assert made_BT[b, :length].tolist() == pytest.approx(slow, rel=1e-5)
        assert float(made_BT[b].sum()) == pytest.approx(float(distance_BT[b, :length].sum()), 1e-5)
        assert (made_BT[b, length:] == 0).all()
    for garbage, number in ((math.nan, -1), (math.inf, 10**9)):
        padding_BT = mask_BT == 0
        again_BT = pooled(
            distance_BT.to(dtype).masked_fill(padding_BT, garbage),
            unit_BT.masked_fill(padding_BT, number),
            mask_BT,
        )
        assert torch.equal(again_BT, made_BT)


def test_pooled_by_hand_with_rows_that_share_numbers_but_not_units() -> None:
    made = pooled(
        torch.tensor([[1.0, 3.0, 5.0, 9.0], [2.0, 4.0, 9.0, 9.0]]),
        torch.tensor([[0, 0, 1, 1], [0, 2, 0, 0]]),
        mask_of([3, 2, 4])[:2],
    )
    assert made.tolist() == [[2.0, 2.0, 5.0, 0.0], [2.0, 4.0, 0.0, 0.0]]
    assert (pooled(torch.ones(1, 2), torch.tensor([[3, 3]]), torch.zeros(1, 2)) == 0).all()


def test_pooling_by_lexemes_shares_a_distance_over_the_whole_literal() -> None:
    pieces = ["WHERE", " x", " =", " '", "tele", "fone", "'"]
    distance_BT = torch.tensor([[0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0]])
    made = pooled(distance_BT, torch.tensor([lexemes(pieces)]), torch.ones(1, 7))
    assert made.tolist() == [[0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]]


def test_every_character_is_part_of_a_unit_or_white_space() -> None:
    for c in map(chr, range(0x3100)):
        expected = [0, 0] if c.isspace() else [0, 1]
        assert words([c, ""]) == lexemes([c, ""]) == expected, c
