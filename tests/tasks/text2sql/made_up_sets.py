"""Small folders in the layouts of public text-to-SQL sets."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path


def row(db_id: str = "shop", question: str = "How many?", sql: str = "SELECT 1", **more) -> dict:
    return {"db_id": db_id, "question": question, "query": sql, **more}


def bird_row(**more) -> dict:
    values = row(**more)
    values["SQL"] = values.pop("query")
    return values


def database(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x INT)")


def spider(
    folder: Path, dev: object = None, databases: tuple[str, ...] = ("shop",), **files
) -> Path:
    """A Spider folder; further files by name, with `_json` for `.json`."""
    files["dev_json"] = [row()] if dev is None else dev
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("_json", ".json")).write_text(text, encoding="utf-8")
    for db_id in databases:
        database(folder / "database" / db_id / f"{db_id}.sqlite")
    return folder


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
