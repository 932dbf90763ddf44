"""How much two query results have in common, from 0 to 1, in own words.

`bird_soft_f1` follows `evaluation_f1.py` of bird-bench/mini_dev (Li et al. 2023); `cell_precision`,
`cell_recall` and `tuple_cardinality` follow spapicchio/QATCH (Papicchio et al. 2023), from which
Think2SQL makes rewards. Rows as in `sql_results`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any
from zlib import crc32

from mrtpo.verifiers.sql_results import Row


class _StableRow(tuple[Any, ...]):
    """A row whose place in a set is the same in every process: texts hash by their characters."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple(map(_stable, self)))


def _stable(cell: object) -> object:
    if isinstance(cell, int | float):
        return cell
    if cell is None:
        return 0x2D5A
    data = cell if isinstance(cell, bytes) else str(cell).encode("utf-8", "surrogatepass")
    return crc32(data)


def bird_soft_f1(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> float:
    """BIRD's Soft-F1: the overlap of cells, row by row.

    Duplicate rows are dropped, then the n-th gold row is held against the n-th predicted row: the
    predicted cells that occur in the gold row, those that do not, and the gold cells that do not
    occur in the predicted row, each as a share of the gold row's length. A row without a partner
    counts as 1 missing, or 1 too many. F1 follows from the three sums; two empty results score 1.

    The original puts the rows in the order in which a Python set yields them. So it does not see
    the order of rows in the result, and which rows meet is a matter of their hashes: random where
    they hold text. Here texts have fixed hashes: the original's value for rows of numbers, and for
    others one of its possible values, the same in every run. As there, two results that are equal
    as sets may score below 1 where hashes collide, and repeated cells may count twice.
    """
    if not gold_rows and not predicted_rows:
        return 1.0
    gold = list(set(map(_StableRow, gold_rows)))
    predicted = list(set(map(_StableRow, predicted_rows)))
    common = 0.0
    extra = float(max(0, len(predicted) - len(gold)))
    missing = float(max(0, len(gold) - len(predicted)))
    for wanted, given in zip(gold, predicted, strict=False):
        hits = sum(cell in wanted for cell in given)
        common += hits / len(wanted)
        extra += (len(given) - hits) / len(wanted)
        missing += sum(cell not in given for cell in wanted) / len(wanted)
    if common == 0:
        return 0.0
    precision, recall = common / (common + extra), common / (common + missing)
    return 2 * precision * recall / (precision + recall)


def cell_precision(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> float:
    """QATCH's cell precision: the share of the distinct predicted cells that the gold has too.

    Where a cell stands does not matter. Two empty results score 1, one empty result 0; rounded to
    three digits as in the original.
    """
    return _share(predicted_rows, gold_rows)


def cell_recall(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> float:
    """QATCH's cell recall: the share of the distinct gold cells that were predicted too."""
    return _share(gold_rows, predicted_rows)


def tuple_cardinality(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> float:
    """QATCH's tuple cardinality: the smaller number of rows over the larger; 1 if both are 0."""
    few, many = sorted((len(gold_rows), len(predicted_rows)))
    return round(few / many, 3) if many else 1.0


def _share(of: Sequence[Row], among: Sequence[Row]) -> float:
    if not of or not among:
        return float(not of and not among)
    cells = set(chain.from_iterable(of))
    return round(len(cells & set(chain.from_iterable(among))) / len(cells), 3)
