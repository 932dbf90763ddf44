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
so the replay adds it. `full`: DDL with comments and values in the OmniSQL manner, evidence,
question, the format rule; the rule stands in the prompt, so leaving it out takes it out of there.
It stands last, so that a prompt without it shares all that comes before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mrtpo.records import Information, Message, Prompt
from mrtpo.tasks.base import Part
from mrtpo.tasks.text2sql.schema import Schema
from mrtpo.tasks.text2sql.schema_text import compact, ddl
from mrtpo.tasks.text2sql.sources import Question

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

FULL_PROMPT = """\
Task: write one SQLite query that answers the question from the database below.

Database schema:
{database}

The schema names the columns that may be used. After some of them stand what they mean and examples
of their values.

Question:
{asked}

Return only the columns that the question asks for, in the order in which it names them.

{rule}"""

LENGTH_RULE = "Length: plan and answer up to 2048 characters; the answer is mostly query."

_FORMAT = re.compile(
    r"\s*<think>(?P<think>.*?)</think>\s*<answer>\s*```sql\s(?P<sql>.*?)\s*```\s*</answer>\s*",
    re.DOTALL,
)
_BLOCK = re.compile(r"(?:```sql\b\s*)+(.*?)(?:```|</answer>|\Z)", re.DOTALL | re.IGNORECASE)
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

    The last ```sql block that is not empty, closed or not, also where its fence is written twice;
    else the answer part, else what follows the think part, from its first SELECT or WITH on. Empty
    if there is none.
    """
    return response[slice(*sql_span(response))]


def sql_span(response: str) -> tuple[int, int]:
    """Characters of the response that `extract_sql` returns; (n, n) if there are none."""
    blocks = [block for block in _BLOCK.finditer(response) if block[1].strip()]
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


class _Variant(NamedTuple):
    """`Information` without its reward."""

    variant: str
    where: Literal["append", "prompt"]
    text: str


def build_prompt(
    *,
    id: str,
    split: str,
    kind: str,
    question: Question,
    schema: Schema,
    shown: Schema | None = None,
    style: Literal["compact", "full"],
    reduced: str = "",
    rewards: Sequence[str] = ("format", "executability", "execution"),
) -> Prompt:
    """The prompt of one question, with what the verifier of each of `rewards` checks as replay
    text. Raises KeyError on a reward of which it knows nothing to say.

    `shown` is what the prompt shows of the schema, if not all; `reduced` names why (see `budget`).
    """
    asked = f"{question.evidence}\n{question.question}".strip()
    if style == "compact":
        database = compact(shown or schema)
        text = f"{database}\nQuestion: {asked}"
        rule = _Variant("rule", "append", SHORT_RULE)
    else:
        database = ddl(shown or schema)
        text = FULL_PROMPT.format(database=database, asked=asked, rule=FULL_RULE)
        rule = _Variant("rule", "prompt", FULL_RULE)
    names = "; ".join(
        f"{table.name} {' '.join(column.name for column in table.columns)}"
        for table in schema.tables
    )
    result = _Variant("reference", "append", f"Reference: {question.sql}")
    variants = {
        "format": (rule,),
        "tag_count": (rule,),
        "length": (_Variant("rule", "append", LENGTH_RULE),),
        "executability": (
            _Variant("identifiers", "append", f"Names: {names}"),
            _Variant("schema", "prompt", database),
            _Variant("engine", "append", "Database engine: {detail}"),
        ),
        "execution": (result,),
        "cell_precision": (result,),
        "cell_recall": (result,),
        "tuple_cardinality": (result,),
    }
    information = tuple(Information(name, *entry) for name in rewards for entry in variants[name])
    payload = {"question": asked} | ({"reduced": reduced} if reduced else {})
    return Prompt(
        id=id, split=split, kind=kind, difficulty=question.difficulty, source=schema.db_id,
        messages=(Message("user", text),), information=information, reference=question.sql,
        payload=json.dumps(payload),
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
