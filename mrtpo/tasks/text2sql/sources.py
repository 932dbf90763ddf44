"""Questions of the public text-to-SQL sets; `layouts` says which there are and where they stand.

`read_questions` gives every row of a split, as the official scorers count them; `splits` says which
are of use for training. A malformed row is an error that names file, row and field, before anything
slow starts.

Fields that differ between sets: the query is `query`, in BIRD `SQL`, in SynSQL `sql` (which in
Spider is a parse). Spider's hardness follows from the query. EHRSQL's unanswerable rows have
`is_impossible: true` and no query. SQL-R1's rows of SynSQL have a whole rendered chat in `prompt`;
only the schema is taken from it, never the chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrtpo.tasks.rows import Values, bad_field, field_text, read_rows
from mrtpo.tasks.text2sql.databases import Databases
from mrtpo.tasks.text2sql.layouts import LAYOUTS, Kind, Layout, locate, places, question_files
from mrtpo.tasks.text2sql.spider_hardness import hardness

_CHAT_SCHEMA = re.compile(r"\nDatabase Schema:\n(.*?)\n+External Knowledge:\n", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """`file` is relative to the set's folder; `row` counts its rows from 0, `index` those of all
    files of the split. `sql` is empty where the question cannot be answered (EHRSQL).

    `difficulty` is the set's own word, or Spider's hardness. `category` is what else the set tells
    rows apart by: DK's kind of knowledge, SynSQL's style, EHRSQL's department. `ddl` is a schema
    that stands in the row itself. `status` is what a derived file says of the reference, else `ok`.
    """

    db_id: str
    question: str
    sql: str
    evidence: str = ""
    difficulty: str = ""
    file: str = ""
    row: int = 0
    index: int = 0
    category: str = ""
    answerable: bool = True
    ddl: str = ""
    status: str = "ok"


@dataclass(frozen=True)
class QuestionSet:
    """All rows of a split, in the order of its files, and where their databases are."""

    kind: Kind
    split: str
    root: Path
    questions: list[Question]
    databases: Databases


def read_questions(
    kind: Kind, folder: Path, split: str | None = None, databases: Path | None = None
) -> QuestionSet:
    """Every question of a split; without `split`, of the one that is scored.

    `folder` is the set's own or holds it; `databases` is a further folder of databases, which goes
    before the set's own. Whether a database is there is for the caller to ask. Raises ValueError
    naming file, row and field on bad input.
    """
    split = split or scored_split(kind, folder)
    place = places(kind, folder, databases, split)
    found = Databases(place.databases, place.tables)
    questions = list(each_question(kind, place.root, split, found))
    return QuestionSet(kind, split, place.root, questions, found)


def each_question(kind: Kind, root: Path, split: str, databases: Databases) -> Iterator[Question]:
    """The questions of a split one by one. Raises ValueError, as `read_questions`."""
    layout, index = LAYOUTS[kind], 0
    for path in question_files(kind, root, split):
        file = path.relative_to(root).as_posix()
        for row, values in read_rows(path):
            question = _question(layout, path, file, row, index, values)
            if not databases.known(question.db_id) and not question.ddl:
                fault = f"{question.db_id!r} has no database file and is not in the tables file"
                raise bad_field(path, row, "db_id", fault)
            yield question
            index += 1


def scored_split(kind: Kind, folder: Path) -> str:
    """The split that the set is scored on: the first of its usual ones that is there."""
    root = locate(kind, folder)
    for split in LAYOUTS[kind].test:
        if question_files(kind, root, split):
            return split
    raise ValueError(
        f"{root}: {kind} is scored on {' or '.join(LAYOUTS[kind].test)}: none is there"
    )


def _question(
    layout: Layout, path: Path, file: str, row: int, index: int, values: Values
) -> Question:
    def text(field: str, optional: bool = False) -> str:
        return field_text(path, row, values, field, optional)

    values = _flat(layout, path, row, values)
    db_id = text("db_id")
    if db_id in (".", "..") or set(db_id) & set("/\\\0"):  # it becomes part of a path
        raise bad_field(path, row, "db_id", f"{db_id!r} is not a plain name")
    answerable = not _flag(path, row, values, "is_impossible")
    sql = text(layout.sql) if answerable else ""
    return Question(
        db_id=db_id,
        question=text(layout.question),
        sql=sql,
        evidence=text(layout.evidence, optional=True),
        difficulty=hardness(sql, values.get("sql")) if layout.hardness
        else text(layout.difficulty, optional=True),
        file=file,
        row=row,
        index=index,
        category=_category(layout, values),
        answerable=answerable,
        ddl=_chat_schema(values) if layout.sql == "sql" else "",
        status=text("_gold_status", optional=True) or "ok",
    )  # fmt: skip


def _flag(path: Path, row: int, values: Values, field: str) -> bool:
    value = values.get(field, False)
    if not isinstance(value, bool):
        raise bad_field(path, row, field, f"expected true or false, found {type(value).__name__}")
    return value


def _flat(layout: Layout, path: Path, row: int, values: Values) -> Values:
    """A row with the fields that SQL-R1's layout may keep only in `reward_model.ground_truth`."""
    model = values.get("reward_model")
    if layout.sql != "sql" or model is None:
        return values
    truth = model.get("ground_truth") if isinstance(model, dict) else None
    if not isinstance(truth, dict):
        raise bad_field(path, row, "reward_model.ground_truth", "expected db_id and sql")
    for field in ("db_id", "sql"):
        if field in values and field in truth and values[field] != truth[field]:
            fault = f"differs from field {field} of the row"
            raise bad_field(path, row, f"reward_model.ground_truth.{field}", fault)
    return {**truth, **values}


def _category(layout: Layout, values: Values) -> str:
    value = values.get(layout.category) if layout.category else None
    if layout.category == "type":  # Spider-DK: 0 is none, 34 is both the third and the fourth kind
        return "+".join(f"T{digit}" for digit in str(value)) if value else "none"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return re.sub(r"[\[\]']", "", str(value)) if value is not None else ""


def _chat_schema(values: Mapping[str, Any]) -> str:
    """The CREATE TABLE statements of SQL-R1's rendered chat, '' where there is none."""
    chat = values.get("prompt")
    content = chat[0].get("content", "") if isinstance(chat, list) and chat else ""
    found = _CHAT_SCHEMA.search(content)
    return found[1].strip() if found else ""
