"""Agreement with the official verdicts, and verifications per second.

    python -m benchmarks.verify_sql [--data FOLDER] [--processes 2] [--out docs/verifiers]

Agreement: the verdicts of Spider's and BIRD's own scorers on references and mutated queries
(`oracles/spider_dev_exec.verdicts.jsonl`), metric by metric, every disagreement listed. Speed:
short queries, each with a reference, and mixes with hostile ones. No query is repeated, so that the
saving on equal jobs gives nothing; eight jobs share a reference, as the samples of a group do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mrtpo.config import Verifier
from mrtpo.verifiers.sql import SQLJob, SQLVerifier

VERDICTS = ("executable", "spider_exec", "bird_ex")
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


def agreement(data: Path, processes: int) -> dict[str, Any]:
    """Counts by metric of (official, ours), and the rows where they differ."""
    lines = (data / "oracles" / "spider_dev_exec.verdicts.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    databases = data / "spider" / "database"
    jobs = [
        SQLJob(databases / row["db_id"] / f"{row['db_id']}.sqlite", row["pred"], row["gold"])
        for row in rows
    ]
    # One reference, the list of players in wta_1, gives 20,662 rows: more than the default limit.
    with SQLVerifier(Verifier(seconds=20.0, rows=25_000, processes=processes)) as verifier:
        outcomes = verifier.run(jobs)
    counts = {name: Counter[str]() for name in VERDICTS}
    differing = []
    for row, outcome in zip(rows, outcomes, strict=True):
        ours = {"executable": outcome.executable, **outcome.scores}
        for name in VERDICTS:
            counts[name][f"official {row[name]}, here {_digit(ours[name])}"] += 1
            if ours[name] is not bool(row[name]):
                shown = {key: row[key] for key in ("dev_index", "db_id", "pred", "gold", name)}
                differing.append({**shown, "metric": name, "here": ours[name]})
    return {"rows": len(rows), "counts": counts, "differing": differing}


def _digit(verdict: bool | float | None) -> str:
    return "none" if verdict is None else str(int(verdict))


def measure(name: str, verifier: SQLVerifier, jobs: list[SQLJob]) -> dict[str, Any]:
    start = time.perf_counter()
    outcomes = verifier.run(jobs)
    seconds = time.perf_counter() - start
    counts = Counter(outcome.status for outcome in outcomes)
    rate = len(jobs) / seconds
    shown = ", ".join(f"{n} {s}" for s, n in counts.most_common())
    print(f"{name:24} {rate:8.0f} /s   {seconds:6.2f} s   {shown}")
    return {"per_second": round(rate), "seconds": round(seconds, 2), "statuses": counts}


def cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def speed(processes: int, number: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "people.sqlite"
        make_database(database)
        limits = Verifier(processes=processes, seconds=0.5)
        before = cpu_seconds()
        with SQLVerifier(limits) as verifier:
            start = time.perf_counter()
            verifier.run([SQLJob(database, f"SELECT {i}") for i in range(4 * processes)])
            found: dict[str, Any] = {"start_s": round(time.perf_counter() - start, 2)}
            print(f"start of {processes} processes: {found['start_s']} s")
            jobs = short_jobs(database, number)
            runs = [measure("short", verifier, jobs) for _ in range(3)]
        found["short"] = max(runs, key=lambda run: run["per_second"])
        found["cpu_us"] = round(1e6 * (cpu_seconds() - before) / (3 * number))
        print(f"processor time of one short verification: {found['cpu_us']} µs, all processes")
        with SQLVerifier(limits) as verifier:
            for i in range(0, len(jobs), 5):
                text = HOSTILE[i // 5 % len(HOSTILE)].format(i=i + 1)
                jobs[i] = SQLJob(database, text, "SELECT 1")
            found["a fifth refused"] = measure("a fifth refused", verifier, jobs)
            jobs = jobs[: len(jobs) // 4]
            for i in range(8):
                text = (HANGING if i % 4 == 0 else ENDLESS).format(i=i + 1)
                jobs[i * len(jobs) // 8] = SQLJob(database, text, "SELECT 1")
            found["6 endless, 2 hanging"] = measure("6 endless, 2 hanging", verifier, jobs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MRTPO_DATA", ".")))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=8000)
    parser.add_argument("--out", type=Path, help="folder for verify.json")
    options = parser.parse_args()
    found = {"processes": options.processes, "speed": speed(options.processes, options.jobs)}
    found["agreement"] = agreed = agreement(options.data, options.processes)
    print(f"agreement over {agreed['rows']} rows")
    for name, counts in agreed["counts"].items():
        print(f"  {name:12} " + "; ".join(f"{what}: {n}" for what, n in sorted(counts.items())))
    for row in agreed["differing"]:
        print(f"  differs: {json.dumps(row)}")
    if not agreed["differing"]:
        print("  no verdict differs")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "verify.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
