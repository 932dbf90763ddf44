"""EHRSQL's F1 of answering, against the definition in precision and recall."""

import random

import pytest

from mrtpo.benchmarks.abstention import Reply, abstains, reliability


def by_definition(replies, hit):
    hits = sum(hit(r) for r in replies if r.answered and r.answerable)
    answered, answerable = sum(r.answered for r in replies), sum(r.answerable for r in replies)
    if not hits:
        return 0.0
    precision, recall = hits / answered, hits / answerable
    return 2 * precision * recall / (precision + recall)


def test_both_scores_follow_the_definition():
    rng = random.Random(0)
    for size in range(1, 60):
        replies = [
            Reply(rng.random() < 0.7, rng.random() < 0.8, rng.random() < 0.6) for _ in range(size)
        ]
        found = reliability(replies)
        assert found["f1_ans"] == pytest.approx(by_definition(replies, lambda r: True))
        assert found["f1_exec"] == pytest.approx(by_definition(replies, lambda r: r.right))


def test_answering_everything_costs_precision_and_nothing_gives_zero():
    replies = [Reply(True, True, True), Reply(False, True, None)]
    assert reliability(replies) == pytest.approx({"f1_ans": 2 / 3, "f1_exec": 2 / 3})
    assert reliability([Reply(True, False, None)]) == {"f1_ans": 0.0, "f1_exec": 0.0}


def test_what_could_not_be_judged_leaves_the_second_score_open():
    assert reliability([Reply(True, True, None)]) == {"f1_ans": 1.0, "f1_exec": None}


@pytest.mark.parametrize("sql", ["", " null ", "NULL;", "\n"])
def test_an_abstention_is_null_or_nothing(sql):
    assert abstains(sql)
    assert not abstains(f"select {sql or 1}")
