"""Digests of results against equality as sets."""

import itertools
import random

from mrtpo.verifiers.sql_metrics import result_digest
from mrtpo.verifiers.sql_results import bird_equal

CELLS = [0, 1, 1.0, -0.0, 0.5, 2**53, 2.0**53, 2**53 + 1, float("inf"), "1", "1.0", "", None,
         "None", b"1", b"", "a\nb", "'", '"', "é", "\udc80"]  # fmt: skip


def test_digests_are_equal_just_if_results_are_equal_as_sets():
    for one, other in itertools.product(CELLS, repeat=2):
        same = bird_equal([(one,)], [(other,)])
        assert (result_digest([(one,)]) == result_digest([(other,)])) == same, (one, other)
    rng = random.Random(1)
    agreeing = 0
    for _ in range(3000):
        results = [
            [
                tuple(rng.choice([1, 1.0, "1", None]) for _ in range(2))
                for _ in range(rng.randint(0, 2))
            ]
            for _ in range(2)
        ]
        same = bird_equal(*results)
        agreeing += same
        assert (result_digest(results[0]) == result_digest(results[1])) == same
    assert agreeing > 100


def test_text_cannot_imitate_a_border_between_rows():
    assert result_digest([("a",), ("b",)]) != result_digest([("a',)\n('b",)])
