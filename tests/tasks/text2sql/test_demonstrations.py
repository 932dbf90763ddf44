"""Demonstrations: faultless in what is told, wrong in the intended way where it is not."""

import random
import sqlite3

import pytest

from mrtpo.tasks.text2sql.demonstrations import demonstration
from mrtpo.tasks.text2sql.prompts import extract_sql, format_ok
from mrtpo.tasks.text2sql.synthetic import make_databases, make_questions, write_database

ALL = frozenset({"format", "executability", "execution"})


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demonstrations")
    made = []
    for spec in make_databases(12, seed=0)[:6]:
        path = folder / f"{spec.db_id}.sqlite"
        write_database(spec, path, seed=0)
        names = {t.name: list(t.columns) for t in spec.tables.values()}
        made += [(path, names, e) for e in make_questions(spec, path, 32, seed=0)]
    return made


def responses(world, told, noise):
    rng = random.Random(0)
    for path, names, example in world:
        yield path, example, demonstration(example.sql, names, told, noise, rng)


def runs(path, sql):
    with sqlite3.connect(path) as connection:
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.Error:
            return None


def test_without_noise_everything_is_right(world):
    for _, example, response in responses(world, frozenset(), {}):
        assert format_ok(response) and extract_sql(response) == example.sql


def test_with_everything_told_noise_has_no_say(world):
    noise = dict.fromkeys(ALL, 1.0)
    for _, example, response in responses(world, ALL, noise):
        assert format_ok(response) and extract_sql(response) == example.sql


def test_format_noise_breaks_the_format_alone(world):
    for _, example, response in responses(world, frozenset(), {"format": 1.0}):
        assert not format_ok(response) and extract_sql(response) == example.sql


def test_executability_noise_names_what_does_not_exist(world):
    for path, _, response in responses(world, frozenset(), {"executability": 1.0}):
        assert format_ok(response)
        assert runs(path, extract_sql(response)) is None


def test_execution_noise_still_runs_and_mostly_means_something_else(world):
    different = 0
    for path, example, response in responses(world, frozenset(), {"execution": 1.0}):
        found = runs(path, extract_sql(response))
        assert found is not None
        different += sorted(map(repr, found)) != sorted(map(repr, runs(path, example.sql)))
    assert different > 0.75 * len(world)


def test_told_information_silences_its_own_noise_only(world):
    noise = dict.fromkeys(ALL, 1.0)
    for _, _, response in responses(world, frozenset({"format"}), noise):
        assert format_ok(response)
    broken = [format_ok(r) for _, _, r in responses(world, frozenset({"execution"}), noise)]
    assert not any(broken)


def test_a_reference_that_cannot_be_parsed_is_still_demonstrated():
    response = demonstration("SELECT ((", {}, frozenset(), {"execution": 1.0}, random.Random(0))
    assert format_ok(response) and "SELECT ((" in response
