"""SQL as lexemes with places, for spans and mistakes: works on any text, broken or not.

A parser gives no places for what it normalises and nothing for what it cannot read; credit needs
the characters themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Names = Mapping[str, Sequence[str]]  # table: its columns

_LEXEME = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>'[^']*(?:''[^']*)*'?)
    |(?P<quoted>"[^"]*(?:""[^"]*)*"?|`[^`]*`?|\[[^\]]*\]?)
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<operator><=|>=|<>|!=|==|\|\||<<|>>|[<>=+\-*/%&|~])
    |(?P<mark>.)""",
    re.DOTALL | re.VERBOSE,
)
# What a query cannot do without: written once the rest is decided.
SCAFFOLD = frozenset("select from as on using by with recursive inner".split())  # noqa: SIM905
KEYWORDS = SCAFFOLD | frozenset(
    """where group having order limit offset join left right full outer cross natural and or not
    in is null like glob between exists union all intersect except distinct asc desc case when
    then else end cast collate escape nulls first last over partition values filter""".split()  # noqa: SIM905
)
AGGREGATES = frozenset("count sum avg min max total group_concat".split())  # noqa: SIM905


@dataclass(frozen=True)
class Lexeme:
    """Characters `start:end`. `kind`: word, quoted, string, number, operator or mark; `depth`
    counts the brackets around it, its own included."""

    text: str
    start: int
    end: int
    kind: str
    depth: int = 0

    @property
    def lower(self) -> str:
        return self.text.lower()

    @property
    def keyword(self) -> bool:
        return self.kind == "word" and self.lower in KEYWORDS

    @property
    def name(self) -> str:
        """A name without its quotes, in lower case."""
        return self.text.strip('"`[]').lower() if self.kind == "quoted" else self.lower


def lexemes(text: str, start: int = 0, end: int | None = None) -> list[Lexeme]:
    """The lexemes of `text[start:end]`, without blanks and comments; places are those of `text`."""
    found = []
    depth = 0
    for match in _LEXEME.finditer(text, start, len(text) if end is None else end):
        kind = str(match.lastgroup)
        if kind == "space":
            continue
        depth += match.group() == "("
        found.append(Lexeme(match.group(), *match.span(), kind, depth))
        depth -= match.group() == ")"
    return found


@dataclass(frozen=True)
class Roles:
    """What the names in a query are: indices of lexemes.

    `names` are tables, columns and aliases where they are used, `defined` aliases where they are
    given, `functions` words before a bracket. `tables` maps a table's name or alias, in lower case,
    to its table.
    """

    names: tuple[int, ...]
    defined: frozenset[int]
    functions: frozenset[int]
    tables: dict[str, str]


def roles(found: Sequence[Lexeme], names: Names) -> Roles:
    """Tell names, aliases and functions apart. Text in double quotes that names nothing is text, as
    SQLite has it."""
    known = {name.lower() for table, columns in names.items() for name in (table, *columns)}
    of_table = {table.lower(): table for table in names}
    used: list[int] = []
    defined: set[int] = set()
    functions: set[int] = set()
    tables: dict[str, str] = {}
    for i, lexeme in enumerate(found):
        named = lexeme.kind == "word" and not lexeme.keyword
        named = named or (
            lexeme.kind == "quoted" and (lexeme.text[0] != '"' or lexeme.name in known)
        )
        if not named:
            continue
        before = found[i - 1] if i else None
        after = found[i + 1].text if i + 1 < len(found) else ""
        if after == "(" and lexeme.kind == "word":
            functions.add(i)
        elif before is not None and (before.lower == "as" or _ends(before)):
            defined.add(i)
            table = found[i - 2 if before.lower == "as" else i - 1].name
            if table in of_table:
                tables[lexeme.name] = of_table[table]
        elif _starts_cte(found, i):
            defined.add(i)
        else:
            used.append(i)
            if lexeme.name in of_table:
                tables.setdefault(lexeme.name, of_table[lexeme.name])
    return Roles(tuple(used), frozenset(defined), frozenset(functions), tables)


def _ends(lexeme: Lexeme) -> bool:
    """Whether a name right behind this one is an alias."""
    return lexeme.text == ")" or (lexeme.kind in ("word", "quoted") and not lexeme.keyword)


def _starts_cte(found: Sequence[Lexeme], i: int) -> bool:
    return [lexeme.lower for lexeme in found[i + 1 : i + 3]] == ["as", "("]


def qualifier(found: Sequence[Lexeme], i: int) -> int | None:
    """Index of `t` where lexeme `i` is the `c` of `t.c`."""
    return i - 2 if i > 1 and found[i - 1].text == "." else None


def qualifies(found: Sequence[Lexeme], i: int) -> bool:
    """Whether lexeme `i` is the `t` of `t.c`."""
    return i + 2 < len(found) and found[i + 1].text == "."


CLAUSES = frozenset(
    "select from where group having order limit union intersect except".split()  # noqa: SIM905
)


def clauses(found: Sequence[Lexeme]) -> Iterator[tuple[str, int, int]]:
    """(keyword, first, last + 1) of every clause: indices from its keyword to the next at its
    depth, or to the bracket that closes it. Inner queries' clauses come on their own as well."""
    open_: dict[int, tuple[str, int]] = {}
    for i, lexeme in enumerate(found):
        closes = lexeme.text == ")" and lexeme.depth in open_
        if closes or (lexeme.kind == "word" and lexeme.lower in CLAUSES):
            if lexeme.depth in open_:
                word, first = open_.pop(lexeme.depth)
                yield word, first, i
            if not closes:
                open_[lexeme.depth] = (lexeme.lower, i)
    for word, first in open_.values():
        yield word, first, len(found)
