"""Demonstrations: faultless in what is told, wrong in the intended way where it is not."""

import random
import sqlite3
from contextlib import closing

import pytest

from mrtpo.tasks.text2sql.decisions import decisions
from mrtpo.tasks.text2sql.demonstrations import FILLER, demonstration, plan
from mrtpo.tasks.text2sql.prompts import extract_sql, format_ok
from mrtpo.tasks.text2sql.questions import make_questions, names_of
from mrtpo.tasks.text2sql.synthetic import make_databases, write_database

ALL = ("format", "executability", "execution")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demonstrations")
    made = []
    for spec in make_databases(12, seed=0, themes_used=14)[:5]:
        path = folder / f"{spec.db_id}.sqlite"
        write_database(spec, path, seed=0)
        made += [(path, names_of(spec), e) for e in make_questions(spec, path, 38, 0, "mixed")]
    return made


def responses(world, told, noise):
    rng = random.Random(0)
    for path, names, example in world:
        response = demonstration(example.sql, names, frozenset(told), noise, rng)
        yield path, names, example, response


def runs(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.Error:
            return None


def test_without_noise_everything_is_right(world):
    for _, _, example, response in responses(world, (), {}):
        assert format_ok(response) and extract_sql(response) == example.sql


def test_with_everything_told_noise_has_no_say(world):
    for _, _, example, response in responses(world, ALL, dict.fromkeys(ALL, 1.0)):
        assert format_ok(response) and extract_sql(response) == example.sql


def test_format_noise_breaks_the_format_alone(world):
    broken = 0
    for _, _, example, response in responses(world, (), {"format": 0.2}):
        broken += not format_ok(response)
        assert example.sql in response
    assert 0.6 * len(world) < broken < 0.9 * len(world)  # 1 − 0.8⁶ = 0.74


def test_executability_noise_names_what_does_not_exist(world):
    failing = 0
    for path, _, example, response in responses(world, (), {"executability": 0.1}):
        assert format_ok(response)
        failing += extract_sql(response) != example.sql
        assert (runs(path, extract_sql(response)) is None) == (extract_sql(response) != example.sql)
    assert 0.25 * len(world) < failing < 0.75 * len(world)


def test_execution_noise_still_runs_and_mostly_means_something_else(world):
    changed = different = 0
    for path, _, example, response in responses(world, (), {"execution": 0.05}):
        found = runs(path, extract_sql(response))
        assert found is not None
        changed += extract_sql(response) != example.sql
        different += sorted(map(repr, found)) != sorted(map(repr, runs(path, example.sql)))
    assert 0.25 * len(world) < changed < 0.6 * len(world)
    assert different > 0.75 * changed


def test_longer_queries_err_more_often(world):
    wrong = {True: [], False: []}
    for _, names, example, response in responses(world * 5, (), {"execution": 0.05}):
        long = len(decisions(example.sql, names)) > 10
        wrong[long].append(extract_sql(response) != example.sql)
    short, long = (sum(wrong[key]) / len(wrong[key]) for key in (False, True))
    assert long > 1.3 * short


def test_told_information_silences_its_own_noise_only(world):
    noise = {"format": 0.3, "executability": 1.0, "execution": 1.0}
    for reward in ALL:
        formed = 0
        for path, _, example, response in responses(world, (reward,), noise):
            formed += format_ok(response)
            if format_ok(response):
                assert extract_sql(response) != example.sql  # names err although it is told
                runs_ = runs(path, extract_sql(response)) is not None
                assert runs_ == (reward == "executability")
        assert formed == len(world) if reward == "format" else 0 < formed < 0.5 * len(world)


def test_plans_name_tables_columns_and_conditions_in_varied_words(world):
    rng = random.Random(0)
    seen = set()
    for _, names, example in world:
        words = plan(example.sql, names, rng)
        assert words.endswith(".") and "SELECT" not in words
        seen.add(words)
        said = [s for s in words.split(". ") if f"{s.rstrip('.')}." not in FILLER]
        assert said or words.rstrip(".") + "." in FILLER or words.split(". ")[0] + "." in FILLER
    assert len(seen) == len(world)
    sql = "SELECT name FROM singer WHERE city = 'Rome' AND age >= 30 ORDER BY age DESC"
    names = {"singer": ["name", "city", "age"]}
    text = " ".join(plan(sql, names, random.Random(n)) for n in range(20))
    assert "city being 'Rome' AND age at least 30" in text and "age downwards" in text


def test_a_reference_that_cannot_be_parsed_is_still_demonstrated():
    response = demonstration("SELECT ((", {}, frozenset(), {"execution": 1.0}, random.Random(0))
    assert format_ok(response) and "SELECT ((" in response
