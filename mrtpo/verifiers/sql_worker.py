"""The SQL engine inside a worker: runs hostile SQL within limits, and scores its results.

A database is opened read-only and immutable, for SELECT statements alone: an authorizer admits
nothing but SELECT, READ, FUNCTION and RECURSIVE, SQLite's own limits bound lengths and depths, a
progress handler bounds time, rows and bytes of a result are counted, and sorting stays in memory.
What these cannot stop (one long opcode, an explosion while the statement is prepared) the pool's
wall time and memory limit stop from outside.

`random()` gives the same numbers in every query, so that a verdict can be repeated; `now` is not
frozen. Imports nothing but the standard library and its neighbours that do so too.
"""

from __future__ import annotations

import functools
import os
import random
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from mrtpo.verifiers.sql_metrics import METRICS, preview, result_digest
from mrtpo.verifiers.sql_results import Row, sql_tokens

CELL_BYTES = 1_000_000  # longest string, blob or stored row
RESULT_BYTES = 32_000_000  # text of a result, and CELL_COST for each cell
CELL_COST = 64
CACHE_BYTES = 64_000_000  # kept results of reference queries
MOST_REFERENCES = 512
MOST_CONNECTIONS = 32
MOST_NESTING = 100  # brackets within brackets
OPCODES = 1000  # between two looks at the clock
FETCH = 256

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: CELL_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ADMITTED = {
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
_ACTIONS = {
    getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ")
    for name in (
        "ALTER_TABLE", "ANALYZE", "ATTACH", "CREATE_INDEX", "CREATE_TABLE", "CREATE_TEMP_TABLE",
        "CREATE_TRIGGER", "CREATE_VIEW", "CREATE_VTABLE", "DELETE", "DETACH", "DROP_INDEX",
        "DROP_TABLE", "DROP_TRIGGER", "DROP_VIEW", "INSERT", "PRAGMA", "REINDEX", "SAVEPOINT",
        "TRANSACTION", "UPDATE",
    )
}  # fmt: skip
# They load code, give away addresses, write, or make large values no query needs.
_DENIED_FUNCTIONS = {"load_extension", "fts3_tokenizer", "fts5", "optimize", "randomblob"}
_OTHER_STATEMENTS = {
    "alter", "analyze", "attach", "begin", "commit", "create", "delete", "detach", "drop", "end",
    "explain", "insert", "pragma", "reindex", "release", "replace", "rollback", "savepoint",
    "update", "vacuum",
}  # fmt: skip
_LIMIT_CODES = {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_AUTH}
_LIMIT_MESSAGES = (
    "too many ", "Expression tree is too large", "LIKE or GLOB pattern too complex",
    "parser stack overflow", "at most 64 tables", "variable number must be",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What a query gave. `rows` and `columns` are empty unless the status is `ok`."""

    status: str
    detail: str = ""
    rows: tuple[Row, ...] | list[Row] = ()
    columns: tuple[str, ...] = ()
    cost: int = 200


def make_engine(settings: dict[str, Any], tick: Callable[[], None]) -> Engine:
    """The factory that the worker calls; `settings` has `seconds`, `rows` and `sql_chars`."""
    return Engine(**settings, tick=tick)


class Engine:
    """Open connections, kept reference results, and the judgement of a job."""

    def __init__(
        self, seconds: float, rows: int, sql_chars: int, tick: Callable[[], None] = lambda: None
    ) -> None:
        self.seconds, self.rows, self.sql_chars, self.tick = seconds, rows, sql_chars, tick
        self.connections: OrderedDict[tuple[Any, ...], sqlite3.Connection] = OrderedDict()
        self.references: OrderedDict[tuple[Any, ...], Answer] = OrderedDict()
        self.cached_bytes = 0
        self.deadline = self.next_tick = 0.0
        self.denied = ""
        self.exhausted = False
        self.random = random.Random()

    def __call__(self, job: list[Any]) -> list[Any]:
        """`[database, sql, reference, metrics, preview]` gives `[status, detail, executable,
        scores, rows, digest, preview, preview of the reference]`, scores in the order of metrics;
        `[database, sql]` gives `[status, detail, rows, columns]`."""
        self.next_tick = time.monotonic() + self.seconds / 4
        try:
            key = self._key(job[0])
            connection = self._connection(key)
        except (OSError, sqlite3.Error) as error:  # not the statement's fault: nothing is decided
            detail = f"database {os.path.basename(job[0])}: {error}"[:200]
            if len(job) == 2:
                return ["error", detail, None, None]
            return ["error", detail, None, [None] * len(job[3]), None, None, None, None]
        if len(job) == 2:
            answer = self.query(connection, job[1])
            outcome = [answer.status, answer.detail, _count(answer), answer.columns]
        else:
            outcome = self._judge(key, connection, *job[1:])
        if self.exhausted:
            self._forget()
        return outcome

    def _judge(
        self,
        key: tuple[Any, ...],
        connection: sqlite3.Connection,
        sql: str,
        reference: str | None,
        metrics: list[str],
        most: int,
    ) -> list[Any]:
        answer = self.query(connection, sql)
        detail = answer.detail
        scores: list[bool | float | None] = [None] * len(metrics)
        shown = preview(answer.columns, answer.rows, most) if most and _ran(answer) else None
        shown_gold = None
        if reference is not None:
            if most:
                gold = self._reference(key, connection, reference)
                shown_gold = preview(gold.columns, gold.rows, most) if _ran(gold) else None
            if answer.status != "timeout":
                forms = {sql: answer}  # as the metrics run it
                for i, name in enumerate(metrics):
                    metric = METRICS[name]
                    gold_query, query = metric.rewrite(reference), metric.rewrite(sql)
                    gold = self._reference(key, connection, gold_query)
                    # What may not run as it is may not run as rewritten either.
                    if query not in forms and answer.status != "refused":
                        forms[query] = self.query(connection, query)
                    form = forms.get(query, answer)
                    if not _ran(gold):
                        detail = detail or f"reference: {gold.detail}"[:200]
                    elif not _ran(form):
                        scores[i] = None if form.status == "timeout" else metric.failed
                        detail = detail or f"as {name} runs it: {form.detail}"[:200]
                    else:
                        try:
                            scores[i] = metric.score(gold_query, gold.rows, form.rows)
                        except MemoryError:  # the scorer's, not the statement's: undecided
                            self.exhausted = True
                            detail = detail or f"{name}: memory limit"
        executable = None if answer.status == "timeout" else _ran(answer)
        digest = result_digest(answer.rows) if _ran(answer) else None
        return [
            answer.status, detail, executable, scores, _count(answer), digest, shown, shown_gold
        ]  # fmt: skip

    def query(self, connection: sqlite3.Connection, sql: str) -> Answer:
        """Run one statement within the limits. Never raises on a statement."""
        statement, fault = single_query(sql, self.sql_chars)
        if fault:
            return fault
        now = time.monotonic()
        if now > self.next_tick:
            self.tick()
            self.next_tick = now + self.seconds / 4
        self.deadline = now + self.seconds
        self.denied = ""
        self.random.seed(0)
        try:
            return self._fetch(connection.execute(statement))
        except MemoryError:
            self.exhausted = True
            return Answer("refused", "memory limit")
        except sqlite3.Error as error:
            return self._explain(error)
        except UnicodeError as error:
            return Answer("error", f"a name is not valid Unicode: {error}"[:200])

    def _fetch(self, cursor: sqlite3.Cursor) -> Answer:
        if cursor.description is None:
            return Answer("error", "no statement")
        columns = tuple(column[0] for column in cursor.description)
        rows: list[Row] = []
        cost = 0
        while part := cursor.fetchmany(FETCH):
            rows += part
            cost += len(part) * len(columns) * CELL_COST
            cost += sum(len(cell) for row in part for cell in row if isinstance(cell, str | bytes))
            if len(rows) > self.rows or cost > RESULT_BYTES:
                cursor.close()
                much = f"{self.rows} rows" if len(rows) > self.rows else f"{RESULT_BYTES} bytes"
                return Answer("refused", f"more than {much}")
        return Answer("ok", "", rows, columns, cost + 200)

    def _explain(self, error: sqlite3.Error) -> Answer:
        code = getattr(error, "sqlite_errorcode", None)
        detail = " ".join(str(error).split())[:200]
        if code == sqlite3.SQLITE_INTERRUPT:
            return Answer("timeout", f"more than {self.seconds:g} s")
        if self.denied:
            return Answer("refused", f"{self.denied} is not permitted")
        if code in _LIMIT_CODES or detail.startswith(_LIMIT_MESSAGES):
            return Answer("refused", detail)
        return Answer("error", detail)

    def _reference(self, key: tuple[Any, ...], connection: sqlite3.Connection, sql: str) -> Answer:
        if found := self.references.get((key, sql)):
            self.references.move_to_end((key, sql))
            return found
        answer = self.query(connection, sql)
        self.references[key, sql] = answer
        self.cached_bytes += answer.cost
        while self.cached_bytes > CACHE_BYTES or len(self.references) > MOST_REFERENCES:
            self.cached_bytes -= self.references.popitem(last=False)[1].cost
        return answer

    def _key(self, database: str) -> tuple[Any, ...]:
        stat = os.stat(database)  # a file that was replaced is another database
        return database, stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _connection(self, key: tuple[Any, ...]) -> sqlite3.Connection:
        if key in self.connections:
            self.connections.move_to_end(key)
            return self.connections[key]
        connection = open_database(key[0])
        connection.set_progress_handler(lambda: time.monotonic() > self.deadline, OPCODES)
        connection.create_function("random", 0, lambda: self.random.getrandbits(64) - 2**63)
        connection.set_authorizer(self._authorize)
        self.connections[key] = connection
        if len(self.connections) > MOST_CONNECTIONS:
            self.connections.popitem(last=False)[1].close()
        return connection

    def _authorize(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action not in _ADMITTED:
            name = _ACTIONS.get(action, f"action {action}")
            self.denied = f"{name} ({first})" if first else name
        elif action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _DENIED_FUNCTIONS:
            self.denied = f"{second}()"
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _forget(self) -> None:
        """Start afresh after a lack of memory, which caches may have had a part in."""
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()
        self.references.clear()
        self.cached_bytes = 0
        self.exhausted = False


def open_database(path: str) -> sqlite3.Connection:
    """A read-only, immutable connection with every limit set. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True, isolation_level=None
    )
    # Temporary tables of a large sort go to memory, which is limited, and never to disk.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    # Reads the schema, and declares these tables while that may be done: the authorizer would take
    # a declaration for a write.
    modules = "SELECT name FROM pragma_module_list WHERE name IN ('json_each', 'json_tree')"
    for (module,) in connection.execute(modules).fetchall():
        connection.execute(f"SELECT 1 FROM {module}('[]'), sqlite_master LIMIT 1").fetchone()
    for category, most in _LIMITS.items():
        connection.setlimit(category, most)
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="ignore")
    return connection


def single_query(sql: str, most_chars: int) -> tuple[str, Answer | None]:
    """The one statement of `sql` without its semicolon, or what is wrong with `sql`."""
    if len(sql) > most_chars:
        return "", Answer("refused", f"more than {most_chars} characters")
    if "\0" in sql:
        return "", Answer("refused", "contains a NUL character")
    if not sql.isascii() and any("\ud800" <= char <= "\udfff" for char in sql):
        return "", Answer("refused", "not valid Unicode")
    statements = _statements(sql) if ";" in sql else [sql]
    if len(statements) > 1:
        return "", Answer("refused", "more than one statement")
    word = _first_word(statements[0]) if statements else ""
    if not word:
        return "", Answer("error", "no statement")
    if word in _OTHER_STATEMENTS:
        return "", Answer("refused", f"{word.upper()} is not permitted")
    if statements[0].count("(") > MOST_NESTING and _nesting(statements[0]) > MOST_NESTING:
        return "", Answer("refused", f"nested deeper than {MOST_NESTING} brackets")
    return statements[0], None


def _statements(sql: str) -> list[str]:
    parts: list[list[str]] = [[]]
    for token in sql_tokens(sql):
        if token == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return [text for part in parts if _first_word(text := "".join(part))]


def _first_word(sql: str) -> str:
    for token in sql_tokens(sql):
        if not token.isspace() and not token.startswith(("--", "/*")):
            return token.lower()
    return ""


def _nesting(sql: str) -> int:
    depth = deepest = 0
    for token in sql_tokens(sql):
        depth += (token == "(") - (token == ")")
        deepest = max(deepest, depth)
    return deepest


def _ran(answer: Answer) -> bool:
    return answer.status == "ok"


def _count(answer: Answer) -> int | None:
    return len(answer.rows) if answer.status == "ok" else None
