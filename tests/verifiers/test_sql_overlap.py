"""BIRD's Soft-F1 and QATCH's scores against plain arithmetic, free of a process's hashes."""

import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

from mrtpo.verifiers.sql_overlap import (
    bird_soft_f1,
    cell_precision,
    cell_recall,
    tuple_cardinality,
)

QATCH = (cell_precision, cell_recall, tuple_cardinality)


def f1_of_lists(gold, predicted):
    """The metric on rows that stand in a given order, without duplicates."""
    true = false = missed = 0.0
    for i in range(max(len(gold), len(predicted))):
        if i >= len(predicted):
            missed += 1
        elif i >= len(gold):
            false += 1
        else:
            width = len(gold[i])
            true += len([c for c in predicted[i] if c in gold[i]]) / width
            false += len([c for c in predicted[i] if c not in gold[i]]) / width
            missed += len([c for c in gold[i] if c not in predicted[i]]) / width
    precision = true / (true + false) if true + false else 0
    recall = true / (true + missed) if true + missed else 0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0


def some_rows(rng, cells, columns):
    return [tuple(rng.choice(cells) for _ in range(columns)) for _ in range(rng.randint(0, 6))]


def test_rows_of_numbers_score_as_python_sets_order_them():
    rng = random.Random(5)
    scores = set()
    for _ in range(1500):
        columns = rng.randint(1, 4)
        gold = some_rows(rng, [0, 1, 2, 3, 2.5, 7], columns)
        predicted = some_rows(rng, [0, 1.0, 2, 3, 2.5, 7], rng.choice([columns, columns, 2]))
        if rng.random() < 0.4:
            predicted = gold[: rng.randint(0, 6)] + predicted[: rng.randint(0, 2)]
        expected = 1.0
        if gold or predicted:
            expected = f1_of_lists(list(set(gold)), list(set(predicted)))
        score = bird_soft_f1(gold, predicted)
        assert score == pytest.approx(expected, abs=1e-12)
        scores.add(round(score, 6))
    assert len(scores) > 50


def test_rows_of_texts_score_as_some_order_of_them_does():
    rng = random.Random(6)
    graded = 0
    for _ in range(200):
        gold = list(dict.fromkeys(some_rows(rng, ["a", "b", "c", None, 1, b"a"], 3)))[:4]
        predicted = list(dict.fromkeys(some_rows(rng, ["a", "b", "d", None, 1], 3)))[:4]
        possible = {
            round(f1_of_lists(g, p), 9)
            for g in itertools.permutations(gold)
            for p in itertools.permutations(predicted)
        }
        score = bird_soft_f1(gold, predicted)
        if gold or predicted:
            assert round(score, 9) in possible
            graded += 0 < score < 1
    assert graded > 100


def test_duplicates_do_not_count():
    gold, predicted = [("a", 1), ("b", 2), ("c", 3)], [("b", 2), ("a", 1), ("x", 3)]
    score = bird_soft_f1(gold, predicted)
    assert 0 < score < 1
    assert bird_soft_f1(gold * 3, predicted[::-1] * 2) == score


def test_column_order_and_repeats_within_a_row_are_not_seen():
    assert bird_soft_f1([(1, "a")], [("a", 1)]) == 1
    assert bird_soft_f1([(1, 2)], [(1, 1)]) == pytest.approx(2 / (2 + 0.5))


def test_empty_results():
    assert bird_soft_f1([], []) == 1
    assert bird_soft_f1([], [(1,)]) == 0
    assert bird_soft_f1([(1,)], []) == 0


def test_a_missing_column_costs_recall_and_one_too_many_costs_precision():
    assert bird_soft_f1([("a", 1)], [("a",)]) == pytest.approx(2 / 3)
    assert bird_soft_f1([("a",)], [("a", 1)]) == pytest.approx(2 / 3)


def test_the_score_is_the_same_in_every_process():
    root = str(Path(__file__).resolve().parents[2])
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from mrtpo.verifiers.sql_overlap import bird_soft_f1\n"
        "gold = [(f'n{i}', i % 5, None) for i in range(40)]\n"
        "print(bird_soft_f1(gold, [(a, b + 1, c) for a, b, c in gold[3:]]))"
    )
    scores = {
        subprocess.run(
            [sys.executable, "-S", "-c", code, root],
            env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(scores) == 1
    assert 0 < float(scores.pop()) < 1


def test_qatch_scores_by_hand():
    gold = [("a", "b"), ("c", "d")]
    assert [score(gold, gold) for score in QATCH] == [1, 1, 1]
    assert [score(gold, [("a", "b"), ("c", "e")]) for score in QATCH] == [0.75, 0.75, 1]
    # Neither places nor repeats of a cell matter, only which cells there are.
    assert [score(gold, [("a",), ("b",), ("c",), ("d",)]) for score in QATCH] == [1, 1, 0.5]
    assert [score(gold, [("a", "a"), ("a", "x"), ("x", "x")]) for score in QATCH] == [
        0.5, 0.25, 0.667,
    ]  # fmt: skip
    assert [score([(1, None)], [(1.0, "1")]) for score in QATCH] == [0.5, 0.5, 1]
    assert [score([], []) for score in QATCH] == [1, 1, 1]
    assert [score(gold, []) for score in QATCH] == [score([], gold) for score in QATCH] == [0, 0, 0]


def test_qatch_scores_agree_with_counting():
    rng = random.Random(8)
    for _ in range(500):
        gold = some_rows(rng, [0, 1, 2, "a", None], 2)
        predicted = some_rows(rng, [0, 1.0, 3, "a", "b"], 2)
        if not gold or not predicted:
            continue
        wanted, given = [], []
        for cells, rows in ((wanted, gold), (given, predicted)):
            for cell in (cell for row in rows for cell in row):
                if cell not in cells:
                    cells.append(cell)
        common = len([cell for cell in given if cell in wanted])
        sizes = sorted((len(gold), len(predicted)))
        expected = [common / len(given), common / len(wanted), sizes[0] / sizes[1]]
        assert [score(gold, predicted) for score in QATCH] == [
            round(value, 3) for value in expected
        ]
