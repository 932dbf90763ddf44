"""Whatever holds responses, opened to be looked at: a run's folder, an attribution file, or a file
of rollouts, which is replayed first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from mrtpo import paths
from mrtpo.config import Settings, load_settings, with_overrides
from mrtpo.records import read_rollouts, read_rows
from mrtpo.report.source import Attributed, attributed, prompts_of, read_attribution

SETTINGS = "params.yaml"


def opened(
    source: Path | None, params: Path | None, changes: Sequence[str], model: str | None
) -> Attributed:
    """The attribution rows of `source`; None is the workspace.

    Settings are those of `params`, else of the run that the source lies in, with `changes` laid
    over them. A file of rollouts is replayed by the policy `model`, else the one that the run
    starts from; log-probabilities that were kept while sampling are taken to be that policy's.
    Raises ValueError for what is neither, and FileNotFoundError.
    """
    source = Path() if source is None else source
    root = source if source.is_dir() else _root_of(source)
    file = params or root / SETTINGS
    settings = load_settings(file) if params or file.is_file() else Settings()
    settings = with_overrides(settings, changes)
    if source.is_dir():
        return read_attribution(settings, root)
    if not source.is_file():
        raise FileNotFoundError(f"{source}: no such file or folder")
    columns = set(pq.read_schema(source).names)
    if "logprob_with" in columns:
        return attributed(read_rows(source), settings, root)
    if "response_ids" in columns:
        return attributed(_replayed(source, settings, root, model), settings, root)
    raise ValueError(
        f"{source}: neither rollouts (as in {paths.ROLLOUTS}) nor attribution (as in "
        f"{paths.ATTRIBUTION}); its columns: {', '.join(sorted(columns))}"
    )


def _root_of(file: Path) -> Path:
    """The run that a file lies in: the nearest folder above with prompts, else the workspace."""
    above = [folder for folder in file.resolve().parents if (folder / paths.PROMPTS).is_dir()]
    return above[0] if above else Path()


def _replayed(file: Path, settings: Settings, root: Path, model: str | None) -> list[dict]:
    from mrtpo.loading import load_policy
    from mrtpo.rollouts import attribution_rows
    from mrtpo.tasks import get_task

    rollouts = read_rollouts(file)
    prompts = prompts_of(root, {rollout.prompt_id for rollout in rollouts})
    path = model or settings.model.path or root / paths.WARMSTART
    policy = load_policy(path, settings.model, paths.state_root())
    task = get_task(settings, root / paths.PROMPTS)
    try:
        return attribution_rows(settings, policy, task, prompts, rollouts)[0]
    finally:
        task.close()
