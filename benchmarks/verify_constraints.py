"""Constraints: agreement with the official verdicts, and checks per second of every kind.

    python benchmarks/verify_constraints.py [--data $MRTPO_DATA] [--seconds 0.2] [--json FILE]

Agreement: IFEval's 541 responses with their verdicts (`ifeval/eval_results_{strict,loose}.jsonl`)
and IFBench's sample responses (`ifbench/sample_output.jsonl`) with the verdicts of its own code
(`oracles/ifbench_sample_output.verdicts.jsonl`). The `eval_results_*` beside IFBench's sample
responses were made by an older version of its checkers and are shown for comparison only.

Speed: per second of processor time, in one thread, without the start of a library. The responses
are those of the benchmarks to prompts with the kind, followed by a few others, so that no result is
reused. Kinds of the embedded task are timed as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from mrtpo.benchmarks.base import json_rows
from mrtpo.benchmarks.ifeval import IFEvalBenchmark, open_benchmark
from mrtpo.benchmarks.score import score_predictions
from mrtpo.config import settings_from
from mrtpo.tasks.instruct import synthetic
from mrtpo.verifiers.constraints import Constraint, check
from mrtpo.verifiers.constraints.text import NLTK_PACKAGES, load

Verdicts = dict[str, tuple[list[bool], list[bool]]]  # key -> strict, loose


def rows(file: Path) -> list[dict[str, Any]]:
    return [row for _, row in json_rows(file)]


def official(benchmark: IFEvalBenchmark, strict: Path, loose: Path) -> Verdicts:
    """Verdicts by key, of files as the official command writes them (joined by prompt)."""
    keys = {question.prompt.strip(): str(question.key) for question in benchmark.set}
    found = {}
    for one, other in zip(rows(strict), rows(loose), strict=True):
        if key := keys.get(one["prompt"].strip()):
            found[key] = (one["follow_instruction_list"], other["follow_instruction_list"])
    return found


def ours(benchmark: IFEvalBenchmark, predictions: Path) -> Verdicts:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "verdicts.jsonl"
        score_predictions(benchmark, predictions, out)
        return {str(row["key"]): (row["strict"], row["loose"]) for row in rows(out)}


def agreement(title: str, benchmark: IFEvalBenchmark, mine: Verdicts, theirs: Verdicts) -> None:
    by_key = {str(question.key): question for question in benchmark.set}
    total, equal = 0, 0
    differing = []
    for key, both in theirs.items():
        if key not in mine:
            continue
        for mode, a, b in zip(("strict", "loose"), mine[key], both, strict=True):
            for found, one, other in zip(by_key[key].constraints, a, b, strict=True):
                total += 1
                equal += one is other
                if one is not other:
                    differing.append((key, found.id, mode, one, other))
    print(f"\n{title}: {equal} of {total} verdicts agree ({100 * equal / total:.2f} %)")
    for key, id, mode, one, other in differing[:20]:
        print(f"  key {key:>5}  {id:40} {mode:6}  ours {one!s:5}  theirs {other}")
    if len(differing) > 20:
        print(f"  and {len(differing) - 20} more")


def timed(found: Constraint, responses: Iterator[str], seconds: float) -> float:
    """Checks per second of processor time."""
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for _ in range(8):
            check(found.id, found.arguments, next(responses))
        count += 8
    return count / spent


def speeds(
    examples: dict[str, list[tuple[Constraint, str]]], others: list[str], seconds: float
) -> dict[str, float]:
    load(NLTK_PACKAGES)
    result = {}
    for id, found in sorted(examples.items()):
        own = [response for _, response in found]
        result[id] = timed(found[0][0], cycle([*own, *others]), seconds)
    return result


def embedded() -> Iterator[tuple[Constraint, str]]:
    """Constraints of the embedded task, each with a text that keeps it."""
    rules, text = synthetic.drawn(synthetic.LINES, random.Random(0))
    for rule in rules.values():
        yield rule, text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MRTPO_DATA"))
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where ifeval, ifbench and oracles are: --data, or MRTPO_DATA")
    data: Path = options.data
    settings = settings_from({})
    examples: dict[str, list[tuple[Constraint, str]]] = defaultdict(list)
    responses: list[str] = []
    for name in ("ifeval", "ifbench"):
        folder = data / name
        benchmark = open_benchmark(name, folder, settings, None)
        results = (folder / "eval_results_strict.jsonl", folder / "eval_results_loose.jsonl")
        answers = results[0] if name == "ifeval" else folder / "sample_output.jsonl"
        mine = ours(benchmark, answers)
        theirs = official(benchmark, *results)
        if name == "ifeval":
            agreement("IFEval", benchmark, mine, theirs)
        else:
            oracle = rows(data / "oracles" / "ifbench_sample_output.verdicts.jsonl")
            now = {r["key"]: (r["strict"], r["loose"]) for r in oracle if r["has_response"]}
            agreement("IFBench", benchmark, mine, now)
            agreement("IFBench, checkers of an older version", benchmark, mine, theirs)
        benchmark.close()
        given = {row["prompt"].strip(): row["response"] for row in rows(answers)}
        responses += given.values()
        for question in benchmark.set:
            for found in question.constraints:
                examples[found.id].append((found, given.get(question.prompt.strip(), "A word.")))
    for found, response in embedded():
        examples[found.id].append((found, response))
    others = sorted(responses, key=len)[len(responses) // 2 :][:200]  # of more than median length
    measured = speeds(examples, others, options.seconds)
    length = statistics.mean(map(len, others))
    print(f"\nchecks per second of processor time, on responses of {length:.0f} characters")
    for id, speed in sorted(measured.items(), key=lambda item: -item[1]):
        print(f"  {id:45} {speed:10,.0f}")
    if options.json:
        options.json.write_text(json.dumps({k: round(v) for k, v in measured.items()}, indent=1))


if __name__ == "__main__":
    main()
