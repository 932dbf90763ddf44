"""The tables of docs/performance.md, from what `step`, `values` and `scaling` measured.

    python -m benchmarks.performance

Reads docs/performance/{step,values,scaling}.json and replaces what stands between the page's
markers, so that the page holds no figure that was not measured.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.step import CASES, Steps, judged, speedup

PAGE, FOLDER = Path("docs/performance.md"), Path("docs/performance")
BEGIN, END = "<!-- measured: {} -->", "<!-- end -->"
NAMES = {
    "trl_grpo": "TRL, GRPO", "trl_gdpo": "TRL, GDPO", "gdpo": "ours, GDPO",
    "mrtpo_k3": "ours, MRTPO, K=3", "mrtpo_k3_js": "ours, MRTPO, K=3, `js`",
    "gdpo_k12": "ours, GDPO, K=12", "mrtpo_k12": "ours, MRTPO, K=12",
    "mrtpo_k12_draw4": "ours, MRTPO, K=12, 4 drawn",
}  # fmt: skip


def read_steps(measured: dict[str, Any]) -> dict[str, dict[str, Steps]]:
    return {
        case: {name: Steps(**steps) for name, steps in entry["contenders"].items()}
        for case, entry in measured["cases"].items()
    }


def step_table(case: str, steps: dict[str, Steps]) -> list[str]:
    """Medians of one case; × as fast as TRL's GRPO and GDPO."""
    lines = [
        f"**{case.replace('-', ' parameters, prompts of ')} tokens**",
        "",
        "| | ms | × TRL GRPO | × TRL GDPO | generate | replay | update | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in steps.items():
        ratios = [f"{speedup(one.walls, steps[t].walls):.2f}" for t in ("trl_grpo", "trl_gdpo")]
        phases = [f"{1000 * one.phase(phase):.0f}" for phase in ("generate", "replay", "update")]
        if name.startswith(("trl", "gdpo")):
            phases[1] = ""
        cells = [NAMES[name], f"{1000 * statistics.median(one.walls):.0f}", *ratios, *phases]
        lines.append(f"| {' | '.join([*cells, f'{one.peak_mb:.0f}'])} |")
    return [*lines, ""]


def targets(all_steps: dict[str, dict[str, Steps]]) -> list[str]:
    """Every target of every case, met or not."""
    lines = ["| case | target | found | |", "|---|---|---|---|"]
    for case, steps in all_steps.items():
        for verdict in judged(CASES[case][1], steps):
            if "peak memory" not in verdict["what"]:
                met = "met" if verdict["met"] else "**not met**"
                lines.append(f"| {case} | {verdict['what']} | {verdict['found']:.2f} | {met} |")
        shares = [v for v in judged(CASES[case][1], steps) if "peak memory" in v["what"]]
        worst = max(share["found"] for share in shares)
        met = "met" if worst < 1 else "**not met**"
        lines.append(f"| {case} | peak memory below TRL's, all of ours | ≤ {worst:.2f} | {met} |")
    return [*lines, ""]


def work(case: str, rewards: int, group: int, prompts: int, response: int) -> dict[str, float]:
    """Multiply-adds, in billions, that matrices of weights alone need: `gdpo` for a whole GDPO
    step (sampling, and forward and backward with the prompt shared), `replay` for the K replays.
    """
    from benchmarks.fixture import SIZES, VOCABULARY

    size, prompt = CASES[case]
    width, layers = SIZES[size]
    layer = width * (width + 2 * width // 2 + width) + 3 * width * 3 * width
    body, head = layers * layer, width * VOCABULARY
    answers, asked = group * prompts * response, prompts * prompt
    once = answers * (body + head) + asked * body
    return {"gdpo": 4 * once / 1e9, "replay": rewards * answers * (body + head) / 1e9}


def floor(all_steps: dict[str, dict[str, Steps]], measured: dict[str, Any]) -> list[str]:
    """What twelve replays are in a GDPO step's own currency."""
    lines = [
        "| case | GDPO step, 10⁹ multiply-adds | 12 replays | ratio of arithmetic | ratio found |",
        "|---|---|---|---|---|",
    ]
    for case, steps in all_steps.items():
        shape = (measured["group"], measured["prompts"], measured["response_tokens"])
        need = work(case, 12, *shape)
        found = speedup(steps["gdpo_k12"].walls, steps["mrtpo_k12"].walls)
        ratio = 1 + need["replay"] / need["gdpo"]
        lines.append(
            f"| {case} | {need['gdpo']:.1f} | {need['replay']:.1f} | {ratio:.2f} | {found:.2f} |"
        )
    return [*lines, ""]


def values_table(measured: dict[str, Any]) -> list[str]:
    """Largest differences between TRL and us: as built, and with TRL's ε here."""
    limits = measured["tolerances"]
    lines = [
        "| | difference in | as built | with TRL's ε | tolerance | |",
        "|---|---|---|---|---|---|",
    ]
    for method, result in measured["methods"].items():
        for what in ("advantages", "loss", "gradient"):
            built, alike = result["as built"][what], result["TRL's ε"][what]
            agrees = "agree" if alike <= limits[what] else "**differ**"
            lines.append(
                f"| {method} | {what} | {built:.1e} | {alike:.1e} | {limits[what]:.0e} | {agrees} |"
            )
    return [*lines, ""]


def scaling_table(measured: dict[str, Any]) -> list[str]:
    base = measured["base"]
    lines = ["| K | T | prompt | G | replay, ms | update, ms |", "|---|---|---|---|---|---|"]
    for point in measured["points"]:
        cells = [point[name] for name in ("rewards", "response", "prompt", "group")]
        bold = ["**" if point[n] != base[n] else "" for n in base]
        shown = [f"{b}{c}{b}" for b, c in zip(bold, cells, strict=True)]
        times = [f"{point['replay_ms']:.0f}", f"{point['update_ms']:.0f}"]
        lines.append(f"| {' | '.join([*shown, *times])} |")
    return [*lines, ""]


def replaced(page: str, name: str, lines: list[str]) -> str:
    """The page with new lines between the markers of that name."""
    start = page.index(BEGIN.format(name)) + len(BEGIN.format(name))
    return page[:start] + "\n" + "\n".join(lines) + page[page.index(END, start) :]


def main() -> None:
    page = PAGE.read_text()
    measured = json.loads((FOLDER / "step.json").read_text())
    steps = read_steps(measured)
    machine = (
        f"{measured['cpu']}, one thread, torch {measured['versions']['torch']}, transformers "
        f"{measured['versions']['transformers']}, TRL {measured['versions']['trl']}; medians of "
        f"{measured['repeats']} rounds; load {measured['load'][0]:.1f} before and "
        f"{measured['load_after'][0]:.1f} after."
    )
    page = replaced(page, "machine", [machine, ""])
    page = replaced(page, "steps", [x for case in steps for x in step_table(case, steps[case])])
    page = replaced(page, "targets", targets(steps))
    page = replaced(page, "floor", floor(steps, measured))
    values = json.loads((FOLDER / "values.json").read_text())
    page = replaced(page, "values", values_table(values))
    scaling = json.loads((FOLDER / "scaling.json").read_text())
    page = replaced(page, "scaling", scaling_table(scaling))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
