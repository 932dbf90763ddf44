"""Flow runs that the server believes to be running although their process is gone.

Prefect marks a run as crashed when the process that served it sees it die. When both, or the whole
machine, go down at once, nobody does, and the run could be neither cancelled nor retried.
"""

from __future__ import annotations

from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.states import Crashed

from flows.locks import is_lost
from flows.workspace import run_label


def mark_lost_runs(state: Path) -> list[str]:
    """Mark as crashed what ran in this workspace and does not any more; the runs' labels."""
    marked = []
    wanted = FlowRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "CANCELLING"]}}})
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=wanted, limit=200):
            label = run_label(run.name, str(run.id))
            if is_lost(state, label):
                message = "Its process was killed. A retry resumes from the last checkpoint."
                client.set_flow_run_state(run.id, Crashed(message=message), force=True)
                marked.append(label)
    return marked
