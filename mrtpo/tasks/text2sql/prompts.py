"""Text of the text-to-SQL task: prompts, the answer's format, and what each verifier reveals.

Answer format (SQL-R1's tags):

    <think>
    …
    </think>
    <answer>
    ```sql
    SELECT …
    ```
    </answer>

Two prompt styles. `compact`: schema in one line a table, question; the format rule is not stated,
so the replay adds it. `full`: DDL with comments in the OmniSQL manner, evidence, question, the
format rule; the rule stands in the prompt, so leaving it out takes it out of there.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from mrtpo.records import Information, Message, Prompt
from mrtpo.tasks.base import Part
from mrtpo.tasks.text2sql.schema import Schema, compact, ddl

REWARDS = ("format", "executability", "execution")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
FENCES = ("```sql", "```")
SHORT_RULE = (
    "Answer as <think> plan </think> <answer> ```sql query ``` </answer>, each tag once, in order."
)
FULL_RULE = """\
Output format: first reason inside <think> and </think>, then put one SQLite query in a ```sql
block inside <answer> and </answer>. Use each tag exactly once, in this order, and nothing after:
<think>
your reasoning
</think>
<answer>
```sql
your query
```
</answer>"""

_FORMAT = re.compile(
    r"\s*<think>(?P<think>.*?)</think>\s*<answer>\s*```sql\s(?P<sql>.*?)\s*```\s*</answer>\s*",
    re.DOTALL,
)
_BLOCK = re.compile(r"```sql\b[ \t]*\n?(.*?)(?:```|</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)
_QUERY = re.compile(r"\b(?:select|with)\b.*", re.DOTALL | re.IGNORECASE)


def format_ok(response: str) -> bool:
    """Whether the whole response is one think part and one answer with one ```sql block."""
    found = _FORMAT.fullmatch(response)
    return (
        found is not None
        and all(response.count(tag) == 1 for tag in TAGS)
        and response.count("```") == 2
    )


def extract_sql(response: str) -> str:
    """The query a response means: well-formed or not, so that format is judged apart from SQL.

    The last ```sql block, closed or not; else the answer part, else what follows the think part,
    from its first SELECT or WITH on. Empty if there is none.
    """
    return response[slice(*sql_span(response))]


def sql_span(response: str) -> tuple[int, int]:
    """Characters of the response that `extract_sql` returns; (n, n) if there are none."""
    blocks = list(_BLOCK.finditer(response))
    if blocks:
        return _stripped(response, *blocks[-1].span(1))
    answers = list(_ANSWER.finditer(response))
    start, end = answers[-1].span(1) if answers else (response.rfind("</think>") + 1, len(response))
    query = _QUERY.search(response, start, end)
    if query is None:
        return len(response), len(response)
    cut = min(
        (
            at
            for at in (response.find(mark, query.start(), end) for mark in ("```", "</"))
            if at >= 0
        ),
        default=end,
    )
    return _stripped(response, query.start(), cut)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def render(think: str, sql: str) -> str:
    """A well-formed response."""
    return f"<think>\n{think}\n</think>\n<answer>\n```sql\n{sql}\n```\n</answer>"


def build_prompt(
    *,
    id: str,
    split: str,
    kind: str,
    difficulty: str,
    schema: Schema,
    question: str,
    evidence: str,
    reference: str,
    style: Literal["compact", "full"],
) -> Prompt:
    """The prompt of one question, with what each of the three verifiers checks as replay text."""
    if style == "compact":
        shown = compact(schema)
        question = f"{evidence}\n{question}" if evidence else question
        text = f"{shown}\nQuestion: {question}"
        rule = Information("format", "rule", "append", SHORT_RULE)
    else:
        shown = ddl(schema)
        question = f"{evidence}\n{question}" if evidence else question
        text = (
            f"You write SQLite queries.\n\nDatabase schema:\n{shown}\n\n{FULL_RULE}\n\n"
            f"Question: {question}"
        )
        rule = Information("format", "rule", "prompt", FULL_RULE)
    names = "; ".join(
        f"{table.name} {' '.join(column.name for column in table.columns)}"
        for table in schema.tables
    )
    information = (
        rule,
        Information("executability", "identifiers", "append", f"Names: {names}"),
        Information("executability", "schema", "prompt", shown),
        Information("executability", "engine", "append", "Database engine: {detail}"),
        Information("execution", "reference", "append", f"Reference: {reference}"),
    )
    return Prompt(
        id=id, split=split, kind=kind, difficulty=difficulty, source=schema.db_id,
        messages=(Message("user", text),), information=information, reference=reference,
        payload=json.dumps({"question": question}),
    )  # fmt: skip


_TOKEN = re.compile(r"'(?:[^']|'')*'?|\"[^\"]*\"?|`[^`]*`?|[A-Za-z_][\w.]*|\d+(?:\.\d+)?|\S")
_CLAUSE = {
    "select": "columns", "from": "tables", "join": "tables", "on": "joins", "using": "joins",
    "where": "predicates", "having": "predicates", "group": "order", "order": "order",
    "limit": "order", "offset": "order",
}  # fmt: skip


def response_parts(response: str) -> list[Part]:
    """Parts of a response, for figures: tags, think, columns, tables, joins, predicates, literals,
    order. Works on malformed responses too: what fits nowhere belongs to no part.
    """
    start, end = sql_span(response)
    parts = [
        Part("tags", match.start(), match.end())
        for match in re.finditer("|".join(map(re.escape, (*TAGS, *FENCES))), response)
    ]
    open_, close = response.find("<think>"), response.find("</think>")
    if open_ >= 0 or close >= 0:
        first = open_ + len("<think>") if open_ >= 0 else 0
        ends = [p.start for p in parts if p.start >= first] + [start]
        last = close if close >= first else min(ends)
        if first < last:
            parts.append(Part("think", first, last))
    clause = "columns"
    for token in _TOKEN.finditer(response, start, end):
        word = token.group()
        clause = _CLAUSE.get(word.lower(), clause)
        literal = word[0] in "'\"" or word[0].isdigit()
        parts.append(Part("literals" if literal else clause, *token.span()))
    return sorted(parts, key=lambda part: part.start)
