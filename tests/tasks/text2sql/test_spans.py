"""Known spans: each reward's credit on the characters that it is about."""

import json
import os
import random
import sqlite3
import time
from pathlib import Path

import pytest

from mrtpo.tasks.text2sql.decisions import changed, decisions
from mrtpo.tasks.text2sql.prompts import render
from mrtpo.tasks.text2sql.spans import format_faults, response_spans

NAMES = {
    "singer": ["singer_id", "name", "phone", "age", "city"],
    "concert": ["concert_id", "title", "year", "singer_id"],
}
REFERENCE = "SELECT name FROM singer WHERE age > 30"


def texts(sql, reward, *, reference=REFERENCE, executable=True, right=False, detail=""):
    response = render("I use singer.", sql)
    spans = response_spans(response, reference, NAMES, executable, right, detail)[reward]
    return [response[start:end].strip() for start, end in spans]


def formats(response):
    spans = response_spans(response, REFERENCE, NAMES, True, True)["format"]
    return [(response + "$")[start:end].strip() for start, end in spans]


def test_a_wrong_operator_bears_the_execution_penalty_alone():
    wrong = "SELECT name FROM singer WHERE age >= 30"
    assert texts(wrong, "execution") == [">="]
    assert texts(wrong, "executability") == ["name", "singer", "age"]
    assert texts(wrong, "format") == [
        "<think>",
        "</think>",
        "<answer>",
        "```sql",
        "```",
        "</answer>",
    ]


def test_a_name_that_does_not_exist_bears_both_penalties():
    wrong, right = "SELECT telefone FROM singer", "SELECT phone FROM singer"
    found = {"reference": right, "executable": False, "detail": "no such column: telefone"}
    assert texts(wrong, "executability", **found) == ["telefone"]
    assert texts(wrong, "execution", **found) == ["telefone"]
    assert texts("SELECT name FROM telefone", "executability", executable=False) == ["telefone"]


def test_a_right_query_has_its_decisions_as_span():
    sql = (
        "SELECT T1.name, COUNT(*) FROM singer AS T1 WHERE age > 30 GROUP BY name ORDER BY age DESC"
    )
    found = texts(sql, "execution", right=True)
    assert {"name", "COUNT", ">", "30", "DESC", "WHERE", "singer"} <= set(found)
    assert not {"SELECT", "FROM", "BY", "AS", ",", "(", "."} & set(found)


@pytest.mark.parametrize(
    ("sql", "reference", "differs"),
    [
        ("select NAME from Singer where Age > 30", REFERENCE, []),
        ("SELECT T1.name FROM singer AS T1 WHERE T1.age > 30", REFERENCE, []),
        ('SELECT name FROM singer WHERE city = "Rome"',
         "SELECT name FROM singer WHERE city = 'Rome'", []),
        ("SELECT b.title FROM singer a JOIN concert b ON a.singer_id = b.singer_id WHERE a.age < 3",
         "SELECT T2.title FROM singer T1 JOIN concert T2 ON T1.singer_id = T2.singer_id "
         "WHERE T1.age > 3", ["<"]),
        ("SELECT name FROM singer", REFERENCE, ["```"]),
        ("SELECT name FROM singer ORDER BY age",
         "SELECT name FROM singer WHERE age > 30 ORDER BY age", ["ORDER"]),
        ("SELECT name FROM singer", "SELECT name, age FROM singer", ["FROM"]),
        ("SELECT name, age FROM singer", "SELECT name FROM singer", [",", "age"]),
        ("SELECT name FROM singer ORDER BY age",
         "SELECT name FROM singer ORDER BY age DESC", ["```"]),
        ("SELECT name FROM singer WHERE age <> 1", "SELECT name FROM singer WHERE age != 1", []),
    ],
)  # fmt: skip
def test_differences_ignore_how_things_are_written(sql, reference, differs):
    found = texts(sql, "execution", reference=reference)
    assert found == (differs or [sql])  # without a difference the whole query


@pytest.mark.parametrize(
    ("sql", "detail", "blamed"),
    [
        ("SELECT name FROM concert", "no such column: name", ["name"]),
        ("SELECT T1.title FROM singer AS T1", "no such column: T1.title", ["T1", "title"]),
        ("SELECT name FROM singer WHERE WHERE age", 'near "WHERE": syntax error',
         ["singer WHERE", "WHERE WHERE"]),
        ("SELECT name FROM singer WHERE city = 'Rome", "unrecognized token: \"'Rome\"",
         ["= 'Rome"]),
        ("SELECT FOO(name) FROM singer", "no such function: FOO", ["SELECT FOO"]),
        ("SELECT AVG(MAX(age)) FROM singer", "misuse of aggregate function MAX()",
         ["SELECT AVG(MAX(age)) FROM singer"]),
        ("WITH t AS (SELECT age x FROM singer) SELECT x, y FROM t", "no such column: y", ["y"]),
        ("SELECT singer_id FROM singer JOIN concert", "ambiguous column name: singer_id",
         ["singer_id"]),
    ],
)  # fmt: skip
def test_what_does_not_run_is_blamed_where_the_fault_is(sql, detail, blamed):
    assert texts(sql, "executability", executable=False, detail=detail) == blamed


def test_faults_of_format_are_found_where_they_are():
    good = render("I use singer.", REFERENCE)
    assert formats(good.replace("</think>\n", "")) == [
        "<think>",
        "<answer>",
        "```sql",
        "```",
        "</answer>",
    ]
    assert formats(good.replace("<answer>\n", ""))[-1] == "</answer>"
    assert "SELECT" in formats(good.replace("```sql\n", ""))
    assert formats(good.replace("\n</answer>", ""))[-1] == "$"
    assert "that is all" in formats(good + "\nthat is all")
    assert "Well" in formats("Well " + good)
    assert formats(good.replace("<answer>", "<answer> <answer>")).count("<answer>") == 2


def test_the_faults_alone_leave_out_the_tags_that_are_right():
    good = render("I use singer.", REFERENCE)

    def faults(response):
        return [response[start:end].strip() for start, end in format_faults(response)]

    assert faults(good) == []
    assert faults(good.replace("</think>\n", "")) == ["<answer>"]
    assert faults(good + "\nthat is all") == ["that is all"]
    assert faults("Well " + good) == ["Well"]
    assert faults(good.replace("<answer>", "<answer> <answer>")) == ["<answer>"]
    assert "Hm" in formats(good.replace("</think>", "</think> Hm"))
    assert formats("") == ["$"]


def test_without_a_query_all_of_the_answer_is_blamed():
    response = "<think>\nno idea\n</think>\n<answer>\nSorry.\n</answer>"
    spans = response_spans(response, REFERENCE, NAMES, False, False, "no statement")
    for reward in ("executability", "execution"):
        assert [response[slice(*span)] for span in spans[reward]] == ["Sorry."]
    spans = response_spans("", REFERENCE, NAMES, False, False, "no statement")
    assert spans == {name: [(0, 1)] for name in ("format", "executability", "execution")}


def test_any_text_has_spans_in_order_within_it_and_its_end_token():
    rng = random.Random(0)
    # fmt: off
    pieces = [*"()'\"`;.,*[", "<think>", "</think>", "<answer>", "```sql", "```", "</answer>",
              "--", "/*", "SELECT", " FROM ", " singer", " AS ", "WHERE", " age", " >= ", "30",
              "\n", "é", "near", "UNION", "ORDER BY", "BETWEEN", "AND", "LIMIT", "JOIN", "ON"]
    # fmt: on
    details = ["", "no such column: x.y", 'near ")": syntax error', "incomplete input"]
    started = time.process_time()
    for _ in range(2000):
        response = "".join(rng.choices(pieces, k=rng.randint(0, 40)))
        flags = rng.choice((True, False, None)), rng.choice((True, False, None))
        found = response_spans(response, response[3:], NAMES, *flags, rng.choice(details))
        for spans in found.values():
            assert spans and spans == sorted(set(spans))
            assert all(0 <= start < end <= len(response) + 1 for start, end in spans)
    assert time.process_time() - started < 10
    assert response_spans("SELECT " + "a," * 100_000, REFERENCE, NAMES, False, False)


@pytest.mark.skipif("MRTPO_DATA" not in os.environ, reason="needs the public data sets")
def test_a_mistake_in_any_decision_is_within_the_span_of_what_differs():
    folder = Path(os.environ["MRTPO_DATA"]) / "spider"
    tables = json.loads((folder / "tables.json").read_text())
    schemas = {}
    for entry in tables:
        own = schemas.setdefault(entry["db_id"], {})
        for index, column in entry["column_names_original"]:
            if index >= 0:
                own.setdefault(entry["table_names_original"][index], []).append(column)
    rng = random.Random(0)
    found = 0
    for row in json.loads((folder / "dev.json").read_text())[::5]:
        sql = " ".join(row["query"].split())
        for decision in decisions(sql, schemas[row["db_id"]]):
            if decision.start == decision.end or "" in decision.alternatives:
                continue
            text = rng.choice(decision.alternatives)
            wrong = render("So.", changed(sql, [(decision, text)]))
            spans = response_spans(wrong, sql, schemas[row["db_id"]], True, False)["execution"]
            at = wrong.index("```sql\n") + len("```sql\n") + decision.start
            assert any(start < at + len(text) and at < end for start, end in spans), (sql, text)
            found += 1
    assert found > 500


def test_changes_of_a_reference_run():
    with sqlite3.connect(":memory:") as connection:
        for table, columns in NAMES.items():
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        for sql in (
            "SELECT name, age FROM singer WHERE age BETWEEN 3 AND 9 AND city LIKE 'A%' "
            "ORDER BY age DESC, name LIMIT 3",
            "SELECT city, COUNT(*), AVG(age) FROM singer GROUP BY city HAVING COUNT(*) >= 2",
            "SELECT title FROM concert JOIN singer ON concert.singer_id = singer.singer_id "
            "WHERE NOT year = 3 OR age IS NOT NULL",
            "SELECT name FROM singer WHERE age > 3 EXCEPT SELECT name FROM singer WHERE age = 9",
            "SELECT name FROM singer WHERE singer_id NOT IN (SELECT singer_id FROM concert)",
        ):
            made = decisions(sql, NAMES)
            assert len(made) >= 5
            for decision in made:
                for text in decision.alternatives:
                    wrong = changed(sql, [(decision, text)])
                    assert wrong != sql
                    connection.execute(wrong)
