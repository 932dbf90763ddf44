"""Prompts that are reduced step by step until they fit."""

import json
import sqlite3
from contextlib import closing

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mrtpo.config import SettingsError, settings_from
from mrtpo.tasks.text2sql.budget import PromptTooLong, PromptWriter, needed_columns, reductions
from mrtpo.tasks.text2sql.databases import Databases
from mrtpo.tasks.text2sql.schema import Column, ForeignKey, Schema, Table
from mrtpo.tasks.text2sql.sources import Question

SCHEMA = Schema(
    "d",
    (
        Table(
            "singer",
            (
                Column("id", "INT", True, values=("1",)),
                Column("birthYear", "INT", comment="when born"),
                Column("nation", "TEXT", values=("France",), matched=("Norway",)),
                Column("shoe", "INT", values=("9",)),
            ),
        ),
        Table("song", (Column("singer", "INT"), Column("length", "INT"))),
        Table("log", (Column("line", "TEXT"), Column("at", "TEXT"))),
    ),
    (ForeignKey("song", "singer", "singer", "id"),),
)


def columns(schema):
    return {t.name: [c.name for c in t.columns] for t in schema.tables}


def test_each_step_adds_to_those_before():
    steps = dict(reductions(SCHEMA, "In which years were they born in norway?"))
    assert list(steps) == ["", "samples", "comments", "matches", "columns"]
    held = {
        step: [(c.values, c.comment, c.matched) for c in schema.tables[0].columns[1:3]]
        for step, schema in steps.items()
    }
    assert held[""] == [((), "when born", ()), (("France",), "", ("Norway",))]
    assert held["samples"] == [((), "when born", ()), ((), "", ("Norway",))]
    assert held["comments"] == [((), "", ()), ((), "", ("Norway",))]
    assert held["matches"] == [((), "", ()), ((), "", ())]
    # Kept: keys, what the question names, what holds a value that it names, one of each table.
    assert columns(steps["columns"]) == {
        "singer": ["id", "birthYear", "nation"],
        "song": ["singer"],
        "log": ["line"],
    }
    assert steps["columns"].foreign_keys == SCHEMA.foreign_keys


def test_a_step_that_changes_nothing_is_not_taken():
    schema = Schema("d", (Table("t", (Column("x", "INT", True),)),), ())
    assert [step for step, _ in reductions(schema, "?")] == [""]


@pytest.mark.parametrize("asked", ["How long are songs: the lengths?", "LENGTH", "the song_length"])
def test_columns_are_needed_by_any_word_they_share_with_the_question(asked):
    assert ("song", "length") in needed_columns(SCHEMA, asked)


@pytest.fixture
def databases(tmp_path):
    path = tmp_path / "dbs/d/d.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, mayor TEXT)")
        connection.execute("INSERT INTO city VALUES (1, 'Oslo', 'Ann'), (2, 'Paris', 'Bo')")
        connection.commit()
    return Databases([tmp_path / "dbs"], [])


QUESTION = Question("d", "Name the city after Oslo", "SELECT 1", file="dev.json", row=7)


def written(databases, question=QUESTION, **data):
    writer = PromptWriter(settings_from({"data": data}), databases)
    prompt = writer.write(question, id="p", split="test")
    return prompt.messages[0].content, json.loads(prompt.payload).get("reduced", "")


def test_a_prompt_is_reduced_no_further_than_it_must(databases):
    data = {"sample_values": 1, "match_values": True}
    whole, _ = written(databases, **data)
    assert whole.splitlines()[0] == "city: id [1] name ['Oslo'] mayor ['Ann']"
    seen = {}
    for limit in range(len(whole), 20, -1):
        try:
            text, step = written(databases, max_prompt_chars=limit, **data)
        except PromptTooLong:
            break
        assert len(text) <= limit
        seen[step] = text.splitlines()[0]
    assert seen == {
        "": "city: id [1] name ['Oslo'] mayor ['Ann']",
        "samples": "city: id name ['Oslo'] mayor",
        "matches": "city: id name mayor",
        "columns": "city: id name",
    }


def test_what_does_not_fit_after_the_last_step_is_an_error_with_its_row(databases):
    with pytest.raises(PromptTooLong, match=r"dev\.json: row 7 .*characters .* limit of 10"):
        written(databases, max_prompt_chars=10)


def test_the_replay_names_all_columns_also_those_that_were_left_out(databases):
    settings = settings_from({"data": {"max_prompt_chars": 53}})
    prompt = PromptWriter(settings, databases).write(QUESTION, id="p", split="train")
    told = {(i.reward, i.variant): i.text for i in prompt.information}
    assert "mayor" not in prompt.messages[0].content
    assert told["executability", "identifiers"] == "Names: city id name mayor"
    assert prompt.messages[0].content.count(told["executability", "schema"]) == 1


def test_a_schema_in_the_row_is_used_where_the_database_is_absent(databases):
    own = Question("gone", "?", "SELECT 1", ddl='CREATE TABLE "u" (\n  "y" TEXT /* why */\n)')
    assert "y TEXT -- why" in written(databases, own, prompt="full")[0]
    with pytest.raises(ValueError, match=r"row 3 .*field db_id: 'gone' has neither a database"):
        written(databases, Question("gone", "?", "SELECT 1", file="f", row=3))


@pytest.fixture
def tokenizer_folder(tmp_path):
    words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?")
    fast.chat_template = "start{% for m in messages %} {{ m.content }}{% endfor %} end"
    fast.save_pretrained(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def test_tokens_are_those_of_the_policy_with_its_template(databases, tokenizer_folder):
    def tokens(limit):
        data = {"max_prompt_tokens": limit, "max_prompt_chars": 1}
        settings = settings_from({"data": data, "model": {"path": str(tokenizer_folder)}})
        return PromptWriter(settings, databases).write(QUESTION, id="p", split="test")

    # `city: id name mayor`, `Question:` and five words, two of the template
    assert "reduced" not in json.loads(tokens(12).payload)
    assert json.loads(tokens(11).payload)["reduced"] == "columns"
    with pytest.raises(PromptTooLong, match=r"has 11 tokens .* limit of 10"):
        tokens(10)


def test_tokens_need_a_tokenizer(tmp_path, databases):
    with pytest.raises(SettingsError, match=r"data\.max_prompt_tokens needs model\.path"):
        settings_from({"data": {"max_prompt_tokens": 5}})
    settings = settings_from(
        {"data": {"max_prompt_tokens": 5}, "model": {"path": str(tmp_path / "none")}}
    )
    with pytest.raises(ValueError, match=r"model\.path: cannot load the tokenizer"):
        PromptWriter(settings, databases)
