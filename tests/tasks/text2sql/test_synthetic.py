"""The embedded databases: distinct, joined and filled."""

import hashlib
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from mrtpo.tasks.text2sql.catalogue import LINKS, POOLS, THEMES, plural
from mrtpo.tasks.text2sql.questions import make_questions
from mrtpo.tasks.text2sql.synthetic import make_databases, write_database


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    made = []
    for spec in make_databases(28, seed=3, themes_used=14):
        path = folder / f"{spec.db_id}.sqlite"
        write_database(spec, path, seed=3)
        made.append((spec, path))
    return made


def test_every_theme_is_sound():
    for theme, tables in THEMES.items():
        for link in LINKS[theme].split():
            child, parent = link.split(">")
            assert child in tables and parent in tables and child != parent
        for columns in tables.values():
            names = [entry.split("=")[0] for entry in columns.split()]
            assert len(names) == len(set(names))
            assert all(entry.split("=")[1] in POOLS for entry in columns.split())
            assert any(POOLS[entry.split("=")[1]].numeric for entry in columns.split())


def test_databases_are_distinct_joined_and_filled(world):
    assert len({spec.db_id for spec, _ in world}) == len(world)
    for spec, path in world:
        assert len(spec.tables) >= 3 and spec.links()
        with closing(sqlite3.connect(path)) as connection:
            for table in spec.tables.values():
                (rows,) = connection.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone()
                assert rows >= 24
                for parent in table.parents:
                    (dangling,) = connection.execute(
                        f"SELECT COUNT(*) FROM {table.name} WHERE {parent}_id NOT IN "
                        f"(SELECT {parent}_id FROM {parent})"
                    ).fetchone()
                    assert dangling == 0


def test_a_column_s_name_says_whose_it_is(world):
    for spec, _ in world:
        uses = Counter(column for table in spec.tables.values() for column in table.columns)
        assert set(uses.values()) == {1}


def test_values_are_missing_only_where_they_may_be(world):
    missing = 0
    for spec, path in world:
        with closing(sqlite3.connect(path)) as connection:
            for table in spec.tables.values():
                for column in table.columns:
                    (nulls,) = connection.execute(
                        f"SELECT COUNT(*) FROM {table.name} WHERE {column} IS NULL"
                    ).fetchone()
                    assert nulls == 0 or column == table.nullable
                    missing += nulls
    assert missing > 0


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    def digest(seed, name):
        spec = make_databases(12, seed, themes_used=14)[0]
        write_database(spec, tmp_path / name, seed)
        questions = repr(make_questions(spec, tmp_path / name, 16, seed, "mixed")).encode()
        return hashlib.sha256((tmp_path / name).read_bytes() + questions).hexdigest()

    assert digest(1, "a.sqlite") == digest(1, "b.sqlite")
    assert digest(1, "a.sqlite") != digest(2, "c.sqlite")


def test_plurals_read_as_english():
    assert [plural(w) for w in ("singer", "branch", "dish")] == ["singers", "branches", "dishes"]
