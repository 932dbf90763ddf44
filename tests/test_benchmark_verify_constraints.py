"""The constraints that the verification script times beside those of the benchmarks."""

from benchmarks.verify_constraints import embedded
from mrtpo.tasks.instruct.synthetic import PREFIX
from mrtpo.verifiers.constraints import KINDS, check


def test_every_kind_of_the_embedded_task_is_timed_on_a_text_that_keeps_it():
    found = list(embedded())
    assert {rule.id for rule, _ in found} == {id for id in KINDS if id.startswith(PREFIX)}
    assert all(check(rule.id, rule.arguments, text).passed for rule, text in found)
