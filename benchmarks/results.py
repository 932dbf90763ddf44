"""Table of runs from their git revisions: `python benchmarks/results.py HEAD run/gdpo-… >
docs/results.md`.

Reads `params.yaml` and `metrics/*.json` as committed at each revision, so that every figure
belongs to a run that happened and can be reproduced with `git checkout REVISION && dvc repro`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import yaml

SCORES = ("format", "executability", "spider_exec", "bird_ex")


def at(revision: str, path: str) -> str:
    """A file as committed at a revision."""
    return subprocess.run(
        ["git", "show", f"{revision}:{path}"], check=True, capture_output=True, text=True
    ).stdout


def metrics(revision: str, stage: str) -> dict[str, Any]:
    return json.loads(at(revision, f"metrics/{stage}.json"))


def cells(scores: dict[str, float], prefix: str = "") -> str:
    return " | ".join(f"{scores[prefix + name]:.3f}" for name in SCORES)


PREFACE = """\
# Results of the main job

Written by `benchmarks/results.py` from committed metrics. One seed a row: differences of a few
hundredths are within the noise of the test prompts, and nothing here compares methods.
"""


def page(revisions: list[str]) -> str:
    """The page as Markdown."""
    start, prepared = metrics(revisions[0], "warmstart"), metrics(revisions[0], "prepare")
    heads = " | ".join(SCORES)
    told = sorted(start["told"].items())
    lines = [
        PREFACE,
        f"Generated: {prepared['prompts/train']} prompts over "
        f"{prepared['databases/train']} training databases, {prepared['prompts/test']} prompts "
        f"over {prepared['databases/test']} unseen test databases. The policy has about a million "
        "parameters.",
        "\n## The starting policy\n",
        "Sampled at temperature 1, 128 prompts each; `told`: whose information it carries.\n",
        f"| prompts | told | {heads} |",
        "|---" * (len(SCORES) + 2) + "|",
        f"| train | nothing | {cells(start['train'])} |",
        *(f"| train | {name} | {cells(scores)} |" for name, scores in told),
        f"| valid (unseen databases) | nothing | {cells(start['valid'])} |",
        f"| valid, greedy | nothing | {cells(start['valid_greedy'])} |",
        "\n## After RL, on the test split\n",
        f"| method | seed | steps | answers | {heads} |",
        "|---" * (len(SCORES) + 4) + "|",
    ]
    for revision in revisions:
        settings = yaml.safe_load(at(revision, "params.yaml"))
        train, scores = settings["train"], metrics(revision, "evaluate")
        name = f"{train['method']} | {settings['seed']} | {train['steps']}"
        lines.append(f"| {name} | greedy | {cells(scores)} |")
        lines.append(f"| {name} | sampled | {cells(scores, 'sampled/')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    print(page(sys.argv[1:]))
