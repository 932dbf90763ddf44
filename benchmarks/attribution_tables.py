"""Attribution quality as Markdown tables and a figure, from what `attribution_quality` sums up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.attribution_scores import DISTANCES, FORMS, POOLS, Row
from benchmarks.probe_set import TASKS

METRICS = ("share", "hit@1", "hit@3", "auroc")
EVERY = "all"


def pick(summary: Iterable[Row], **wanted: str) -> Row | None:
    return next((r for r in summary if all(r[k] == v for k, v in wanted.items())), None)


def shown(interval: Sequence[float]) -> str:
    mean, low, high = interval
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def tables(result: dict[str, Any]) -> str:
    """The Markdown tables of a result."""
    summary, default = result["summary"], result["default"]
    tasks = [task for task in TASKS if any(r["task"] == task for r in summary)]
    lines = [
        f"{result['about']} Distance `{default['distance']}`, contexts `{default['form']}`, "
        f"pooling `{default['pool']}`; 95 % intervals.", "",
        "| task | reward | verdict | n | tokens | share | hit@1 | hit@3 | AUROC | placebo: share, "
        "AUROC |",
        "|---" * 10 + "|",
    ]  # fmt: skip
    for row in sorted(
        (r for r in summary if all(r[k] == v for k, v in default.items())), key=_order
    ):
        placebo = pick(
            summary, **{k: row[k] for k in ("task", "reward", "verdict", "distance")},
            form="placebo", pool="none",
        )  # fmt: skip
        assert placebo is not None
        cells = [shown(row[m]) for m in METRICS]
        lines.append(
            f"| {row['task']} | {row['reward']} | {row['verdict']} | {row['n']} | "
            f"{row['uniform']:.2f} | {' | '.join(cells)} | "
            f"{placebo['share'][0]:.2f}, {placebo['auroc'][0]:.2f} |"
        )
    heads = [f"{task} {verdict}" for task in tasks for verdict in ("pass", "fail")]
    for task in tasks:
        lines += _by_distance(summary, task)
    for metric, name in (("share", "Share"), ("auroc", "AUROC")):
        lines += ["", f"{name}, all rewards together, leave-one-out / add-one-in / placebo:", "",
                  f"| distance | {' | '.join(heads)} |",
                  "|---" * (len(heads) + 1) + "|"]  # fmt: skip
        for distance in DISTANCES:
            lines.append(f"| {distance} | {' | '.join(_forms(summary, tasks, distance, metric))} |")
    lines += ["", f"AUROC and hit@1 of `{default['distance']}` by pooling, leave-one-out:", "",
              f"| pool | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]  # fmt: skip
    for pool in POOLS:
        cells = []
        for task in tasks:
            for verdict in ("pass", "fail"):
                own = pick(summary, task=task, reward=EVERY, verdict=verdict, pool=pool,
                           form=FORMS[0], distance=default["distance"])  # fmt: skip
                cells.append(f"{own['auroc'][0]:.2f}, {own['hit@1'][0]:.2f}" if own else "")
        lines.append(f"| {pool} | {' | '.join(cells)} |")
    lines += ["", f"Share of each reward's distance (`{default['distance']}`) on the tokens of "
              "each; in brackets, of the tokens:", "", "| task | reward | on | n | share |",
              "|---" * 5 + "|"]  # fmt: skip
    for row in result["confusion"]:
        if row["distance"] == default["distance"]:
            lines.append(
                f"| {row['task']} | {row['reward']} | {row['on']} | {row['n']} | "
                f"{shown(row['share'])} [{row['uniform']:.2f}] |"
            )
    null = max(r["largest"] for r in summary if r["form"] == "null"
               and r["distance"] in ("js", "abs_logprob"))  # fmt: skip
    lines += ["", f"Null replay: no distance `js` or `abs_logprob` above {null:.1g}."]
    return "\n".join(lines)


def _order(row: Row) -> tuple[int, bool, str, str]:
    return TASKS.index(row["task"]), row["reward"] == EVERY, row["reward"], row["verdict"]


def _by_distance(summary: Sequence[Row], task: str) -> list[str]:
    """Each distance by reward and verdict."""
    groups = sorted(
        {(r["reward"], r["verdict"]) for r in summary
         if r["task"] == task and r["verdict"] != EVERY and r["reward"] != EVERY}
    )  # fmt: skip
    heads = [f"{reward}, {verdict}" for reward, verdict in groups]
    lines = ["", f"{task}, leave-one-out: share / hit@1 / AUROC:", "",
             f"| distance | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]  # fmt: skip
    for distance in DISTANCES:
        cells = []
        for reward, verdict in groups:
            row = pick(summary, task=task, reward=reward, verdict=verdict, distance=distance,
                       pool="none", form=FORMS[0])  # fmt: skip
            assert row is not None
            cells.append(" / ".join(f"{row[m][0]:.2f}" for m in ("share", "hit@1", "auroc")))
        lines.append(f"| {distance} | {' | '.join(cells)} |")
    return lines


def _forms(
    summary: Sequence[Row], tasks: Sequence[str], distance: str, metric: str
) -> Iterable[str]:
    for task in tasks:
        for verdict in ("pass", "fail"):
            found = [
                pick(summary, task=task, reward=EVERY, verdict=verdict, distance=distance,
                     pool="none", form=form) for form in FORMS[:3]
            ]  # fmt: skip
            yield " / ".join(f"{r[metric][0]:.2f}" for r in found if r)


def figure_of(summary: Sequence[Row], path: Path) -> None:
    """AUROC by distance: leave-one-out, add-one-in and placebo, a panel for each task and
    verdict."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mrtpo.report.figures import BLUE, FAINT, INK, ORANGE, STYLE

    tasks = [task for task in TASKS if any(r["task"] == task for r in summary)]
    looks = {FORMS[0]: (BLUE, "o", -0.2), FORMS[1]: (ORANGE, "s", 0.0), FORMS[2]: (FAINT, "x", 0.2)}
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure = Figure((7.6, 2.7 * len(tasks) + 0.6))
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(tasks), 2, squeeze=False, sharex=True, sharey=True)
        for task, line in zip(tasks, grid, strict=True):
            for verdict, axes in zip(("pass", "fail"), line, strict=True):
                for form, (colour, marker, shift) in looks.items():
                    for at, distance in enumerate(DISTANCES):
                        row = pick(summary, task=task, reward=EVERY, verdict=verdict, form=form,
                                   distance=distance, pool="none")  # fmt: skip
                        if row is None:
                            continue
                        mean, low, high = row["auroc"]
                        name = form.replace("_", "-") if at == 0 else None
                        axes.plot([low, high], [at + shift] * 2, color=colour, lw=1.2)
                        axes.plot(mean, at + shift, marker, color=colour, ms=4.5, label=name)
                axes.axvline(0.5, color=INK, lw=0.8, ls=":")
                axes.set(title=f"{task}, {verdict}", xlim=(0, 1.02))
                axes.set_yticks(range(len(DISTANCES)), DISTANCES)
        grid[0, 0].invert_yaxis()
        for axes in grid[-1]:
            axes.set_xlabel("AUROC: mean, 95 %")
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper right", ncols=3, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / (2.7 * len(tasks) + 0.6)))
        figure.savefig(path, metadata={"Date": None, "Creator": None})
