"""A short run of the hostile statements: nothing hangs, nothing is written, everything is told."""

import sqlite3
from pathlib import Path

from benchmarks.hostile_sql import hostile_run, table
from benchmarks.hostile_statements import FAMILIES, statements
from mrtpo.config import Verifier

TABLES = {"a": ["x"], "b": ["y"]}


def test_statements_follow_from_the_seed_and_are_all_different():
    made = list(statements(3, 400, TABLES, Path("folder")))
    assert made == list(statements(3, 400, TABLES, Path("folder")))
    assert made != list(statements(4, 400, TABLES, Path("folder")))
    assert len({text for _, text in made}) == 400
    assert {family for family, _ in made} == set(FAMILIES)


def test_a_run_of_hostile_statements_breaks_nothing(tmp_path):
    path = tmp_path / "d.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE city (id INTEGER, name TEXT); CREATE TABLE town (x, y);")
    rows = [(i, f"name {i}") for i in range(800)]
    connection.executemany("INSERT INTO city VALUES (?, ?)", rows)
    connection.executemany("INSERT INTO town VALUES (?, ?)", rows)
    connection.commit()
    connection.close()
    number = 14 * len(FAMILIES)
    log = hostile_run(path, Verifier(seconds=0.1, megabytes=256), 1, number)
    assert log["broken"] == []
    assert log["harmless"] == {"right": number // 10, "failed": []}
    assert log["memory_MiB"]["largest worker"] > 0
    assert all(sum(counts.values()) == 14 for counts in log["statuses"].values())
    found = {status for counts in log["statuses"].values() for status in counts}
    assert found == {"ok", "error", "refused", "timeout"}
    assert table(log).count("\n") == len(FAMILIES) + 2
