"""Constraints in killable processes: the same verdicts, and a bound on time."""

import time
from pathlib import Path

import pytest
from constraint_cases import need_data
from test_constraints import CASES

from mrtpo.verifiers.constraints import (
    MOST_CHARACTERS,
    Constraint,
    MissingDataError,
    check,
    constraint,
)
from mrtpo.verifiers.constraints.verifier import ConstraintVerifier

NO_COMMA = constraint("punctuation:no_comma")


def test_processes_give_the_verdicts_of_this_one():
    need_data(list(CASES))
    constraints = [constraint(id, case.arguments) for id, case in CASES.items()]
    responses = ["Go home, now. It is late? Yes! \ud800", "", "[" * 5000, *map(str, range(3))]
    with ConstraintVerifier(seconds=30) as verifier:
        found = verifier.run([(response, constraints) for response in responses])
    expected = [[check(c.id, c.arguments, r) for c in constraints] for r in responses]
    assert found == expected


def test_only_the_check_that_takes_too_long_is_stopped():
    need_data(["count:pronouns"])
    slow = constraint("count:pronouns", {"N": 1})
    with ConstraintVerifier(processes=1, seconds=0.4) as verifier:
        start = time.monotonic()
        first, second = verifier.run([
            (". " * (MOST_CHARACTERS // 2), [NO_COMMA, slow, NO_COMMA]), ("He, she", [slow])
        ])  # fmt: skip
        assert time.monotonic() - start < 60
    assert [(v.status, v.passed) for v in first] == [
        ("ok", True), ("timeout", None), ("ok", True)
    ]  # fmt: skip
    assert [(v.status, v.passed) for v in second] == [("ok", True)]


def test_megabytes_are_refused_unread():
    with ConstraintVerifier(processes=1) as verifier:
        ((verdict,),) = verifier.run([("a" * 5_000_000, [NO_COMMA])])
    assert (verdict.status, verdict.passed) == ("refused", False)


def test_a_kind_that_does_not_exist_is_an_error_of_its_own():
    with ConstraintVerifier(processes=1) as verifier:
        ((none, right),) = verifier.run([("a", [Constraint("no:kind", {}), NO_COMMA])])
    assert (none.status, none.passed) == ("error", None)
    assert right.passed is True


def test_processes_find_data_in_the_environment_of_this_one(monkeypatch, tmp_path):
    need_data(["count:pronouns"])
    import nltk

    data = Path(str(nltk.data.find("tokenizers/punkt_tab/english/"))).parents[2]
    (tmp_path / "nltk_data").symlink_to(data, target_is_directory=True)
    for name in ("NLTK_DATA", "MRTPO_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with ConstraintVerifier(processes=1) as verifier:
        ((verdict,),) = verifier.run([("He", [constraint("count:pronouns", {"N": 1})])])
    assert verdict.passed is True


def test_missing_data_ends_the_run_before_it_is_taken_for_a_verdict(monkeypatch, tmp_path):
    pytest.importorskip("nltk")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NLTK_DATA", raising=False)
    monkeypatch.delenv("MRTPO_DATA", raising=False)
    with ConstraintVerifier(processes=1) as verifier:
        try:
            found = verifier.run([("He", [constraint("count:pronouns", {"N": 1})])])
        except MissingDataError as error:
            assert "make nltk-data" in str(error)
        else:  # installed for the whole machine
            assert found[0][0].passed is True
        assert verifier.run([("He", [NO_COMMA])])[0][0].passed is True
