"""When two query results count as equal: Spider's, BIRD's and EHRSQL's metrics, in own words.

Sources: `spider_equal`, `spider_query` and `order_matters` follow the execution evaluation of
taoyds/test-suite-sql-eval (Zhong et al. 2020, "Semantic Evaluation for Text-to-SQL with Distilled
Test Suites"), options `--etype exec` without `--plug_value` and `--keep_distinct`; `bird_equal`
follows `evaluation_ex.py` of bird-bench/mini_dev (Li et al. 2023); `ehrsql_equal` and
`ehrsql_query` follow `evaluate.py` of glee4810/EHRSQL 1.5.1 (Lee et al. 2022). Where they differ
from the originals in a result, the docstring says so. Graded scores are in `sql_overlap`.

Rows are tuples of the engine's values (int, float, str, bytes, None).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

Row = tuple[Any, ...]

MOST_WORK = 2_000_000  # cells looked at in the search for a column order

_TOKEN = re.compile(
    r"""'[^']*(?:''[^']*)*'?      # string
    |"[^"]*(?:""[^"]*)*"?         # identifier, or string by SQLite's leniency
    |`[^`]*(?:``[^`]*)*`?         # identifier
    |\[[^\]]*\]?                  # identifier
    |--[^\n]*                     # comment
    |/\*.*?(?:\*/|\Z)             # comment
    |\w+|\s+|.""",
    re.DOTALL | re.VERBOSE,
)
EHRSQL_NOW = "2105-12-31 23:59:00"
EHRSQL_ROWS = 100
_NORMAL_RANGES = {
    "temperature": (35.5, 38.1),
    "sao2": (95.0, 100.0),
    "heart rate": (60.0, 100.0),
    "respiration": (12.0, 18.0),
    "systolic bp": (90.0, 120.0),
    "diastolic bp": (60.0, 90.0),
    "mean bp": (60.0, 110.0),
}
_LOWER = re.compile(r"[ \n]((\w+)_lower)", re.ASCII)
_UPPER = re.compile(r"[ \n]((\w+)_upper)", re.ASCII)
_THIS_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)


def sql_tokens(sql: str) -> Iterator[str]:
    """The pieces of a statement: literals, quoted names and comments whole; they join to `sql`."""
    return (match.group() for match in _TOKEN.finditer(sql))


def spider_query(sql: str) -> str:
    """The form of a query that Spider's execution match runs.

    `> =`, `< =`, `! =` are joined, every keyword DISTINCT is dropped, and YEAR(CURDATE()) is 2020.
    The replacement of the text `value` by `1` in predictions, which the original's command line
    makes beforehand and which breaks columns of such a name, is left out.
    """
    sql = sql.replace("> =", ">=").replace("< =", "<=").replace("! =", "!=")
    lower = sql.lower()
    if "distinct" in lower:
        sql = "".join(token for token in sql_tokens(sql) if token.lower() != "distinct")
    return _THIS_YEAR.sub("2020", sql) if "curdate" in lower else sql


def order_matters(gold: str) -> bool:
    """Whether the text `order by` occurs anywhere in the gold query, as Spider's match has it."""
    return "order by" in gold.lower()


def bird_equal(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> bool:
    """BIRD's EX: equal as sets of rows; duplicates and row order are ignored, columns stay put."""
    return set(gold_rows) == set(predicted_rows)


def ehrsql_query(sql: str) -> str:
    """The form of a query that EHRSQL's evaluation runs.

    All is lower case, literals too; current_time and 'now' are the data set's present
    (`EHRSQL_NOW`); a pair `<vital>_lower`, `<vital>_upper` is that vital sign's normal range, if
    the first of each kind speak of one known sign; doubled quotes become single; `< =` is joined;
    %y and %j become %Y and %J.
    """
    sql = sql.lower().replace("current_time", f"'{EHRSQL_NOW}'")
    lower, upper = _LOWER.search(sql), _UPPER.search(sql)
    if lower and upper and lower.group(2) == upper.group(2):
        limits = _NORMAL_RANGES.get(lower.group(2).replace("_", " "))
        if limits:
            for found, limit in zip((lower, upper), limits, strict=True):
                sql = sql.replace(found.group(1), str(limit))
    sql = sql.replace("''", "'").replace("< =", "<=").replace("%y", "%Y").replace("%j", "%J")
    return sql.replace("'now'", f"'{EHRSQL_NOW}'")


def ehrsql_equal(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> bool:
    """EHRSQL's comparison: the first 100 rows of each as texts, sorted. 1 and 1.0 differ.

    Abstentions (the query `null`) never get here; they are the caller's to count.
    """
    gold, predicted = (sorted(map(str, rows[:EHRSQL_ROWS])) for rows in (gold_rows, predicted_rows))
    return gold == predicted


def spider_equal(
    gold_rows: Sequence[Row], predicted_rows: Sequence[Row], order_matters: bool
) -> bool:
    """Spider's execution match: equal in some order of the predicted columns.

    Two empty results are equal. Otherwise row and column counts must agree, and for some
    permutation of columns the rows must be equal, as lists if `order_matters`, else as multisets.
    As in the original, rows with their cells sorted by text and type are compared first (as lists
    or as sets), which rejects a few results that differ in nothing but int against float.

    The original thins the permutations with 20 random rows and may try n! of them; here a search
    by column contents decides the same, with the same answer every time. It gives up, as unequal,
    after `MOST_WORK` cells, which takes many columns that hardly anything tells apart.
    """
    if not gold_rows and not predicted_rows:
        return True
    if len(gold_rows) != len(predicted_rows) or len(gold_rows[0]) != len(predicted_rows[0]):
        return False
    gold_cells = [_sorted_cells(row) for row in gold_rows]
    predicted_cells = [_sorted_cells(row) for row in predicted_rows]
    if order_matters:
        # Rows stay in place, so a permutation exists just if the columns are the same multiset.
        return gold_cells == predicted_cells and Counter(zip(*gold_rows, strict=True)) == Counter(
            zip(*predicted_rows, strict=True)
        )
    return set(gold_cells) == set(predicted_cells) and (
        Counter(gold_rows) == Counter(predicted_rows)
        or _some_column_order_fits(gold_rows, predicted_rows)
    )


def _sorted_cells(row: Row) -> Row:
    return tuple(sorted(row, key=lambda cell: f"{cell}{type(cell)}")) if len(row) > 1 else row


def _some_column_order_fits(gold_rows: Sequence[Row], predicted_rows: Sequence[Row]) -> bool:
    """Whether some permutation of predicted columns makes the two multisets of rows equal.

    A column can only go where the same values stand in rows of the same contents. Among such
    places, columns are put one after the other; after each, the multisets of the rows' beginnings
    must still agree. Beginnings are numbered, so that a step compares one number for a row.
    """
    gold = list(zip(*gold_rows, strict=True))
    predicted = list(zip(*predicted_rows, strict=True))
    contents: dict[Any, int] = {}
    columns_like: dict[frozenset[Any], list[int]] = {}
    for j, signature in enumerate(_signatures(predicted, predicted_rows, contents)):
        columns_like.setdefault(signature, []).append(j)
    places = [columns_like.get(like, []) for like in _signatures(gold, gold_rows, contents)]
    order = sorted(range(len(gold)), key=lambda i: len(places[i]))
    first_like: dict[Row, int] = {}
    first_equal = [first_like.setdefault(column, j) for j, column in enumerate(predicted)]
    work = MOST_WORK

    def fits(depth: int, gold_heads: list[int], predicted_heads: list[int], used: set[int]) -> bool:
        nonlocal work
        if depth == len(order):
            return True
        column = order[depth]
        tried: set[int] = set()  # of equal columns one is tried
        for j in places[column]:
            work -= len(gold_rows)
            if j in used or first_equal[j] in tried or work < 0:
                continue
            tried.add(first_equal[j])
            numbers: dict[tuple[int, Any], int] = {}
            longer = _numbered(gold_heads, gold[column], numbers)
            other = _numbered(predicted_heads, predicted[j], numbers)
            if Counter(longer) == Counter(other) and fits(depth + 1, longer, other, used | {j}):
                return True
        return False

    start = [0] * len(gold_rows)
    return fits(0, start, start, set())


def _signatures(
    columns: Sequence[Row], rows: Sequence[Row], numbers: dict[Any, int]
) -> list[frozenset[Any]]:
    """For each column the multiset of (cell, contents of its row in any order, as a number)."""
    contents = [numbers.setdefault(frozenset(Counter(row).items()), len(numbers)) for row in rows]
    return [frozenset(Counter(zip(cells, contents, strict=True)).items()) for cells in columns]


def _numbered(heads: list[int], cells: Row, numbers: dict[tuple[int, Any], int]) -> list[int]:
    """Beginnings of rows made longer by a cell, as numbers that are equal just if they are."""
    return [numbers.setdefault(key, len(numbers)) for key in zip(heads, cells, strict=True)]
