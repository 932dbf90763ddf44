"""Scoring: a predictions file or a checkpoint on a benchmark, and what is written about it.

For `--out verdicts.jsonl`:

    verdicts.jsonl            one verdict row for each answer, in order
    verdicts.summary.json     scores over all questions and by group, counts, notes
    verdicts.failures.html    what failed, the expected beside the given, with both results
    verdicts.responses.jsonl  a checkpoint's responses (see `responses`)
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mrtpo.benchmarks import BENCHMARKS
from mrtpo.benchmarks.base import Answer, Benchmark, Judged, Summary
from mrtpo.progress import Progress

if TYPE_CHECKING:
    from mrtpo.config import Settings

JUDGED_AT_ONCE = 512
MOST_COLUMNS = 8  # groups that a table has beside each other


def score_benchmarks(
    names: Sequence[str],
    data: Path,
    out: Path,
    settings: Settings,
    *,
    predictions: Path | None = None,
    model: str | None = None,
    databases: Path | None = None,
    samples: int = 0,
    temperature: float | None = None,
    limit: int | None = None,
    answered: bool = False,
    state: Path | None = None,
) -> dict[str, Summary]:
    """Score benchmarks one after the other and print a table of each.

    `all` means every benchmark that is in `data`. With several, or where `out` is a folder, it gets
    `<name>.jsonl` of each. All are opened, which checks their files, before any is scored.
    Responses are kept in `state` until a benchmark is scored (null: where the verdicts go).
    """
    several = len(names) > 1 or "all" in names
    if several and predictions is not None:
        raise ValueError("--predictions answers one benchmark; name that one")
    if several and out.is_file():
        raise ValueError(f"--out: {out} is a file; several benchmarks need a folder")
    in_folder = several or out.is_dir()
    wanted = list(BENCHMARKS) if "all" in names else list(dict.fromkeys(names))
    with contextlib.ExitStack() as stack:
        opened = {}
        for name in wanted:
            if "all" in names and not (data / name).is_dir():
                continue
            benchmark = opened[name] = open_benchmark(name, data, settings, databases)
            stack.callback(benchmark.close)
        if not opened:
            raise ValueError(f"--data: {data} has no folder of: {', '.join(BENCHMARKS)}")
        summaries = {}
        for name, benchmark in opened.items():
            file = out / f"{name}.jsonl" if in_folder else out
            if predictions is not None:
                found = score_predictions(benchmark, predictions, file, answered=answered)
            else:
                assert model is not None
                found = score_checkpoint(
                    benchmark, model, settings, file,
                    samples=samples, temperature=temperature, limit=limit, state=state,
                )  # fmt: skip
            summaries[name] = found
            print(table(found), end="")
            print(f"verdicts: {file}, failures: {beside(file, 'failures.html')}")
    return summaries


def open_benchmark(
    name: str, folder: Path, settings: Settings, databases: Path | None = None
) -> Benchmark:
    """The benchmark of that name in `folder`: its own folder, or one that holds it by its name.

    Raises ValueError naming what is accepted, or the file, row and field at fault.
    """
    if name not in BENCHMARKS:
        raise ValueError(f"no benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    if not folder.is_dir():
        raise ValueError(f"--data: {folder} is not a folder")
    if databases is not None and not databases.is_dir():
        raise ValueError(f"--databases: {databases} is not a folder")
    own = folder / name
    if own.is_dir():
        folder = own
    module = importlib.import_module(BENCHMARKS[name])
    opened: Benchmark = module.open_benchmark(name, folder, settings, databases)
    return opened


def chosen(benchmark: Benchmark, limit: int | None, seed: int) -> list[int]:
    """All questions, or a seeded sample of `limit` of them, in their order."""
    everyone = range(benchmark.questions)
    if limit is None or limit >= len(everyone):
        return list(everyone)
    return sorted(random.Random(f"benchmark {seed}").sample(everyone, limit))


def score_predictions(
    benchmark: Benchmark, predictions: Path, out: Path, *, answered: bool = False
) -> Summary:
    """Judge a predictions file. Questions without an answer have failed; with `answered` they are
    left out.
    """
    if not predictions.is_file():
        raise ValueError(f"--predictions: {predictions} is not a file")
    answers = benchmark.read_answers(predictions)
    if not answers:
        raise ValueError(f"{predictions}: no predictions")
    asked: Collection[int] = range(benchmark.questions)
    if answered:
        asked = {answer.question for answer in answers}
    return _scored(benchmark, answers, asked, out)


def score_checkpoint(
    benchmark: Benchmark,
    model: str,
    settings: Settings,
    out: Path,
    *,
    samples: int = 0,
    temperature: float | None = None,
    limit: int | None = None,
    state: Path | None = None,
) -> Summary:
    """Answer the questions with a policy (hub id, folder or GGUF), then judge the answers.

    Prompts are all made before the policy is loaded. Goes on where a killed run stopped, if the
    folder `state` of unfinished responses is the same (null: that of `out`).
    """
    from mrtpo import paths
    from mrtpo.benchmarks.responses import respond
    from mrtpo.checkpoint import fingerprint
    from mrtpo.loading import load_policy

    asked = chosen(benchmark, limit, settings.seed)
    prompts = [(question, benchmark.prompt(question)) for question in asked]
    policy = load_policy(model, settings.model, paths.state_root())
    weights = [path for path in [Path(model)] if path.exists()]
    finished = beside(out, "responses.jsonl")
    unfinished = state / finished.name if state else finished
    responses = respond(
        policy, prompts, unfinished,
        made_by={"benchmark": benchmark.name, "model": model, "dtype": settings.model.dtype,
                 "weights": fingerprint({}, weights, code=False)},
        samples=samples, temperature=temperature or settings.sampling.temperature,
        max_new_tokens=settings.sampling.max_new_tokens,
        batch_size=settings.evaluate.batch_size, seed=settings.seed,
    )  # fmt: skip
    answers = [benchmark.from_response(r.question, r.text, r.sample) for r in responses]
    if state:
        finished.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(unfinished, finished)
    reduced = Counter(json.loads(prompt.payload).get("reduced") or "" for _, prompt in prompts)
    counts = {f"prompts without {step}": n for step, n in sorted(reduced.items()) if step}
    counts["truncated"] = sum(not response.finished for response in responses)
    return _scored(benchmark, answers, asked, out, counts)


def _scored(
    benchmark: Benchmark,
    answers: Sequence[Answer],
    asked: Collection[int],
    out: Path,
    counts: Mapping[str, int] | None = None,
) -> Summary:
    from mrtpo.report.failures import failures_page

    judged: list[Judged] = []
    with Progress(f"judge {benchmark.name}", len(answers), unit="answer") as progress:
        for start in range(0, len(answers), JUDGED_AT_ONCE):
            judged += benchmark.judge(answers[start : start + JUDGED_AT_ONCE])
            progress.update(len(judged))
    summary = benchmark.summarise(judged, asked)
    summary = dataclasses.replace(summary, counts={**summary.counts, **(counts or {})})
    write_text(out, (json.dumps(dict(j.row), ensure_ascii=False) + "\n" for j in judged))
    write_text(
        beside(out, "summary.json"),
        [json.dumps(dataclasses.asdict(summary), indent=1, ensure_ascii=False) + "\n"],
    )
    write_text(beside(out, "failures.html"), [failures_page(summary, judged, benchmark.metrics[0])])
    return summary


def beside(out: Path, ending: str) -> Path:
    """The file that goes with a verdict file: `verdicts.jsonl` has `verdicts.summary.json`."""
    return out.with_name(f"{out.stem}.{ending}")


def write_text(file: Path, parts: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    # A lone surrogate, which a model or a file may hold, becomes the escape that JSON has for it.
    with open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as target:
        target.writelines(parts)
    temporary.replace(file)


def table(summary: Summary) -> str:
    """The summary as text for the terminal: a line a score, a column a group, or, where there are
    many groups, the other way round and scores that no group has below.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console(width=max(80, Console().width))
    with console.capture() as capture:
        for grouping, groups in (summary.groups or {"": {}}).items():
            shown = Table(title=f"{summary.benchmark} by {grouping}" if grouping else None)
            many = len(groups) > MOST_COLUMNS
            names = [n for n in summary.scores if not many or any(n in g for g in groups.values())]
            questions = str(summary.counts.get("questions", ""))
            rows = [["score", *names, "questions"]]
            rows += [["all", *(_cell(summary.scores[name]) for name in names), questions]]
            for group, found in groups.items():
                cells = [_cell(found.get(name)) for name in names]
                rows.append([group, *cells, f"{found['questions']:.0f}"])
            for i, cell in enumerate(rows[0] if many else [row[0] for row in rows]):
                shown.add_column(
                    cell if not many or i else grouping, justify="right" if i else "left"
                )
            for row in rows[1:] if many else list(zip(*rows, strict=True))[1:]:
                shown.add_row(*row)
            console.print(shown)
            rest = [f"{n} {_cell(v)}" for n, v in summary.scores.items() if n not in names]
            if rest:
                console.print(", ".join(rest))
        counts = {k: v for k, v in summary.counts.items() if v and k != "questions"}
        console.print(", ".join(f"{name} {count}" for name, count in counts.items()))
        for note in summary.notes:
            console.print(note, markup=False)
    return capture.get()


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
