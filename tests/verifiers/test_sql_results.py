"""Equality of query results as Spider, BIRD and EHRSQL have it, and their forms of queries."""

import itertools
import json
import os
import random
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest

from mrtpo.verifiers.sql_results import (
    bird_equal,
    ehrsql_equal,
    ehrsql_query,
    order_matters,
    spider_equal,
    spider_query,
    sql_tokens,
)


def test_duplicates_count_for_spider_and_not_for_bird():
    gold, distinct = [(1,), (1,), (2,)], [(1,), (2,)]
    assert bird_equal(gold, distinct)
    assert not spider_equal(gold, distinct, order_matters=False)
    assert not spider_equal([(1,), (1,), (2,)], [(1,), (2,), (2,)], order_matters=False)


def test_row_order_counts_for_spider_only_where_it_matters():
    gold, turned = [(1, "a"), (2, "b")], [(2, "b"), (1, "a")]
    assert spider_equal(gold, turned, order_matters=False)
    assert not spider_equal(gold, turned, order_matters=True)
    assert bird_equal(gold, turned)


def test_column_order_counts_for_bird_and_not_for_spider():
    gold, swapped = [(1, "a"), (2, "b")], [("a", 1), ("b", 2)]
    assert spider_equal(gold, swapped, order_matters=False)
    assert spider_equal(gold, swapped, order_matters=True)
    assert not bird_equal(gold, swapped)


def test_columns_must_be_swapped_alike_in_every_row():
    gold = [(1, 2), (3, 4)]
    assert not spider_equal(gold, [(1, 2), (4, 3)], order_matters=False)
    assert not spider_equal(gold, [(1, 2), (4, 3)], order_matters=True)
    assert not spider_equal([(1, 2), (2, 1)], [(1, 1), (2, 2)], order_matters=False)


@pytest.mark.parametrize("ordered", [False, True])
def test_empty_results_are_equal_whatever_their_columns(ordered):
    assert spider_equal([], [], ordered)
    assert bird_equal([], [])
    assert not spider_equal([], [(None,)], ordered)
    assert not bird_equal([], [(None,)])


@pytest.mark.parametrize("ordered", [False, True])
def test_counts_of_rows_and_columns_must_agree(ordered):
    assert not spider_equal([(1,)], [(1,), (1,)], ordered)
    assert not spider_equal([(1,)], [(1, 1)], ordered)


def test_values_compare_as_python_values():
    assert spider_equal([(1,), (None,)], [(None,), (1.0,)], order_matters=False)
    assert not spider_equal([(1,)], [("1",)], order_matters=False)
    assert not spider_equal([(b"1",)], [("1",)], order_matters=False)
    assert not bird_equal([(0.1 + 0.2,)], [(0.3,)])


def test_sorted_cells_reject_as_the_original_does():
    # "1<class…" sorts behind "10<class…", "1.0<class…" before it: equal values, unequal rows.
    assert not spider_equal([(1, 10)], [(1.0, 10)], order_matters=False)
    assert bird_equal([(1, 10)], [(1.0, 10)])


def brute_force(gold, predicted, ordered):
    """All permutations, for results whose cells are of one type."""
    if not gold and not predicted:
        return True
    if len(gold) != len(predicted) or len(gold[0]) != len(predicted[0]):
        return False
    for order in itertools.permutations(range(len(gold[0]))):
        permuted = [tuple(row[i] for i in order) for row in predicted]
        if gold == permuted or (not ordered and Counter(gold) == Counter(permuted)):
            return True
    return False


@pytest.mark.parametrize("ordered", [False, True])
def test_the_search_agrees_with_all_permutations(ordered):
    rng = random.Random(7)
    verdicts = Counter()
    for _ in range(1200):
        columns, rows, values = rng.randint(1, 5), rng.randint(1, 6), rng.randint(2, 3)
        gold = [tuple(rng.randrange(values) for _ in range(columns)) for _ in range(rows)]
        order = rng.sample(range(columns), columns)
        predicted = [[row[i] for i in order] for row in gold]
        if not ordered:
            rng.shuffle(predicted)
        for _ in range(rng.randint(0, 2)):  # swap cells: keeps the values, may break the rows
            row, other = rng.choice(predicted), rng.choice(predicted)
            i, j = rng.randrange(columns), rng.randrange(columns)
            row[i], other[j] = other[j], row[i]
        predicted = [tuple(row) for row in predicted]
        expected = brute_force(gold, predicted, ordered)
        assert spider_equal(gold, predicted, ordered) == expected
        verdicts[expected] += 1
    assert min(verdicts[True], verdicts[False]) > 100


def permuted_columns(rows, seed):
    order = random.Random(seed).sample(range(len(rows[0])), len(rows[0]))
    return [tuple(row[i] for i in order) for row in rows]


def test_many_columns_are_matched_in_no_time():
    rng = random.Random(0)
    rows = [tuple(rng.randrange(3) for _ in range(60)) for _ in range(200)]
    predicted = permuted_columns(rows, 1)
    rng.shuffle(predicted)
    start = time.monotonic()
    assert spider_equal(rows, predicted, order_matters=False)
    assert time.monotonic() - start < 3


def test_equal_columns_do_not_multiply_the_search():
    rows = [(i % 2,) * 40 for i in range(50)]
    near = [*rows[:-2], (0,) * 20 + (1,) * 20, (1,) * 20 + (0,) * 20]
    start = time.monotonic()
    assert spider_equal(rows, rows[::-1], order_matters=False)
    assert not spider_equal(near, [*rows[:-2], rows[-1], rows[-2]], order_matters=False)
    assert time.monotonic() - start < 3


def incidences(edges, nodes):
    """A row for each edge with 1 at its ends: equal up to rows and columns if the graphs are.

    With equal columns besides, which a search that does not know them as such would permute.
    """
    return [tuple(int(node in edge) for node in range(nodes)) + (7,) * 10 for edge in edges]


def test_columns_that_hardly_differ_end_the_search_in_bounded_time():
    # The 4×4 rook's graph and the Shrikhande graph: strongly regular, alike, not isomorphic.
    cells = list(itertools.product(range(4), repeat=2))
    number = {cell: i for i, cell in enumerate(cells)}
    rook = {
        frozenset((number[a], number[b]))
        for a, b in itertools.combinations(cells, 2)
        if a[0] == b[0] or a[1] == b[1]
    }
    steps = [(0, 1), (1, 0), (1, 1)]
    shrikhande = {
        frozenset((number[x, y], number[(x + dx) % 4, (y + dy) % 4]))
        for x, y in cells
        for dx, dy in steps
    }
    assert len(rook) == len(shrikhande) == 48
    gold, other = incidences(rook, 16), incidences(shrikhande, 16)
    start = time.monotonic()
    assert not spider_equal(gold, other, order_matters=False)
    assert spider_equal(gold, permuted_columns(gold, 3)[::-1], order_matters=False)
    assert time.monotonic() - start < 5


def test_the_search_gives_up_as_unequal(monkeypatch):
    rows = [(i, i % 3, i % 5, -i) for i in range(50)]
    predicted = permuted_columns(rows, 1)[::-1]
    assert spider_equal(rows, predicted, order_matters=False)
    monkeypatch.setattr("mrtpo.verifiers.sql_results.MOST_WORK", 100)
    assert not spider_equal(rows, predicted, order_matters=False)


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("SELECT a FROM t WHERE a > = 1 AND b < = 2 AND c ! = 3", None),
        ("SELECT DISTINCT a FROM t", "SELECT  a FROM t"),
        ("SELECT count(distinct a), 'DISTINCT' FROM t", "SELECT count( a), 'DISTINCT' FROM t"),
        ('SELECT "distinct", [distinct], `distinct`, distinctive FROM t', "same"),
        ("SELECT 'it''s DISTINCT' -- DISTINCT\n/* DISTINCT */ FROM t", "same"),
        ("SELECT 'open DISTINCT", "same"),
        ("SELECT year(curdate()) - born", "SELECT 2020- born"),
        ("SELECT YEAR ( CURDATE ( ) ) FROM t", "SELECT 2020FROM t"),
        ("SELECT value FROM t", "same"),
    ],
)
def test_spider_runs_a_rewritten_query(written, run):
    if run is None:
        run = "SELECT a FROM t WHERE a >= 1 AND b <= 2 AND c != 3"
    assert spider_query(written) == (written if run == "same" else run)


def test_tokens_join_to_the_text():
    rng = random.Random(3)
    for _ in range(500):
        text = "".join(rng.choices("a1 '\"`[];-/*\n()é,", k=rng.randint(0, 40)))
        assert "".join(sql_tokens(text)) == text


def test_hostile_text_is_split_in_linear_time():
    start = time.monotonic()
    for text in ("/**/" * 5000, "/*" * 10000, "'" * 20001, "'a''" * 5000, "[" * 20000, "-" * 20000):
        assert "".join(sql_tokens(text)) == text
        spider_query(text + " distinct curdate")
    assert time.monotonic() - start < 2


def test_order_matters_if_the_words_stand_anywhere_in_the_gold():
    assert order_matters("SELECT a FROM t Order By a")
    assert order_matters("SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1)")
    assert not order_matters("SELECT a FROM t")
    assert not order_matters("SELECT a FROM t ORDER  BY a")


def test_ehrsql_compares_the_first_hundred_rows_as_texts():
    rows = [(i, f"n{i}") for i in range(100)]
    assert ehrsql_equal(rows, rows[::-1])
    assert ehrsql_equal([*rows, (1, "x")], [*rows, (2, "y"), (3, "z")])
    assert not ehrsql_equal(rows, rows[:-1])
    assert not ehrsql_equal([(1,), (1,)], [(1,)])
    assert not ehrsql_equal([(1,)], [(1.0,)])
    assert not ehrsql_equal([(1,)], [("1",)])
    assert not ehrsql_equal([(1, 2)], [(2, 1)])
    assert ehrsql_equal([], [])


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("SELECT A FROM T WHERE B = 'Asp''irin'", "select a from t where b = 'asp'irin'"),
        ("a >= datetime(current_time,'-1 year')", "a >= datetime('2105-12-31 23:59:00','-1 year')"),
        ("datetime('now', '-1 day')", "datetime('2105-12-31 23:59:00', '-1 day')"),
        ("strftime('%y-%m %j', a) < = '2103'", "strftime('%Y-%m %J', a) <= '2103'"),
        ("v between sao2_lower and sao2_upper", "v between 95.0 and 100.0"),
        ("v > heart_rate_lower and v <\n heart_rate_upper", "v > 60.0 and v <\n 100.0"),
        ("v between  mean_bp_lower and mean_bp_upper or w = mean_bp_lower",
         "v between  60.0 and 110.0 or w = 60.0"),
        ("v between sao2_lower and mean_bp_upper", "same"),
        ("v between weight_lower and weight_upper", "same"),
        ("v > sao2_lower", "same"),
        ("(sao2_lower,sao2_upper)", "same"),
    ],
)  # fmt: skip
def test_ehrsql_runs_a_rewritten_query(written, run):
    assert ehrsql_query(written) == (written if run == "same" else run)


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="MRTPO_DATA is not set")
@pytest.mark.parametrize("name", ["mimic_iii", "eicu"])
def test_every_ehrsql_reference_runs_on_empty_tables_once_it_is_rewritten(name):
    folder = Path(os.environ["MRTPO_DATA"]) / "ehrsql" / name
    connection = sqlite3.connect(":memory:")
    connection.executescript((folder / f"{name}.sql").read_text())
    rows = json.loads((folder / "valid.json").read_text())
    queries = [row["query"] for row in rows if not row["is_impossible"]]
    assert len(queries) > 700
    broken = 0
    for query in queries:
        connection.execute(ehrsql_query(query)).fetchall()
        try:
            connection.execute(query)
        except sqlite3.Error:
            broken += 1
    assert broken > 0
