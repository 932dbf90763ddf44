"""The gate before training: Great Expectations on prompt tables, and an error that names rows.

`validate_prompts` takes one row a prompt with the columns `COLUMNS` (further ones are welcome;
extra expectations may use them):

    id, split, kind, difficulty, source   as in the prompt files; source is a database or tool
    prompt, prompt_chars                  rendered text and its length
    reference, reference_status, reference_rows   the answer, and how running it went
    file, row                             where the prompt came from; named in errors
    fingerprint                           normalised question and answer, to find leaks by

Two derived tables are checked as well: `splits of …` says in which splits a fingerprint or source
occurs, and a balance table holds the share of each kind in each split.

Great Expectations never raises: a failed expectation, or an exception inside one, is only a field
of its result. Here both become a `DataError`. Its null handling is lenient (a missing value passes
every comparison), so each column is also expected to have no missing values.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from mrtpo.data_docs import count, left_out, plain, render, shorten, write_docs

COLUMNS = (
    "id", "split", "kind", "difficulty", "source", "prompt", "prompt_chars", "reference",
    "reference_status", "reference_rows", "file", "row", "fingerprint",
)  # fmt: skip
MAY_BE_MISSING = ("difficulty",)
_REFERENCE_COLUMNS = ("reference_status", "reference_rows")
_ROWS_IN_ERROR, _ROWS_IN_DOCS = 5, 20


@dataclass(frozen=True)
class Limits:
    """What the expectations compare with. `None` switches a bound off."""

    max_prompt_chars: int | None
    splits: tuple[str, ...] = ("train", "valid", "test")
    unseen_sources: bool = False
    """Whether train and test must not share a source (a database, a tool)."""
    largest_kind: float | None = None
    """Largest share that one kind may have within a split."""
    smallest_kind: float | None = None
    """Least share that each kind must have within each split."""
    reference_runs: bool = True
    """Whether references are run: `reference_status` and `reference_rows` are there and checked."""
    text: tuple[str, ...] = ("prompt", "reference")
    """Columns that must hold more than blanks."""
    max_prompt_tokens: int | None = None
    """Bound of the column `prompt_size`, where prompts are measured in tokens."""
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns whose values, where there are any, must be among these."""
    filled: Mapping[str, float] = field(default_factory=dict)
    """Columns that must have a value in at least this share of the rows."""


@dataclass(frozen=True)
class FailingRow:
    """`file` and `row` as the table gave them; both absent in the balance table."""

    file: str | None
    row: int | None
    id: str
    field: str
    value: object

    def __str__(self) -> str:
        where = f"{self.file}, row {self.row}, id {self.id}" if self.file else self.id
        return f"{where}: {self.field} = {shorten(plain(self.value))!r}"


@dataclass(frozen=True)
class Check:
    """One expectation's outcome: how many rows failed, the first of them, else why as text."""

    expectation: str
    field: str
    description: str
    passed: bool
    failed_rows: int = 0
    rows: tuple[FailingRow, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        name = f"{self.expectation}({self.field})" if self.field else self.expectation
        lines = [f"{name}: {self.reason or count(self.failed_rows, 'row')}"]
        lines += [f"  {row}" for row in self.rows[:_ROWS_IN_ERROR]]
        if self.failed_rows > _ROWS_IN_ERROR:
            lines.append(f"  … and {self.failed_rows - _ROWS_IN_ERROR} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class Summary:
    rows: int
    checks: tuple[Check, ...]

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)


class DataError(ValueError):
    """Data that must not be trained on; the text lists expectations, counts and first rows."""

    def __init__(self, summary: Summary, docs: Path) -> None:
        self.summary = summary
        failures = summary.failures
        text = f"data validation: {len(failures)} of {count(len(summary.checks), 'expectation')}"
        super().__init__("\n".join([f"{text} failed (see {docs})", *map(str, failures)]))


def validate_prompts(
    frame: pd.DataFrame,
    limits: Limits,
    docs_folder: Path,
    extra: Sequence[Any] = (),
    counts: Mapping[str, float] = {},
) -> Summary:
    """Check a prompt table; write Data Docs, pass or fail; raise `DataError` if anything failed.

    `extra` are further Great Expectations expectations on the same table, for a task's own fields.
    Of `counts` the pages show what was dropped and reduced (`data_docs.left_out`).
    """
    frame = frame.reset_index(drop=True)
    runs = {"prompts": (frame, _structure(limits))}
    if not frame.empty and set(_required(limits)) <= set(frame.columns):
        frame = _with_splits(frame, limits)
        runs = {"prompts": (frame, [*_structure(limits), *_contents(limits), *extra])}
        if balance := _balance_expectations(limits):
            runs["balance"] = (_balance(frame, limits), balance)
    checks, pages = [], {}
    for name, (table, expectations) in runs.items():
        result = _evaluate(name, table, expectations)
        checks += [_check(table, outcome) for outcome in _in_order(result.results)]
        pages[name] = render(result)
    summary = Summary(len(frame), tuple(checks))
    write_docs(docs_folder, summary, pages, left_out(counts))
    if summary.failures:
        raise DataError(summary, docs_folder / "index.html")
    return summary


def _gx() -> Any:
    """Great Expectations, imported late (seconds) and with its usage reports off."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    return great_expectations


def _required(limits: Limits) -> list[str]:
    unused = () if limits.reference_runs else _REFERENCE_COLUMNS
    size = () if limits.max_prompt_tokens is None else ("prompt_size",)
    asked = (*COLUMNS, *limits.text, *size, *limits.allowed, *limits.filled)
    return [column for column in dict.fromkeys(asked) if column not in unused]


def _structure(limits: Limits) -> list[Any]:
    """Without these nothing else can be asked."""
    ex, columns = _gx().expectations, _required(limits)
    return [
        ex.ExpectTableColumnsToMatchSet(
            column_set=columns, exact_match=False, description="all columns are there"
        ),
        ex.ExpectTableRowCountToBeBetween(min_value=1, description="there are rows"),
    ]


def _contents(limits: Limits) -> list[Any]:
    ex, splits = _gx().expectations, list(limits.splits)
    listed = ", ".join(splits)
    checks = [
        ex.ExpectColumnValuesToNotBeNull(column=name, description="no missing values")
        for name in _required(limits)
        if name not in (*MAY_BE_MISSING, *limits.filled)
    ]
    checks += [
        ex.ExpectColumnValuesToNotBeNull(
            column=name, mostly=share, description=f"a value in {share:.0%} of the rows or more"
        )
        for name, share in limits.filled.items()
    ]
    checks += [
        ex.ExpectColumnValuesToBeInSet(
            column=name,
            value_set=list(values),
            description=f"one of {', '.join(values)}" if any(values) else "empty",
        )
        for name, values in limits.allowed.items()
    ]
    if limits.max_prompt_tokens is not None:
        checks.append(
            ex.ExpectColumnValuesToBeBetween(
                column="prompt_size",
                min_value=1,
                max_value=limits.max_prompt_tokens,
                description=f"between 1 and {limits.max_prompt_tokens} tokens",
            )
        )
    checks += [
        ex.ExpectColumnValuesToBeUnique(column="id", description="unique"),
        ex.ExpectColumnValuesToBeInSet(
            column="split", value_set=splits, description=f"one of {listed}"
        ),
        ex.ExpectColumnDistinctValuesToContainSet(
            column="split", value_set=splits, description=f"each of {listed} has rows"
        ),
        ex.ExpectColumnValuesToBeBetween(
            column="prompt_chars",
            min_value=1,
            max_value=limits.max_prompt_chars,
            description=f"between 1 and {limits.max_prompt_chars or 'any number'}",
        ),
        ex.ExpectColumnValuesToNotMatchRegex(
            column="splits of fingerprint",
            regex=r"^[^(]*\+",
            description="no question in two splits",
        ),
    ]
    checks += [  # the pattern is matched from the start of the value
        ex.ExpectColumnValuesToMatchRegex(column=name, regex=r"\s*\S", description="not blank")
        for name in limits.text
    ]
    if limits.unseen_sources:
        checks.append(
            ex.ExpectColumnValuesToNotMatchRegex(
                column="splits of source",
                regex=r"^[^(]*\+",
                description="no source in both train and test",
            )
        )
    if limits.reference_runs:
        checks += [
            ex.ExpectColumnValuesToBeInSet(
                column="reference_status", value_set=["ok"], description="the reference ran"
            ),
            ex.ExpectColumnValuesToBeBetween(
                column="reference_rows", min_value=1, description="the reference returns rows"
            ),
        ]
    return checks


def _balance_expectations(limits: Limits) -> list[Any]:
    low, high = limits.smallest_kind, limits.largest_kind
    if low is None and high is None:
        return []
    text = f"share of each kind in each split between {low or 0} and {1 if high is None else high}"
    return [
        _gx().expectations.ExpectColumnValuesToBeBetween(
            column="share", min_value=low, max_value=high, description=text
        )
    ]


def _with_splits(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Adds where each fingerprint and source occurs: `train`, or `train+test (ids: a, b)`."""
    frame = frame.copy()
    frame["splits of fingerprint"] = _splits_of(frame, "fingerprint", limits.splits)
    if limits.unseen_sources:
        ends = tuple(split for split in limits.splits if split in ("train", "test"))
        frame["splits of source"] = _splits_of(frame, "source", ends)
    return frame


def _splits_of(frame: pd.DataFrame, column: str, splits: tuple[str, ...]) -> pd.Series:
    firsts = frame[frame["split"].isin(splits)].drop_duplicates([column, "split"])
    firsts = firsts.dropna(subset=[column])
    found = {
        value: "+".join(group["split"]) + (f" (ids: {', '.join(map(str, group['id']))})")
        for value, group in firsts[firsts.duplicated(column, keep=False)].groupby(column)
    }
    alone = dict(zip(firsts[column], firsts["split"], strict=True))
    return frame[column].map(alone | found)


def _balance(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """One row for each split and kind; a kind that a split lacks has the share 0."""
    frame = frame[frame["split"].isin(limits.splits)]
    counts = pd.crosstab(frame["split"], frame["kind"])
    shares = counts.div(counts.sum(axis=1), axis=0).stack().rename("share").reset_index()
    shares["id"] = shares["split"].astype(str) + "/" + shares["kind"].astype(str)
    return shares


def _evaluate(name: str, table: pd.DataFrame, expectations: Sequence[Any]) -> Any:
    gx = _gx()
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas("mrtpo").add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": table})
    numbered = [
        expectation.copy(update={"meta": {**(expectation.meta or {}), "place": place}})
        for place, expectation in enumerate(expectations)
    ]
    suite = gx.ExpectationSuite(name=name, expectations=numbered)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return batch.validate(suite, result_format={"result_format": "COMPLETE"})


def _in_order(outcomes: Iterable[Any]) -> list[Any]:
    """Great Expectations lists those that raised first; we keep the order of the suite."""
    return sorted(outcomes, key=lambda outcome: outcome.expectation_config.meta["place"])


def _check(table: pd.DataFrame, outcome: Any) -> Check:
    config, result = outcome.expectation_config, outcome.result
    columns = config.kwargs.get("column_list") or [
        config.kwargs[key] for key in ("column", "column_A", "column_B") if key in config.kwargs
    ]
    field = ", ".join(columns)
    check = (config.type, field, outcome.expectation_config.description or "")
    if raised := _exception(outcome.exception_info):
        return Check(*check, passed=False, reason=f"could not be evaluated: {raised}")
    if outcome.success:
        return Check(*check, passed=True)
    places = result.get("unexpected_index_list") or []
    if not places:
        mismatched = result.get("details", {}).get("mismatched", {})
        missing = mismatched.get("missing") or result.get("partial_missing_list")
        reason = f"missing: {', '.join(map(str, missing))}" if missing else ""
        reason = reason or f"found {shorten(result.get('observed_value'))}"
        return Check(*check, passed=False, reason=reason)
    values = result["unexpected_list"]  # cut at 200, unlike the places
    first = zip(places[:_ROWS_IN_DOCS], values[:_ROWS_IN_DOCS], strict=True)
    rows = tuple(_failing_row(table, place, field, value) for place, value in first)
    return Check(*check, passed=False, failed_rows=len(places), rows=rows)


def _failing_row(table: pd.DataFrame, place: int, field: str, value: object) -> FailingRow:
    row = table.loc[place]
    number, file = row.get("row"), row.get("file")
    return FailingRow(
        file=None if pd.isna(file) else str(file),
        row=None if pd.isna(number) else int(number),
        id=str(row["id"]),
        field=field,
        value=value,
    )


def _exception(info: dict[str, Any] | None) -> str:
    """The message of an exception inside an expectation: of its own, or one nested per metric."""
    info = info or {}
    for entry in [info] if "raised_exception" in info else info.values():
        if entry.get("raised_exception"):
            return str(entry.get("exception_message") or "an exception without a message")
    return ""
