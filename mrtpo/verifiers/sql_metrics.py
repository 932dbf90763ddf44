"""What can be asked of a pair of query results: the metrics by name, a digest, a preview.

Imported in every verifier process, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from mrtpo.verifiers.sql_overlap import (
    bird_soft_f1,
    cell_precision,
    cell_recall,
    tuple_cardinality,
)
from mrtpo.verifiers.sql_results import (
    Row,
    bird_equal,
    ehrsql_equal,
    ehrsql_query,
    order_matters,
    spider_equal,
    spider_query,
)

PREVIEW_CHARS = 60  # of a cell or column name


@dataclass(frozen=True)
class Metric:
    """`rewrite` gives the form of a query that the metric runs, `score` compares the two results
    (gold query as run, gold rows, predicted rows); `failed` is the score of what does not run."""

    rewrite: Callable[[str], str]
    score: Callable[[str, Sequence[Row], Sequence[Row]], bool | float]
    failed: bool | float


def _as_written(sql: str) -> str:
    return sql


def _graded(score: Callable[[Sequence[Row], Sequence[Row]], float]) -> Metric:
    return Metric(_as_written, lambda sql, gold, rows: score(gold, rows), 0.0)


METRICS = {
    "spider_exec": Metric(
        spider_query, lambda sql, gold, rows: spider_equal(gold, rows, order_matters(sql)), False
    ),
    "bird_ex": Metric(_as_written, lambda sql, gold, rows: bird_equal(gold, rows), False),
    "bird_soft_f1": _graded(bird_soft_f1),
    "cell_precision": _graded(cell_precision),
    "cell_recall": _graded(cell_recall),
    "tuple_cardinality": _graded(tuple_cardinality),
    "ehrsql": Metric(ehrsql_query, lambda sql, gold, rows: ehrsql_equal(gold, rows), False),
}


def result_digest(rows: Sequence[Row]) -> str:
    """16 hexadecimal digits that are the same just if two results are equal as sets of rows.

    As `bird_equal` has it: 1 and 1.0 are equal, 1 and '1' are not. Chance of a false match 2⁻⁶⁴.
    """
    texts = sorted({repr(tuple(map(_exact, row))) for row in rows})
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _exact(cell: Any) -> Any:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def preview(columns: Sequence[str], rows: Sequence[Row], most: int) -> list[Any]:
    """`[columns, the first rows, number of rows]`, names and cells as short texts."""
    shown = [[_shown(cell) for cell in row] for row in rows[:most]]
    return [[_cut(name) for name in columns], shown, len(rows)]


def _shown(cell: Any) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return _cut(f"x'{cell[:PREVIEW_CHARS].hex()}'")
    return _cut(str(cell))


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"
