"""Data sets from the Hugging Face hub, by id and pinned revision."""

from __future__ import annotations

import re
from pathlib import Path

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_id(text: str) -> bool:
    """Whether text has the form `owner/name`; so may a folder, which is for the caller to ask."""
    return _HUB_ID.fullmatch(text) is not None


def download(hub_id: str, revision: str) -> Path:
    """The folder of a data set at a revision: from the hub's cache, else downloaded into it.

    Raises ValueError if it is not in the cache and cannot be downloaded.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, repo_type="dataset", revision=revision))
    except OSError as error:  # the hub's own errors and those of the network are such
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{hub_id}, revision {revision}: cannot be downloaded from the hub: {reason}. Check "
            "the id and the network, or download it elsewhere (hf download --repo-type dataset "
            f"{hub_id} --revision {revision} --local-dir FOLDER) and give that folder instead"
        ) from error
