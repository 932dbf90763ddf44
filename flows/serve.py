"""Serve every deployment from one process: `python -m flows.serve`.

Needs a Prefect server at `$PREFECT_API_URL`; `make ui` starts one, and this with it. `prefect.yaml`
has the same deployments for work pools.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import mrtpo

NAMES = (
    "pipeline", "prepare", "rollout", "attribute", "train", "evaluate", "benchmark", "explore",
    "study",
)  # fmt: skip
TAGS = {"pipeline": "main job", "study": "many runs"}


def main() -> int:
    if not os.environ.get("PREFECT_API_URL"):
        print(
            "PREFECT_API_URL is not set: start a server (`make ui` does, and serves the flows too) "
            "and set it, as in PREFECT_API_URL=http://127.0.0.1:4200/api",
            file=sys.stderr,
        )
        return 2
    # Imported here: they are what takes time, and `NAMES` is wanted without it.
    from prefect import Flow, serve
    from prefect.deployments.runner import EntrypointType, RunnerDeployment

    from flows.attribute import attribute
    from flows.benchmark import benchmark
    from flows.evaluate import evaluate
    from flows.explore import explore
    from flows.lost import mark_lost_runs
    from flows.pipeline import pipeline
    from flows.prepare import prepare
    from flows.rollout import rollout
    from flows.study import study
    from flows.train import train
    from flows.workspace import state_folder, workspace_root

    for label in mark_lost_runs(state_folder(workspace_root())):
        print(f"{label}: was killed, may be retried", flush=True)
    flows: list[Flow[..., Any]] = [
        pipeline, prepare, rollout, attribute, train, evaluate, benchmark, explore, study,
    ]  # fmt: skip
    deployments = [
        RunnerDeployment.from_flow(
            flow,
            name=name,
            description=(flow.description or "").partition("Args:")[0].strip(),
            tags=["mrtpo", TAGS.get(name, "single stage")],
            version=mrtpo.__version__,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        for name, flow in zip(NAMES, flows, strict=True)
    ]
    serve(
        *deployments,
        limit=int(os.environ.get("MRTPO_RUNS", "2")),
        pause_on_shutdown=False,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
