"""MulDimIF's checkers: agreement with the official verdicts, what is not understood, and speed.

    python benchmarks/verify_muldimif.py [--data $MRTPO_DATA] [--seconds 1]

Agreement: the official verdicts on seven canned responses to a part of the prompts
(`oracles/muldimif_canned.*`). What is not understood: constraints of `muldimif/test.json`.

Speed: per second of processor time, in one thread, without reading the constraint (which is done
once and kept) and without the start of a library. The responses are IFEval's 541
(`ifeval/eval_results_strict.jsonl`), each to another constraint of the class.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from mrtpo.benchmarks.base import json_rows
from mrtpo.tasks.instruct.muldimif import Row, Stated, read_muldimif
from mrtpo.verifiers.constraints.text import load
from mrtpo.verifiers.muldimif import CLASSES, checker_of, judge, kind_of

SHOWN = 20


def checked_by(found: Stated) -> str:
    kind = kind_of(found.category, found.subcategory)
    return kind.checker if kind else "unknown"


def agreement(rows: Sequence[Row], oracles: Path) -> tuple[Counter[str], Counter[str]]:
    """Verdicts and equal verdicts by class; prints what differs."""
    by_id = {row.id: row for row in rows}
    responses = json.loads((oracles / "muldimif_canned.responses.json").read_text())
    total, equal, shown = Counter[str](), Counter[str](), 0
    for _, oracle in json_rows(oracles / "muldimif_canned.verdicts.jsonl"):
        for name, judges in oracle["judges"].items():
            for c, official in zip(by_id[oracle["id"]].constraints, judges, strict=True):
                verdict = judge(c.category, c.subcategory, c.text, responses[name])
                total[checked_by(c)] += 1
                equal[checked_by(c)] += verdict.passed is bool(official)
                if verdict.passed is not bool(official) and shown < SHOWN:
                    shown += 1
                    print(f"differs: {oracle['id']} {name}, theirs {official}, {verdict}: {c.text}")
    return total, equal


def speed(constraints: Sequence[Stated], responses: Iterator[str], seconds: float) -> float:
    """Checks per second of processor time."""
    for c in constraints:
        checker_of(c.category, c.subcategory, c.text)
    count, start = 0, time.process_time()
    for c in itertools.cycle(constraints):
        judge(c.category, c.subcategory, c.text, next(responses))
        count += 1
        if count % 16 == 0 and time.process_time() - start > seconds:
            break
    return count / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MRTPO_DATA"))
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where muldimif, ifeval and oracles are: --data, or MRTPO_DATA")
    load(["punkt_tab"])
    rows = list(read_muldimif(options.data / "muldimif" / "test.json"))
    total, equal = agreement(rows, options.data / "oracles")
    constraints: dict[str, list[Stated]] = defaultdict(list)
    unparsed = Counter[str]()
    for c in itertools.chain.from_iterable(row.constraints for row in rows):
        constraints[checked_by(c)].append(c)
        unparsed[checked_by(c)] += checker_of(c.category, c.subcategory, c.text).unparsed
    results = options.data / "ifeval" / "eval_results_strict.jsonl"
    responses = itertools.cycle([row["response"] for _, row in json_rows(results)])
    print("| class | constraints | not understood | official verdicts | agree | checks/s |")
    print("|---|---|---|---|---|---|")
    for name in CLASSES:
        rate = speed(constraints[name], responses, options.seconds)
        print(f"| `{name}` | {len(constraints[name])} | {unparsed[name]} | {total[name]:,} | "
              f"{equal[name]:,} | {float(f'{rate:.2g}'):,.0f} |")  # fmt: skip
    counts = sum(map(len, constraints.values())), sum(unparsed.values())
    print(f"| all | {counts[0]:,} | {counts[1]} | {total.total():,} | {equal.total():,} | |")


if __name__ == "__main__":
    main()
