"""Prompts that fit: reduced step by step, each step named, never cut.

    samples   example values leave; those that the question mentions stay
    comments  what columns mean leaves
    matches   the values that the question mentions leave
    columns   columns leave that are in no key and share no word with the question

Each step adds to those before it. A step that changes nothing is not taken. The last step taken is
in the prompt's payload (`reduced`); a prompt that does not fit after all of them is refused.

The size is in tokens of the policy, its chat template included (`data.max_prompt_tokens`), else in
characters of the messages (`data.max_prompt_chars`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from mrtpo.config import Settings
from mrtpo.records import Prompt
from mrtpo.tasks.text2sql.databases import Databases
from mrtpo.tasks.text2sql.prompts import build_prompt
from mrtpo.tasks.text2sql.rewards import RECIPES
from mrtpo.tasks.text2sql.schema import Column, Schema, Table, each_column, from_ddl
from mrtpo.tasks.text2sql.sources import Question
from mrtpo.tasks.text2sql.values import ValueIndex, matched
from mrtpo.tasks.tokens import token_counter

STEPS = ("samples", "comments", "matches", "columns")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_OPEN = 256  # databases whose schema and values are kept


class PromptTooLong(ValueError):
    """Too long after the last step; the text names file, row, size and limit."""


class PromptWriter:
    """Prompts of questions about some databases, in the style and within the size of `data`.

    A schema that stands in the row itself is used where the database is absent.
    """

    def __init__(self, settings: Settings, databases: Databases) -> None:
        self.data, self.databases = settings.data, databases
        self.rewards = RECIPES[settings.rewards.recipe].names
        tokens = self.data.max_prompt_tokens
        self.unit = "characters" if tokens is None else "tokens"
        self.limit = self.data.max_prompt_chars if tokens is None else tokens
        self.measure: Callable[[Prompt], int] = characters
        if tokens is not None:
            self.measure = token_counter(settings.model)
        self._schema = lru_cache(_OPEN)(self._read_schema)
        self._values = lru_cache(_OPEN)(self._read_values)

    def write(self, question: Question, *, id: str, split: str, kind: str = "") -> Prompt:
        """The prompt, reduced as little as needed.

        Raises PromptTooLong, and ValueError where neither database nor schema is there.
        """
        schema = self.schema(question)
        asked = f"{question.evidence}\n{question.question}"
        size = 0
        for step, shown in reductions(schema, asked):
            prompt = build_prompt(
                id=id, split=split, kind=kind, question=question, schema=schema, shown=shown,
                style=self.data.prompt,  # type: ignore[arg-type]
                reduced=step, rewards=self.rewards,
            )  # fmt: skip
            size = self.measure(prompt)
            if size <= self.limit:
                return prompt
        raise PromptTooLong(
            f"{question.file}: row {question.row} (from 0): the prompt has {size} {self.unit} "
            f"after the last reduction, above the limit of {self.limit} (data.max_prompt_…)"
        )

    def schema(self, question: Question) -> Schema:
        """The database as the question's prompt shows it when there is room for all."""
        schema = self._schema(question.db_id)
        if schema is None and question.ddl:
            schema = from_ddl(question.db_id, question.ddl)
        if schema is None:
            raise ValueError(
                f"{question.file}: row {question.row} (from 0): field db_id: {question.db_id!r} "
                f"has neither a database nor a tables file; {self.databases.missing()}"
            )
        if self.data.match_values and (index := self._values(question.db_id)):
            schema = matched(schema, index.mentioned(f"{question.evidence}\n{question.question}"))
        return schema

    def _read_schema(self, db_id: str) -> Schema | None:
        comments = self.data.prompt == "full"
        return self.databases.schema(db_id, self.data.sample_values, comments)

    def _read_values(self, db_id: str) -> ValueIndex | None:
        file, schema = self.databases.file(db_id), self._schema(db_id)
        return ValueIndex(file, schema) if file and schema else None


def reductions(schema: Schema, asked: str) -> Iterator[tuple[str, Schema]]:
    """The schema, and what each further step leaves of it, with the step's name ('' at first)."""
    reduced = schema
    yield "", reduced
    for step in STEPS:
        before, reduced = reduced, _reduce(step, reduced, schema, asked)
        if reduced != before:
            yield step, reduced


def _reduce(step: str, schema: Schema, whole: Schema, asked: str) -> Schema:
    if step == "samples":
        return each_column(schema, lambda _, column: replace(column, values=()))
    if step == "comments":
        return each_column(schema, lambda _, column: replace(column, comment=""))
    if step == "matches":
        return each_column(schema, lambda _, column: replace(column, matched=()))
    # What a column means and holds counts here, though it is not shown any more.
    return _kept(schema, needed_columns(whole, asked))


def needed_columns(schema: Schema, asked: str) -> set[tuple[str, str]]:
    """Table and column of what stands in a key or shares a word or a value with the question.

    A table without any keeps its first column, so that it can be named.
    """
    words = _keys(asked)
    keys = {(k.table.lower(), k.column.lower()) for k in schema.foreign_keys}
    keys |= {(k.to_table.lower(), k.to_column.lower()) for k in schema.foreign_keys}

    def needed(table: Table, column: Column) -> bool:
        return (
            column.primary
            or bool(column.matched)
            or (table.name.lower(), column.name.lower()) in keys
            or not words.isdisjoint(_keys(f"{column.name} {column.comment}"))
        )

    found = set()
    for table in schema.tables:
        columns = [column for column in table.columns if needed(table, column)]
        found |= {(table.name, column.name) for column in columns or table.columns[:1]}
    return found


def characters(prompt: Prompt) -> int:
    return sum(len(message.content) for message in prompt.messages)


def _kept(schema: Schema, columns: set[tuple[str, str]]) -> Schema:
    tables = (
        replace(t, columns=tuple(c for c in t.columns if (t.name, c.name) in columns))
        for t in schema.tables
    )
    return replace(schema, tables=tuple(tables))


def _keys(text: str) -> set[str]:
    """Words without a plural's s; of identifiers their parts (`birthDate`, `birth_date`)."""
    words = {word.lower().rstrip("s") for word in _WORD.findall(text)}
    return {word for word in words if len(word) > 2}
