"""Records that stages exchange, and their parquet files.

`Prompt` (data/prompts/*.parquet), `Rollout` (data/rollouts/rollouts.parquet). Token ids are kept as
sampled and never made again from text. A reward is a value and a status: a value is absent
(`None`) where the verifier could not decide, and is never silently 0.

Schemas: `PROMPT_SCHEMA`, `ROLLOUT_SCHEMA`. Files are written to a temporary name and renamed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

Status = Literal["ok", "error", "timeout", "refused", "absent"]
"""`absent`: the prompt has no such reward, so that there was nothing to decide."""


@dataclass(frozen=True)
class Message:
    """A turn. Role `tools`: no turn, but the tools for the chat template, a JSON list."""

    role: str
    content: str


def template_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation by the tokenizer's chat template, the assistant header included.

    Raises ValueError where there are tools and the template does not show any.
    """
    given: dict[str, Any] = {}
    for message in messages:
        if message.role == "tools":
            if "tools" not in str(tokenizer.chat_template):
                raise ValueError(
                    "data.prompt: chat: the model's chat template has no place for tools; use full"
                )
            given["tools"] = json.loads(message.content)
    ids = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in messages if m.role != "tools"],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        **given,
    )
    return list(ids)


@dataclass(frozen=True)
class Information:
    """What one reward's verifier checks, as text for the replay.

    `where`: `append` adds `text` to the end of the last user turn; `prompt` says that `text`
    already stands, exactly once, in the messages, and leaving it out takes it out of there.
    `{detail}` in an appended text is filled with the verifier's message on the response that is
    replayed. A reward may have several variants; the first is the default (`replay.variants`
    selects). `label`: what figures go under where the reward's name says little (`constraint_3`).
    """

    reward: str
    variant: str
    where: Literal["append", "prompt"]
    text: str
    label: str = ""


@dataclass(frozen=True)
class Prompt:
    """One question. `payload` is a JSON object with what the task's verifiers need."""

    id: str
    split: str
    kind: str
    difficulty: str
    source: str
    messages: tuple[Message, ...]
    information: tuple[Information, ...]
    reference: str
    payload: str


@dataclass(frozen=True)
class Reward:
    """One verifier's result. `value` is None where it could not decide, or the prompt does not have
    this reward (status `absent`)."""

    name: str
    value: float | None
    status: Status
    detail: str = ""

    @property
    def number(self) -> float | None:
        """The value, None also where it is not finite: nothing may be computed with that."""
        return self.value if self.value is not None and math.isfinite(self.value) else None

    @property
    def asked(self) -> bool:
        """Whether the prompt has this reward at all."""
        return self.status != "absent"


@dataclass(frozen=True)
class Rollout:
    """One response, as token ids (the end token included, padding never).

    `logprobs` are those of the sampling policy at the sampling temperature. `rewards` come in the
    task's order; `metrics` are further verifier results that are not rewarded.
    """

    prompt_id: str
    sample: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finished: bool
    rewards: tuple[Reward, ...] = ()
    metrics: tuple[Reward, ...] = ()


_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
_INFORMATION = pa.struct(
    [("reward", pa.string()), ("variant", pa.string()), ("where", pa.string()),
     ("text", pa.string()), ("label", pa.string())]
)  # fmt: skip
_REWARD = pa.struct(
    [("name", pa.string()), ("value", pa.float64()), ("status", pa.string()),
     ("detail", pa.string())]
)  # fmt: skip

PROMPT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("split", pa.string()),
        ("kind", pa.string()),
        ("difficulty", pa.string()),
        ("source", pa.string()),
        ("messages", pa.list_(_MESSAGE)),
        ("information", pa.list_(_INFORMATION)),
        ("reference", pa.string()),
        ("payload", pa.string()),
    ]
)
ROLLOUT_SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("sample", pa.int32()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("response_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("text", pa.string()),
        ("finished", pa.bool_()),
        ("rewards", pa.list_(_REWARD)),
        ("metrics", pa.list_(_REWARD)),
    ]
)


def write_parquet(path: Path, rows: Iterable[Any], schema: pa.Schema) -> None:
    """Write dataclass records or mappings atomically, creating the folder.

    Raises ValueError naming what a row holds and the schema does not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = [_plain(row) for row in rows]
    if lost := {name for row in plain for name in row} - set(schema.names):
        raise ValueError(f"{path}: the schema has no column: {', '.join(sorted(lost))}")
    table = pa.Table.from_pylist(plain, schema=schema)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, temporary)
    temporary.replace(path)


def read_rows(path: Path, schema: pa.Schema | None = None) -> list[dict[str, Any]]:
    """Rows of a parquet file as mappings, of the schema's columns alone where one is given.

    Raises ValueError naming the file and missing columns.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: not there; run the stage that writes it first")
    table = pq.read_table(path)
    if schema is not None:
        if missing := set(schema.names) - set(table.column_names):
            raise ValueError(f"{path}: columns missing: {', '.join(sorted(missing))}")
        table = table.select(schema.names)
    return table.to_pylist()


def read_prompts(path: Path) -> list[Prompt]:
    return [
        Prompt(
            **{
                **row,
                "messages": tuple(Message(**m) for m in row["messages"]),
                "information": tuple(Information(**i) for i in row["information"]),
            }
        )
        for row in read_rows(path, PROMPT_SCHEMA)
    ]


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    write_parquet(path, prompts, PROMPT_SCHEMA)


def read_rollouts(path: Path) -> list[Rollout]:
    return [
        Rollout(
            **{
                **row,
                "prompt_ids": tuple(row["prompt_ids"]),
                "response_ids": tuple(row["response_ids"]),
                "logprobs": tuple(row["logprobs"]),
                "rewards": tuple(Reward(**r) for r in row["rewards"]),
                "metrics": tuple(Reward(**r) for r in row["metrics"]),
            }
        )
        for row in read_rows(path, ROLLOUT_SCHEMA)
    ]


def write_rollouts(path: Path, rollouts: Sequence[Rollout]) -> None:
    write_parquet(path, rollouts, ROLLOUT_SCHEMA)


def _plain(row: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return dataclasses.asdict(row)
    return dict(row)
