"""Verifications per second: short queries, each with a reference, and a mix with hostile ones.

    python benchmarks/verify_sql.py [--processes 2] [--jobs 8000]

No query is repeated, so that the saving on equal jobs gives nothing; eight jobs share a reference,
as the samples of a group do.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections import Counter
from pathlib import Path

from mrtpo.config import Verifier
from mrtpo.verifiers.sql import SQLJob, SQLVerifier

NUMBERS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
HOSTILE = [
    "DROP TABLE people",
    "ATTACH 'new.db' AS n{i}",
    "PRAGMA user_version = {i}",
    "SELECT {i}; SELECT 1",
    "SELECT zeroblob({i}00000000)",
    "SELECT hex(zeroblob(400000{i}00000))",
    "SELECT load_extension('{i}')",
    "SELECT {i} FROM people x, people y, people z",
    "SELECT " + "(" * 5000 + "{i}" + ")" * 5000,
    "SELEC {i}",
]
ENDLESS = NUMBERS + "SELECT count(*) + {i} FROM c"
HANGING = "SELECT instr(hex(zeroblob(450000)), hex(zeroblob(220000)) || '{i}')"


def make_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age INT, town INT)")
    connection.execute("CREATE TABLE towns (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany(
        "INSERT INTO people VALUES (?, ?, ?, ?)",
        [(i, f"name {i}", i * 7 % 80, i % 10) for i in range(200)],
    )
    connection.executemany("INSERT INTO towns VALUES (?, ?)", [(i, f"town {i}") for i in range(10)])
    connection.commit()
    connection.close()


def short_jobs(database: Path, number: int) -> list[SQLJob]:
    forms = [
        "SELECT count(*) FROM people WHERE age > {age} AND id < {i}",
        "SELECT name, age FROM people WHERE age = {age} AND id != {i} ORDER BY age",
        "SELECT DISTINCT T2.name FROM people AS T1 JOIN towns AS T2 ON T1.town = T2.id "
        "WHERE T1.age < {age} AND T1.id != {i}",
        "SELECT town, avg(age) FROM people WHERE id != {i} GROUP BY town HAVING count(*) > {age}",
    ]
    jobs = []
    for i in range(number):
        group = i // 8
        form, age = forms[group % len(forms)], group % 80
        jobs.append(SQLJob(database, form.format(age=age, i=i), form.format(age=age, i=-group)))
    return jobs


def measure(name: str, verifier: SQLVerifier, jobs: list[SQLJob]) -> None:
    start = time.perf_counter()
    outcomes = verifier.run(jobs)
    seconds = time.perf_counter() - start
    counts = ", ".join(f"{n} {s}" for s, n in Counter(o.status for o in outcomes).most_common())
    print(f"{name:24} {len(jobs) / seconds:8.0f} /s   {seconds:6.2f} s   {counts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=8000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "people.sqlite"
        make_database(database)
        limits = Verifier(processes=options.processes, seconds=0.5)
        with SQLVerifier(limits) as verifier:
            start = time.perf_counter()
            verifier.run([SQLJob(database, f"SELECT {i}") for i in range(4 * options.processes)])
            print(f"start of {options.processes} processes: {time.perf_counter() - start:.2f} s")
            jobs = short_jobs(database, options.jobs)
            measure("short", verifier, jobs)
            for i in range(0, len(jobs), 5):
                jobs[i] = SQLJob(
                    database, HOSTILE[i // 5 % len(HOSTILE)].format(i=i + 1), "SELECT 1"
                )
            measure("a fifth refused", verifier, jobs)
            jobs = jobs[: len(jobs) // 4]
            for i in range(8):
                job = (HANGING if i % 4 == 0 else ENDLESS).format(i=i + 1)
                jobs[i * len(jobs) // 8] = SQLJob(database, job, "SELECT 1")
            measure("6 endless, 2 hanging", verifier, jobs)


if __name__ == "__main__":
    main()
