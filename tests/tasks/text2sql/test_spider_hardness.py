"""Hardness by Spider's rule: of the parse, of the query, and against the published counts."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from mrtpo.tasks.text2sql.sources import read_questions
from mrtpo.tasks.text2sql.spider_hardness import LEVELS, Counts, counts_of_query, hardness


@pytest.mark.parametrize(
    ("first", "second", "others", "level"),
    [
        (0, 0, 0, "easy"),
        (1, 0, 0, "easy"),
        (1, 0, 1, "medium"),
        (0, 0, 2, "medium"),
        (2, 0, 1, "medium"),
        (1, 0, 3, "hard"),
        (2, 0, 2, "extra"),
        (2, 0, 3, "hard"),
        (3, 0, 2, "hard"),
        (3, 0, 3, "extra"),
        (4, 0, 0, "extra"),
        (1, 1, 0, "hard"),
        (2, 1, 0, "extra"),
        (1, 1, 1, "extra"),
        (0, 2, 0, "extra"),
    ],
)
def test_levels_follow_from_the_three_counts(first, second, others, level):
    assert Counts(first, second, others).level == level


@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        ("SELECT count(*) FROM t", (0, 0, 0)),
        ("SELECT a, b FROM t WHERE x = 1 AND y = 2", (1, 0, 2)),
        ("SELECT a FROM t WHERE x = 1 OR y LIKE '%z%'", (3, 0, 1)),
        ("SELECT a FROM t WHERE NOT x = 1 AND (NOT y = 2 OR z BETWEEN 1 AND 2)", (2, 0, 2)),
        ("SELECT a FROM t WHERE x NOT LIKE 'z'", (2, 0, 0)),
        ("SELECT T1.a FROM t AS T1 JOIN u AS T2 ON T1.i = T2.i JOIN v ON v.i = T2.i", (2, 0, 0)),
        ("SELECT a FROM t, u", (1, 0, 0)),
        ("SELECT max(a), min(b) FROM t GROUP BY c, d ORDER BY sum(a) LIMIT 3", (3, 0, 3)),
        ("SELECT a FROM t GROUP BY a HAVING count(*) > 1 AND sum(b) > 2 AND c = 1", (1, 0, 1)),
        ("SELECT a FROM t WHERE x IN (SELECT x FROM u WHERE y LIKE 'b')", (1, 1, 0)),
        ("SELECT a FROM t WHERE x > (SELECT max(x) FROM u)", (1, 1, 0)),
        ("SELECT a FROM t UNION SELECT a FROM u WHERE b = 1 ORDER BY a LIMIT 1", (0, 1, 0)),
        ("SELECT a FROM t EXCEPT SELECT a FROM u INTERSECT SELECT a FROM v", (0, 1, 0)),
        ('SELECT a FROM t WHERE b = "x or y like z"', (1, 0, 0)),
    ],
)
def test_counts_of_a_query(sql, counts):
    assert counts_of_query(sql) == Counts(*counts)


@pytest.mark.parametrize("sql", ["", "SELECT FROM WHERE", "hello", "DROP TABLE t"])
def test_what_is_no_query_has_no_hardness(sql):
    assert hardness(sql) == ""


needs_data = pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")


@needs_data
def test_the_parse_gives_spiders_published_counts_and_the_query_the_same_level_row_by_row():
    dev = Path(os.environ["MRTPO_DATA"]) / "spider/dev.json"
    rows = json.loads(dev.read_text())
    levels = [hardness("", row["sql"]) for row in rows]
    assert [Counter(levels)[level] for level in LEVELS] == [248, 446, 174, 166]
    assert [hardness(row["query"]) for row in rows] == levels


@needs_data
@pytest.mark.parametrize(
    ("kind", "counts"),
    [  # of DK's 246 medium rows, one has a syntax error
        ("spider_dk", [110, 245, 74, 105]),
        ("spider_realistic", [109, 203, 99, 97]),
    ],
)
def test_the_query_alone_gives_the_published_counts_of_other_sets(kind, counts):
    found = read_questions(kind, Path(os.environ["MRTPO_DATA"]) / kind).questions
    by_level = Counter(question.difficulty for question in found)
    assert [by_level[level] for level in LEVELS] == counts
