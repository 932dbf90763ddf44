"""Where a run works: in the workspace under a lock, or isolated in a light clone of it.

Without overrides a run works in the workspace itself. DVC allows one reproduction at a time there,
so a second run waits for the lock; the system releases it when its holder dies, in whatever way.

With overrides a run must not disturb the workspace. It works in `runs/<name>`: a `git clone
--shared` of HEAD and of what is not committed yet (`dvc.lock` too, so that unchanged stages are
skipped), with the workspace's DVC cache, state folder and MLflow database. It ends as the branch
`run/<name>` of the workspace's repository: params.yaml, dvc.lock and metrics. `git checkout
run/<name> && dvc checkout` brings its outputs back, and `dvc repro` has nothing to do there. The
name holds the flow run's id: a retry finds its clone again and goes on in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from mrtpo.config import Settings, SettingsError, load_settings, override, settings_from

# Files that are part of a run although they may not be committed yet. Other untracked files stay
# out: they may be large, and git would keep them for good.
SNAPSHOT = ("mrtpo", "dvc.yaml", "dvc.lock", "params.yaml", "sources.yaml", "metrics")
RESULT = ("params.yaml", "sources.yaml", "dvc.lock", "metrics")


class WorkspaceError(RuntimeError):
    """git or dvc could not do what a run needs; the text is what they said."""


def workspace_root() -> Path:
    """The project's folder: `$MRTPO_ROOT`, else the checkout that this file stands in."""
    return Path(os.environ.get("MRTPO_ROOT") or Path(__file__).parents[1]).resolve()


def state_folder(root: Path) -> Path:
    return (root / os.environ.get("MRTPO_STATE", "state")).resolve()


def tracking_uri(root: Path) -> str:
    """The MLflow store of all runs, clones too: `$MLFLOW_TRACKING_URI`, else the workspace's."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root / 'mlflow.db'}"


def merged(named: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The form's filled-in fields and its free overrides. Raises if a key is in both."""
    given = {key: value for key, value in named.items() if value is not None}
    if twice := sorted(given.keys() & overrides.keys()):
        raise SettingsError(f"overrides: {', '.join(twice)}: given in a field of its own as well")
    return {**given, **overrides}


def checked_settings(root: Path, overrides: Mapping[str, Any]) -> Settings:
    """The settings that a run will have. Raises `SettingsError` before any work is done."""
    path = root / "params.yaml"
    settings = load_settings(path)
    if not overrides:
        return settings
    return settings_from(override(settings.model_dump(), overrides), "overrides")


def anchored(root: Path, settings: Settings) -> dict[str, str]:
    """Files that settings name relative to the workspace, named absolutely for a clone."""
    named = {
        "data.path": settings.data.path,
        "model.path": settings.model.path,
        "benchmark.path": settings.benchmark.path,
        "benchmark.databases": settings.benchmark.databases,
    }
    return {
        key: str((root / path).resolve())
        for key, path in named.items()
        if path and (root / path).exists()
    }


def write_overrides(path: Path, overrides: Mapping[str, Any]) -> None:
    """Set dotted keys in a settings file, keeping its comments and layout."""
    editor = YAML()
    editor.preserve_quotes = True
    editor.width = 1000
    editor.representer.add_representer(type(None), _null)
    editor.representer.add_representer(float, _float)
    document = editor.load(path.read_text("utf-8"))
    for key, value in overrides.items():
        *sections, last = key.split(".")
        target = document
        for section in sections:
            if not isinstance(target.get(section), dict):
                target[section] = {}
            target = target[section]
        target[last] = value
    with open(path, "w", encoding="utf-8") as file:
        editor.dump(document, file)


def _null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")  # the default is nothing


def _float(representer: Any, value: float) -> Any:
    """`1.0e-05`: without the point, YAML 1.1 takes it for text."""
    text = repr(value)
    text = text if "." in text else text.replace("e", ".0e", 1)
    return representer.represent_scalar("tag:yaml.org,2002:float", text)


def run_label(name: str, run_id: str) -> str:
    """`brave-otter-1a2b3c4d`: readable, good as folder and branch name, and one per flow run."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return "-".join(part for part in (slug, run_id.replace("-", "")[:8]) if part)


def isolated(root: Path, label: str, overrides: Mapping[str, Any]) -> Path:
    """The clone `runs/<label>`, made now or by an earlier attempt of the same run."""
    runs = root / "runs"
    if found := sorted(runs.glob(f"*{label[-8:]}")):
        return found[0]
    commit = _snapshot(root)
    draft = runs / f".{label}.{os.getpid()}"  # renamed when complete: half a clone is never found
    try:
        _git(root, "clone", "--quiet", "--shared", "--no-checkout", str(root), str(draft))
        _git(draft, "checkout", "--quiet", "-b", f"run/{label}", commit)
        for key, default in (("user.name", "mrtpo"), ("user.email", "mrtpo@localhost")):
            _git(draft, "config", key, _git_value(root, key) or default)
        _share_cache(root, draft)
        write_overrides(draft / "params.yaml", overrides)
        # Committed before the run, so that the commit its trackers note has the run's settings.
        _git(draft, "commit", "--quiet", "--all", "--allow-empty", "--no-verify",
             "-m", f"Settings of run {label}")  # fmt: skip
        # What dvc.lock knows is laid out, so that stages which do not change are skipped. Outputs
        # that the cache lacks are made again.
        _dvc(draft, "checkout", "--quiet", "--allow-missing", check=False)
        return draft.rename(runs / label)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def publish(root: Path, clone: Path, message: str) -> str:
    """Commit the clone's result and fetch its branch into the workspace's repository; its name."""
    branch = _git(clone, "branch", "--show-current")
    for name in RESULT:
        if (clone / name).exists():
            _git(clone, "add", "--all", "--", name)
    _git(clone, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", message)
    _git(root, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(clone),
         f"+refs/heads/{branch}:refs/heads/{branch}")  # fmt: skip
    return branch


def _snapshot(root: Path) -> str:
    """A commit of HEAD and of what is not committed, leaving index and files as they are."""
    index = state_folder(root) / f"index.{os.getpid()}"
    index.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GIT_INDEX_FILE": str(index)}
    try:
        _git(root, "read-tree", "HEAD", env=env)
        _git(root, "add", "--update", env=env)
        _git(root, "add", "--all", "--", *[n for n in SNAPSHOT if (root / n).exists()], env=env)
        tree = _git(root, "write-tree", env=env)
    finally:
        index.unlink(missing_ok=True)
    if tree == _git(root, "rev-parse", "HEAD^{tree}"):
        return _git(root, "rev-parse", "HEAD")
    who = {f"GIT_{role}_{part}": _git_value(root, f"user.{part.lower()}") or "mrtpo"
           for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}  # fmt: skip
    text = "Workspace as it was, uncommitted changes included"
    return _git(root, "commit-tree", tree, "-p", "HEAD", "-m", text, env={**os.environ, **who})


def _share_cache(root: Path, clone: Path) -> None:
    """Remotes and cache of the workspace, which may be set in files that git does not carry."""
    local = root / ".dvc" / "config.local"
    if local.exists():
        shutil.copy(local, clone / ".dvc" / "config.local")
    _dvc(clone, "cache", "dir", "--local", "--quiet", _dvc(root, "cache", "dir"))


def _git_value(folder: Path, key: str) -> str:
    done = subprocess.run(
        ["git", "config", "--get", key], cwd=folder, capture_output=True, text=True
    )
    return done.stdout.strip()


def _git(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    return _run(["git", "-c", "gc.auto=0", *arguments], folder, env)


def _dvc(folder: Path, *arguments: str, check: bool = True) -> str:
    return _run([sys.executable, "-m", "dvc", *arguments], folder, None, check)


def _run(
    command: list[str], folder: Path, env: Mapping[str, str] | None = None, check: bool = True
) -> str:
    """Output of a short command. Raises `WorkspaceError` with what it said."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if check and done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise WorkspaceError(f"{' '.join(command[:6])} … in {folder}: {said}")
    return done.stdout.strip()
