"""What a MulDimIF constraint is checked by, and how its noisy names are read.

A row of the data names a constraint by category and subcategory, in many spellings ("Table",
"Row limit"; "Format", "Table: Row limit"). `kind_of` gives the checker class that the official
scorer uses for that spelling and the one of its twelve subcategories under which it is reported;
these two differ for a few ("Format", "XML" is checked by Format_Others). Spellings that the
official table does not have are unknown.

Source: evaluation of Junjie-Ye/MulDimIF (arXiv 2505.07591).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrtpo.records import Status
from mrtpo.verifiers.constraints.kinds import Span

MOST_IN_TEXT = 10_000  # characters of a constraint's text

CHECKERS = (
    "Content_Keywords", "Content_Punctuation", "Content_Others",
    "Format_Json", "Format_Markdown", "Format_Table", "Format_Others",
    "Language_English", "Language_Chinese",
    "Length_Words", "Length_Sentences", "Length_Paragraphs",
)  # fmt: skip
SUBCATEGORIES = (
    "Content_Keywords", "Content_Punctuation", "Content_Identifiers",
    "Format_Json", "Format_Markdown", "Format_Table", "Format_XML",
    "Language_English", "Language_Chinese",
    "Length_Words", "Length_Sentences", "Length_Paragraphs",
)  # fmt: skip


class TooMuchError(Exception):
    """A response that a checker will not look at, since it would take too long."""


@dataclass(frozen=True)
class Kind:
    """`checker` is one of CHECKERS, `subcategory` one of SUBCATEGORIES."""

    checker: str
    subcategory: str

    @property
    def category(self) -> str:
        return self.subcategory.partition("_")[0]


@dataclass(frozen=True)
class Verdict:
    """`passed` is None where it could not be decided, which no response brings about.

    `unparsed`: the constraint's text was not understood, and `passed` is what the official scorer
    gives such a text.
    """

    status: Status
    passed: bool | None
    detail: str = ""
    unparsed: bool = False


class Checker:
    """A constraint, read from its text. Subclasses say in `__init__` whether it is `unparsed`."""

    unparsed = False

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint

    def check(self, response: str) -> bool:
        """Whether the response follows the constraint. Must take any text."""
        raise NotImplementedError

    def fulfils(self, response: str) -> Sequence[Span] | None:
        """The spans by which a passing response follows it; None where that cannot be told."""
        return None

    def breaks(self, response: str) -> Sequence[Span] | None:
        """The spans by which a failing response does not; None where that cannot be told."""
        return None


# Spellings of the data, by what checks them, with the subcategory of the report where it differs.
_SPELLINGS: dict[tuple[str, str], str] = {
    ("Content_Keywords", ""): "Content_Keywords|Content_Keywords: Must include",
    ("Content_Punctuation", ""): (
        "Content_Punctuation|Content_Punctuation: Ending punctuation|Punctuation_Ending punctuation"
    ),
    ("Content_Others", "Content_Identifiers"): (
        "Content_Identifiers|Content_Sources|Citations_In-text"
    ),
    ("Content_Others", "Content_Keywords"): "Content_Mention",
    ("Content_Others", "Content_Punctuation"): "Content_Quotes",
    ("Content_Others", "Length_Words"): "Content_Length",
    ("Format_Json", ""): "Format_Json|Json_Object nesting levels|Json_Number of attributes",
    ("Format_Markdown", ""): (
        "Format_Markdown|Format_Markdown: Heading levels|Markdown_Heading levels"
        "|Markdown_Block quotes"
    ),
    ("Format_Table", ""): (
        "Format_Table|Format_Table: Row limit|Format_Table: Column limit"
        "|Table_Row limit|Table_Column limit"
    ),
    ("Format_Others", "Format_XML"): "Format_XML|XML_Number of attributes",
    ("Format_Others", "Format_Table"): "Table_Table",
    ("Format_Others", "Format_Markdown"): "Format_Markdown: Block quotes",
    ("Format_Others", "Content_Identifiers"): (
        "Format_Text|Format_Bullet Points|References_Format"
    ),
    ("Format_Others", "Length_Words"): "Format_Blurb|Format_Length",
    ("Language_English", ""): (
        "Language_English|Language_English: Capitalized|Language_English: All Uppercase"
    ),
    ("Language_Chinese", ""): (
        "Language_Chinese|Language_Chinese: Simplified|Language_Chinese: Traditional"
    ),
    ("Length_Words", ""): (
        "Length_Words|Length_Words: At most|Length_Words: At least|Length_Words: Range"
        "|Words_At most|Format_Word Count"
    ),
    ("Length_Sentences", ""): (
        "Length_Sentences|Length_Sentences: At least|Length_Sentences: At most"
        "|Length_Sentences: Range|Sentences_At most|Sentences_At least"
    ),
    ("Length_Paragraphs", ""): (
        "Length_Paragraphs|Length_Paragraphs: At most|Length_Paragraphs: At least"
        "|Length_Paragraphs: Range|Paragraphs_At most"
    ),
}
KINDS = {
    spelling: Kind(checker, reported or checker)
    for (checker, reported), spellings in _SPELLINGS.items()
    for spelling in spellings.split("|")
}


def kind_of(category: str, subcategory: str) -> Kind | None:
    """What a constraint of the data is checked by; None if its spelling is unknown."""
    return KINDS.get(f"{category}_{subcategory}")
