"""The embedded data set: names, splits and references can be trusted."""

import hashlib
import sqlite3
from collections import Counter

import pytest

from mrtpo.tasks.text2sql.catalogue import LINKS, POOLS, THEMES, plural
from mrtpo.tasks.text2sql.synthetic import KINDS, make_databases, make_questions, write_database


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    made = []
    for spec in make_databases(14, seed=3):
        path = folder / f"{spec.db_id}.sqlite"
        write_database(spec, path, seed=3)
        made.append((spec, path, make_questions(spec, path, 48, seed=3)))
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


def test_databases_are_distinct_joined_and_filled(world):
    assert len({spec.db_id for spec, _, _ in world}) == 14
    for spec, path, _ in world:
        assert len(spec.tables) >= 3 and spec.links()
        with sqlite3.connect(path) as connection:
            for table in spec.tables.values():
                (rows,) = connection.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone()
                assert rows >= 16
                for parent in table.parents:
                    (dangling,) = connection.execute(
                        f"SELECT COUNT(*) FROM {table.name} WHERE {parent}_id NOT IN "
                        f"(SELECT {parent}_id FROM {parent})"
                    ).fetchone()
                    assert dangling == 0


def test_references_run_and_return_rows(world):
    for _, path, examples in world:
        with sqlite3.connect(path) as connection:
            assert all(connection.execute(e.sql).fetchone() for e in examples)


def test_every_kind_is_asked_about_and_questions_are_distinct(world):
    kinds = Counter(example.kind for _, _, examples in world for example in examples)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) > 0.5 * max(kinds.values())
    for _, _, examples in world:
        assert len({example.question for example in examples}) == len(examples)


def test_limited_answers_do_not_hang_on_ties(world):
    for _, path, examples in world:
        with sqlite3.connect(path) as connection:
            for example in (e for e in examples if e.kind == "limit"):
                head, _, tail = example.sql.partition(" ORDER BY ")
                by, _, count = tail.partition(" LIMIT ")
                column = by.split()[0]
                table = head.split(" FROM ")[1]
                values = [v for (v,) in connection.execute(f"SELECT {column} FROM {table}")]
                values.sort(reverse="DESC" in by)
                cut = int(count)
                assert len(values) == cut or values[cut - 1] != values[cut]


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    def digest(seed, name):
        spec = make_databases(12, seed)[0]
        write_database(spec, tmp_path / name, seed)
        questions = repr(make_questions(spec, tmp_path / name, 16, seed)).encode()
        return hashlib.sha256((tmp_path / name).read_bytes() + questions).hexdigest()

    assert digest(1, "a.sqlite") == digest(1, "b.sqlite")
    assert digest(1, "a.sqlite") != digest(2, "c.sqlite")


def test_plurals_read_as_english():
    assert [plural(w) for w in ("singer", "branch", "dish")] == ["singers", "branches", "dishes"]
