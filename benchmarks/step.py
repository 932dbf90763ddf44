"""A training step of ours against one of TRL's `GRPOTrainer`: time, memory, and the targets.

    python -m benchmarks.step [--quick] [--repeats 7] [--cases 0.9M-96 …] [--contenders gdpo …]
    python -m benchmarks.step --scaling

Needs the optional dependencies `bench`. Same weights, tokenizer, prompt ids, group size, length of
responses, optimiser and rewards on both sides; each prompt and response has exactly the stated
length. Every contender of a case is a process with one thread, asked for one step at a time in
turns, so that a busy machine slows all alike; ratios are medians of the ratios within a round. What
a step holds, and what memory is counted, is told in `step_worker`; how TRL is set up, in
`step_trl`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

CASES = {f"{size}-{tokens}": (size, tokens) for size in ("0.9M", "4.2M") for tokens in (96, 512)}
TRL = ("trl_grpo", "trl_gdpo")
CONTENDERS = (
    *TRL, "gdpo", "mrtpo_k3", "mrtpo_k3_js", "gdpo_k12", "mrtpo_k12", "mrtpo_k12_draw4",
)  # fmt: skip
QUICK = ("trl_gdpo", "gdpo", "mrtpo_k3")
GROUP, PROMPTS, RESPONSE, WARMUP = 8, 2, 64, 2
PACKAGES = ("mrtpo", "trl", "torch", "transformers", "accelerate", "datasets", "tokenizers")


@dataclass(frozen=True)
class Target:
    """`contender` is to be at least `faster` times as fast as `than`, at prompts of `tokens`."""

    contender: str
    than: str
    tokens: int
    faster: float


TARGETS = [
    Target("gdpo", "trl_gdpo", 96, 2.5),
    Target("gdpo", "trl_gdpo", 512, 3.5),
    Target("mrtpo_k3", "trl_grpo", 96, 1.0),
    Target("mrtpo_k3", "trl_grpo", 512, 2.0),
    Target("mrtpo_k12", "gdpo_k12", 96, 0.5),
    Target("mrtpo_k12", "gdpo_k12", 512, 0.5),
]


@dataclass
class Steps:
    """What a contender's measured steps took, in order of rounds; seconds."""

    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)
    base_mb: float = 0.0
    peak_mb: float = 0.0
    maxrss_growth_mb: float = 0.0

    def phase(self, name: str) -> float:
        return statistics.median(phases.get(name, 0.0) for phases in self.phases)


def speedup(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times as fast as `theirs`: the median over rounds of the ratio in the round."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def judged(tokens: int, steps: dict[str, Steps], clock: str = "walls") -> list[dict[str, Any]]:
    """The targets that a case can decide, with what was measured and whether each is met."""
    verdicts: list[dict[str, Any]] = []
    for target in TARGETS:
        if target.tokens == tokens and {target.contender, target.than} <= steps.keys():
            one, other = steps[target.contender], steps[target.than]
            both = {c: speedup(getattr(one, c), getattr(other, c)) for c in ("walls", "cpus")}
            what = f"{target.contender} ≥ {target.faster:g}× as fast as {target.than}"
            met = both[clock] >= target.faster
            verdicts.append({"what": what, "found": both[clock], "met": met, **both})
    theirs = [steps[name].peak_mb for name in TRL if name in steps]
    if theirs:
        for name in [name for name in CONTENDERS if name in steps and name not in TRL]:
            found = steps[name].peak_mb / min(theirs)
            verdicts.append(
                {"what": f"{name}: peak memory below TRL's", "found": found, "met": found < 1.0}
            )
    return verdicts


def table(case: str, steps: dict[str, Steps]) -> list[str]:
    """Lines of the case's table: medians in milliseconds, × as fast as each TRL by the wall clock
    and by CPU time, megabytes. `forward` is a part of TRL's `update`.
    """
    against = [name for name in TRL if name in steps]
    columns = ["wall", "cpu", *(f"×{name}" for name in against), *("by cpu" for _ in against)]
    columns += ["generate", "verify", "replay", "update", "(forward)", "peak MB", "maxrss+"]
    lines = [f"{case:14}" + "".join(f"{column:>11}" for column in columns)]
    for name, one in steps.items():
        cells = [1000 * statistics.median(one.walls), 1000 * statistics.median(one.cpus)]
        ratios = [speedup(one.walls, steps[other].walls) for other in against]
        ratios += [speedup(one.cpus, steps[other].cpus) for other in against]
        phases = ["generate", "verify", "replay", "update", "forward"]
        rest = [1000 * one.phase(phase) for phase in phases]
        lines.append(
            f"{name:14}"
            + "".join(f"{cell:11.0f}" for cell in cells)
            + "".join(f"{ratio:11.2f}" for ratio in ratios)
            + "".join(f"{cell:11.0f}" if cell else f"{'–':>11}" for cell in rest)
            + f"{one.peak_mb:11.0f}{one.maxrss_growth_mb:11.0f}"
        )
    return lines


class Worker:
    """A contender's process."""

    def __init__(self, spec: dict[str, Any], log: Path) -> None:
        self.name, self.log = spec["contender"], log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.step_worker", json.dumps(spec)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=os.environ | threads(1) | {"HF_HUB_OFFLINE": "1"},
            )  # fmt: skip

    def read(self) -> dict[str, Any]:
        line = _pipe(self.process.stdout).readline()
        if not line:
            raise RuntimeError(f"{self.name} ended:\n{self.log.read_text()[-3000:]}")
        return json.loads(line)

    def step(self) -> dict[str, Any]:
        pipe = _pipe(self.process.stdin)
        pipe.write("step\n")
        pipe.flush()
        return self.read()

    def close(self) -> None:
        _pipe(self.process.stdin).close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise RuntimeError("no pipe to the worker")
    return pipe


def threads(count: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: str(count) for name in names} | {"TOKENIZERS_PARALLELISM": "false"}


def measure(
    case: str, contenders: Sequence[str], repeats: int, folder: Path, options: dict[str, Any]
) -> dict[str, Steps]:
    """All contenders of a case, side by side; the round's first changes from round to round."""
    size, tokens = CASES[case]
    model = folder / size
    if not model.exists():
        command = "import sys; from benchmarks.fixture import save_model as s; s(*sys.argv[1:])"
        subprocess.run([sys.executable, "-c", command, size, str(model)], check=True)
    workers: list[Worker] = []
    try:
        for name in contenders:
            spec = {
                "contender": name, "folder": str(model), "tokens": tokens, "group": GROUP,
                "prompts": PROMPTS, "response": RESPONSE, "trl_options": options,
            }  # fmt: skip
            workers.append(Worker(spec, folder / f"{case}-{name}.log"))
        for worker in workers:
            worker.read()
        results = {name: Steps() for name in contenders}
        for number in range(WARMUP + repeats):
            first = number % len(workers)
            for worker in workers[first:] + workers[:first]:
                told = worker.step()
                if told["rows"] != GROUP * PROMPTS:
                    raise RuntimeError(f"{worker.name}: {told['rows']} rows in a step")
                one = results[worker.name]
                one.base_mb, one.peak_mb = told["base_mb"], told["peak_mb"]
                one.maxrss_growth_mb = told["maxrss_growth_mb"]
                if number >= WARMUP:
                    one.walls.append(told["wall"])
                    one.cpus.append(told["cpu"])
                    one.phases.append(told["phases"])
        return results
    finally:
        for worker in workers:
            worker.close()


def machine() -> dict[str, Any]:
    """Versions, processor and load, for the record."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].partition(":")[2].strip() if models else cpu
    return {
        "versions": versions, "python": platform.python_version(), "cpu": cpu,
        "cpus": os.cpu_count(), "threads": 1, "load": os.getloadavg(),
    }  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE",
        help=f"model size and prompt tokens: {', '.join(CASES)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, metavar="NAME",
        help=f"{', '.join(CONTENDERS)} (default: all; with --quick: {', '.join(QUICK)})",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=7, help="measured rounds (default: 7)")
    parser.add_argument("--quick", action="store_true", help="first case, two rounds: does it run?")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="what the targets on time are judged by (default: wall)",
    )  # fmt: skip
    parser.add_argument(
        "--trl-option", action="append", default=[], metavar="NAME=JSON",
        help='a change to TRL\'s set-up, e.g. cache_implementation=\'"static"\'',
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument(
        "--scaling", action="store_true",
        help="our MRTPO step alone over K, T, prompt and group: docs/performance/scaling.*",
    )  # fmt: skip
    return parser.parse_args()


def main() -> None:
    options = parse()
    os.environ.update(threads(1))
    if options.scaling:
        from benchmarks.scaling import scaling

        scaling(Path("docs/performance"), repeats=1 if options.quick else options.repeats)
        return
    contenders = options.contenders or (QUICK if options.quick else CONTENDERS)
    if options.quick:
        options.cases, options.repeats = options.cases[:1], min(options.repeats, 2)
    changes = {
        name: json.loads(value)
        for name, _, value in (option.partition("=") for option in options.trl_option)
    }
    about = machine()
    record: dict[str, Any] = {
        **about, "repeats": options.repeats, "warmup": WARMUP, "group": GROUP, "prompts": PROMPTS,
        "response_tokens": RESPONSE, "trl_options": changes, "cases": {},
    }  # fmt: skip
    print(f"{about['cpu']}, one thread, load {about['load'][0]:.1f}; {about['versions']}")
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            steps = measure(case, contenders, options.repeats, Path(folder), changes)
            verdicts = judged(CASES[case][1], steps, f"{options.clock}s")
            print("\n" + "\n".join(table(case, steps)))
            for verdict in verdicts:
                met = "met" if verdict["met"] else "NOT MET"
                cpu = f" (cpu {verdict['cpus']:.2f})" if "cpus" in verdict else ""
                print(f"  {verdict['what']}: {verdict['found']:.2f}{cpu}  {met}")
            record["cases"][case] = {
                "contenders": {name: asdict(one) for name, one in steps.items()},
                "targets": verdicts,
            }
    record["load_after"] = os.getloadavg()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
