"""What a prompt shows, what is judged, and what each verifier reveals."""

import sqlite3
from itertools import pairwise

import pytest

from mrtpo.contexts import chosen_information, informed
from mrtpo.tasks.text2sql.prompts import (
    FULL_RULE,
    build_prompt,
    extract_sql,
    format_ok,
    render,
    response_parts,
    sql_span,
)
from mrtpo.tasks.text2sql.schema import read_schema
from mrtpo.tasks.text2sql.sources import Question

SQL = "SELECT name FROM singer WHERE age > 30"
GOOD = render("Use singer with name, age.", SQL)


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "music.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE singer (singer_id INTEGER PRIMARY KEY, name TEXT, age INT)"
        )
    return read_schema(path, "music")


def prompt(schema, style, question="How old is Ada?", evidence=""):
    asked = Question("music", question, SQL, evidence, "easy")
    return build_prompt(
        id="p", split="train", kind="filter", schema=schema, question=asked, style=style
    )


def test_a_well_formed_response_passes():
    assert format_ok(GOOD)
    assert format_ok(f"\n{GOOD}\n")


@pytest.mark.parametrize(
    "response",
    [
        "",
        SQL,
        GOOD.replace("<think>\n", ""),
        GOOD.replace("</think>\n", ""),
        GOOD.replace("<answer>\n", ""),
        GOOD.replace("\n</answer>", ""),
        GOOD.replace("```sql\n", ""),
        GOOD.replace("\n```\n", "\n"),
        GOOD.replace("```sql", "```"),
        GOOD + " and that is all",
        "Well: " + GOOD,
        GOOD + GOOD,
        GOOD.replace("Use", "Use <answer>"),
        GOOD.replace(SQL, f"{SQL}\n```\n```sql\n{SQL}"),
        "<answer>\n```sql\nSELECT 1\n```\n</answer>\n<think>\nlate\n</think>",
    ],
)
def test_a_malformed_response_fails(response):
    assert not format_ok(response)


@pytest.mark.parametrize(
    ("response", "sql"),
    [
        (GOOD, SQL),
        (GOOD.replace("\n</answer>", ""), SQL),
        (GOOD.replace("\n```\n</answer>", ""), SQL),
        (GOOD.replace("```sql\n", "").replace("\n```", ""), SQL),
        (GOOD.replace("<answer>\n", "").replace("\n</answer>", ""), SQL),
        (f"```sql\nSELECT 1\n```\nor rather\n```sql\n{SQL}\n```", SQL),
        (f"```SQL {SQL}```", SQL),
        # A fence said twice, or a block left empty, is a fault of the format, not of the query.
        (GOOD.replace("```sql\n", "```sql\n```sql\n"), SQL),
        (GOOD.replace("</answer>", "```sql\n```\n</answer>"), SQL),
        (f"{GOOD}\n```sql", SQL),
        (f"<think>\nselect wisely\n</think>\n{SQL}", SQL),
        (f"<think>\nx\n</think>\n<answer>\nwith t as (select 1) {SQL}\n</answer>",
         f"with t as (select 1) {SQL}"),
        ("no query here", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_query_is_found_whatever_the_format(response, sql):
    assert extract_sql(response) == sql
    start, end = sql_span(response)
    assert response[start:end] == sql


def test_compact_prompts_leave_the_rule_to_the_replay(schema):
    made = prompt(schema, "compact")
    assert "<think>" not in made.messages[0].content
    chosen = chosen_information(made, {})
    told = informed(made, chosen, {"format"})[0].content
    assert told.startswith(made.messages[0].content) and "<think>" in told


def test_full_prompts_state_the_rule_once_and_leave_it_out_cleanly(schema):
    made = prompt(schema, "full")
    chosen = chosen_information(made, {})
    everything = informed(made, chosen, set(chosen))[0].content
    without = informed(made, chosen, set(chosen) - {"format"})[0].content
    assert everything.count("Use each tag exactly once") == 1
    assert "<think>" not in without and SQL in without


def test_the_schema_can_be_left_out_where_the_prompt_states_it(schema):
    made = prompt(schema, "compact")
    chosen = chosen_information(made, {"executability": "schema"})
    without = informed(made, chosen, set(chosen) - {"executability"})[0].content
    assert "singer_id" not in without and "Question: How old is Ada?" in without


def test_the_engines_message_is_filled_in(schema):
    made = prompt(schema, "compact")
    chosen = chosen_information(made, {"executability": "engine"})
    told = informed(made, chosen, set(chosen), {"executability": "no such column: agee"})
    assert "no such column: agee" in told[0].content


def test_reference_is_told_without_tags(schema):
    made = prompt(schema, "compact")
    text = next(i.text for i in made.information if i.reward == "execution")
    assert SQL in text and "```" not in text and "<" not in text


def test_evidence_stands_in_the_prompt(schema):
    for style in ("compact", "full"):
        content = prompt(schema, style, evidence="old means over 60").messages[0].content
        assert "old means over 60" in content


def test_a_full_prompt_as_a_whole(schema):
    made = prompt(schema, "full", evidence="old means over 60")
    assert made.messages[0].content == (
        "Task: write one SQLite query that answers the question from the database below.\n\n"
        "Database schema:\n"
        "CREATE TABLE singer (\n"
        "    singer_id INTEGER,\n"
        "    name TEXT,\n"
        "    age INT,\n"
        "    PRIMARY KEY (singer_id)\n"
        ");\n\n"
        "The schema names the columns that may be used. After some of them stand what they mean "
        "and examples\nof their values.\n\n"
        "Question:\nold means over 60\nHow old is Ada?\n\n"
        "Return only the columns that the question asks for, in the order in which it names them."
        f"\n\n{FULL_RULE}"
    )


def test_a_database_with_braces_in_its_names_is_shown_as_it_is(tmp_path):
    with sqlite3.connect(tmp_path / "d.sqlite") as connection:
        connection.execute('CREATE TABLE "{asked}" ("{0}" INT)')
    made = prompt(read_schema(tmp_path / "d.sqlite", "d"), "full")
    assert "CREATE TABLE `{asked}` (\n    `{0}` INT\n);" in made.messages[0].content


def test_parts_name_what_they_cover():
    found = {}
    for part in response_parts(GOOD):
        found.setdefault(part.name, []).append(GOOD[part.start : part.end])
    assert found["tags"] == ["<think>", "</think>", "<answer>", "```sql", "```", "</answer>"]
    assert "Use singer" in found["think"][0]
    assert found["columns"] == ["SELECT", "name"]
    assert found["tables"] == ["FROM", "singer"]
    assert found["predicates"] == ["WHERE", "age", ">"]
    assert found["literals"] == ["30"]


@pytest.mark.parametrize(
    "response", ["", "<think>", "</answer><think>", "SELECT", "'", "```sql", SQL]
)
def test_parts_never_overlap_even_where_the_response_is_broken(response):
    parts = response_parts(response)
    assert all(0 <= p.start < p.end <= len(response) for p in parts)
    assert all(a.end <= b.start for a, b in pairwise(parts))
