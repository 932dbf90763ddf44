"""Composed questions: their references have one right result, which tells their decisions."""

import random
import re
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from mrtpo.tasks.text2sql.composing import KINDS
from mrtpo.tasks.text2sql.decisions import changed, decisions
from mrtpo.tasks.text2sql.prepare import sql_kind
from mrtpo.tasks.text2sql.questions import LEVELS, make_questions, names_of
from mrtpo.tasks.text2sql.synthetic import make_databases, write_database
from mrtpo.verifiers.sql_results import order_matters, spider_equal


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    made = []
    for spec in make_databases(12, seed=5, themes_used=14)[:6]:
        path = folder / f"{spec.db_id}.sqlite"
        write_database(spec, path, seed=5)
        made.append((spec, path, make_questions(spec, path, 57, 5, "mixed")))
    return made


def examples(world):
    return [(spec, path, example) for spec, path, made in world for example in made]


def test_every_kind_and_level_is_asked_about_and_questions_are_distinct(world):
    made = [example for _, _, example in examples(world)]
    assert len(made) == 6 * 57
    kinds = Counter(example.kind for example in made)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) > 0.04 * len(made) and max(kinds.values()) < 0.25 * len(made)
    levels = Counter(example.level for example in made)
    assert set(levels) == set(LEVELS) and min(levels.values()) > 0.25 * len(made)
    for _, _, own in world:
        assert len({example.question for example in own}) == len(own)


def test_kind_and_decisions_are_those_of_the_reference(world):
    for spec, _, example in examples(world):
        assert example.kind == sql_kind(example.sql)
        assert example.decisions == len(decisions(example.sql, names_of(spec)))
        least, most = LEVELS[example.level]
        assert least <= example.decisions <= most


def test_one_level_alone_can_be_asked_for(world):
    spec, path, _ = world[0]
    for level in LEVELS:
        made = make_questions(spec, path, 12, 0, level)
        assert len(made) == 12 and {example.level for example in made} == {level}


def test_references_return_rows_in_the_same_order_however_tables_are_read(world):
    for _, path, example in examples(world):
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute(example.sql).fetchall()
            connection.execute("PRAGMA reverse_unordered_selects = ON")
            again = connection.execute(example.sql).fetchall()
        assert rows and spider_equal(rows, again, order_matters(example.sql))


def test_results_tell_most_changed_decisions(world):
    rng = random.Random(0)
    told = asked = 0
    for spec, path, example in examples(world):
        assert example.seen >= 0.85 * example.changes > 0
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute(example.sql).fetchall()
            for decision in decisions(example.sql, names_of(spec)):
                wrong = changed(example.sql, [(decision, rng.choice(decision.alternatives))])
                found = connection.execute(wrong).fetchall()
                told += not spider_equal(rows, found, order_matters(example.sql))
                asked += 1
    assert told > 0.9 * asked


def test_questions_say_every_literal_that_the_reference_needs(world):
    for _, _, example in examples(world):
        said = set(re.findall(r"\w+", example.question.lower()))
        for literal in re.findall(r"'%?(\w+)%?'|\b(\d+)\b", example.sql):
            assert "".join(literal).lower() in said


def test_constructs_of_real_queries_occur(world):
    sql = " ".join(example.sql for _, _, example in examples(world))
    for word in ("JOIN", "BETWEEN", " IN (", "LIKE", "IS NULL", "IS NOT NULL", " OR ", " AND ",
                 "HAVING", "DESC", "LIMIT", "NOT IN", "(SELECT", "UNION", "INTERSECT", "EXCEPT",
                 "COUNT(*)", "!="):  # fmt: skip
        assert word in sql
    assert re.search(r"JOIN \w+ ON [\w. =]+ JOIN", sql)
    assert re.search(r"ORDER BY \w+( DESC)?, \w+", sql)
