"""Format constraints: JSON levels, Markdown headings, tables, XML and the like."""

import pytest

from mrtpo.verifiers.muldimif import judge, spans
from mrtpo.verifiers.muldimif.json_levels import FormatJson
from mrtpo.verifiers.muldimif.markdown import FormatMarkdown, headings_of
from mrtpo.verifiers.muldimif.numbers import Limits
from mrtpo.verifiers.muldimif.table import FormatTable


def passes(subcategory: str, constraint: str, response: str) -> bool | None:
    return judge("Format", subcategory, constraint, response).passed


@pytest.mark.parametrize(
    ("constraint", "low", "high"),
    [
        ("JSON with exactly two levels of nesting", 2, 2),
        ("an object with a nesting level of 3", 3, 3),
        ("Object nesting levels must be two", 2, 2),
        ("it must not exceed three levels of nesting", None, 3),
        ("object nesting levels not exceeding 2", None, 2),
        ("Object nesting levels must not exceed 3", None, 3),
        ("a maximum of three object nesting levels", None, 3),
        ("no more than 4 levels and at least two levels deep", 2, 4),
        ("at least two levels of nesting", 2, None),
    ],
)
def test_levels_of_json_are_read(constraint, low, high):
    checker = FormatJson(constraint)
    assert checker.levels == Limits(low, high)
    assert not checker.unparsed


@pytest.mark.parametrize(
    ("response", "passed"),
    [
        ('{"a": {"b": 1}}', True),
        ('{"a": 1}', False),
        ('{"a": {}}', False),
        ("[[1], 2]", True),
        ('Here:\n```json\n{"a": [1]}\n```\nand more', True),
        ('Here:\n```json\n{"a": [1]}', False),
        ('{"a": {"b": 1}} and more', False),
        ("null", False),
        ("", False),
        ("[" + "1" * 5000 + ", [1]]", True),
    ],
)
def test_json_is_a_block_or_the_whole_response(response, passed):
    assert passes("Json", "exactly two levels of nesting", response) is passed


def test_json_without_a_known_number_fails_and_is_flagged():
    verdict = judge("Format", "Json", "JSON with five levels", '{"a": 1}')
    assert (verdict.passed, verdict.unparsed) == (False, True)


def test_json_nested_beyond_the_parser_is_refused():
    deep = "[" * 50_000 + "]" * 50_000
    verdict = judge("Format", "Json", "at least two levels of nesting", deep)
    assert (verdict.passed, verdict.status) == (False, "refused")


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("Use heading levels 2 and 3", "## A\n### B", True),
        ("Use heading levels 2 and 3", "## A\n## B", False),
        ("use heading levels, level 1 for the topic, level 2 for its parts", "# A\n## B", True),
        ("It must include H1 and H3 headings", "# A\n### B", True),
        ("It must include H1 and H3 headings", "# A\n## B", False),
        ("must include a heading level 2 and a heading level 4", "## A\n#### B", True),
        ("Include a level 2 heading titled 'Costs'", "## Costs\ntext", True),
        ("Include a level 2 heading titled 'Costs'", "## Cost", False),
        ("Include a level two heading", "text\n  ## A", True),
        ("Include a level two heading", "##A", False),
        ("formatted with a heading level 3", "### A", True),
        ("Use at least two heading levels", "# A\n### B", True),
        ("Use at least two heading levels", "# A\n# B", False),
        ("Use up to two levels of headings", "# A\n## B\n### C", False),
        ("Use up to two levels of headings", "none", True),
        ("organized with exactly one heading level", "# A\n# B", True),
        ("Heading levels must not exceed level 2", "# A\n## B", True),
        ("Heading levels must be limited to two", "# A\n### B", False),
        ("Heading levels must be limited to two", "none", False),
        ("It must begin with a level 2 heading", "text\n## A\n# B", True),
        ("It must begin with a level 2 heading", "# B\n## A", False),
        ("Include headings for every step", "#### A", True),
        ("Include headings for every step", "none", False),
        ("include headings at two levels", "# A\n### B", True),
        ("include headings at two levels: main and subheadings", "# A\n### B", False),
        ("include a single level 1 heading", "# A\n## B", True),
        ("include a single level 1 heading", "# A\n# B", False),
        ("Each part needs a level 2 heading, as it must use a level 2 heading", "## A\n## B", True),
        ("Each part needs a level 2 heading, as it must use a level 2 heading", "# A\n## B", False),
        ("Each part is set apart", "none", False),
        ("Questions must be organized under a level 2 heading.", "## Why?\n# So", True),
        ("Questions must be organized under a level 2 heading.", "# Why?\n## So", False),
        ("Use bold for the terms", "a **term** here", True),
        ("Use bold for the terms", "a *term* here", False),
        ("List them as bullet points", "+ one", True),
        ("List them as bullet points", "one", False),
        ("Use block quotes", "text\n> said", True),
        ("Use block quotes", "text", False),
        ("Give at least two block quotes", "> a\n\n> b", True),
        ("Give at least two block quotes", "> a", False),
        ("All in block quotes", "> a\n> b", True),
        ("All in block quotes", "> a\n\n> b", False),
    ],
)
def test_headings_quotes_bold_and_bullets(constraint, response, passed):
    assert passes("Markdown", constraint, response) is passed


def test_markdown_that_is_not_understood_passes_and_is_flagged():
    verdict = judge("Format", "Markdown", "Use Markdown heading level 2 for the title", "none")
    assert (verdict.passed, verdict.unparsed) == (True, True)
    assert not FormatMarkdown("Use at least two heading levels").unparsed


def test_headings_and_where_they_stand():
    found = headings_of("# A\ntext\n  ####### B c \n#none")
    assert [(h.level, h.title, h.span) for h in found] == [(1, "A", (0, 3)), (7, "B c", (9, 23))]


def test_headings_are_responsible():
    asked = ("Format", "Markdown", "Each part must use a level 2 heading")
    assert spans(*asked, "# A\n## B") == [(0, 3)]
    assert spans(*asked, "## A\n## B") == [(0, 4), (5, 9)]


@pytest.mark.parametrize(
    ("constraint", "rows", "columns"),
    [
        ("a table with exactly four rows", Limits(4, 4), Limits()),
        ("a table with exactly two columns and five rows", Limits(5, 5), Limits(2, 2)),
        ("the table must not exceed 3 rows and 4 columns", Limits(None, 3), Limits(None, 4)),
        ("a table with a row limit of 6", Limits(None, 6), Limits()),
        ("a table limited to a maximum of ten rows", Limits(None, 10), Limits()),
        ("limit the table to 7 rows", Limits(None, 7), Limits()),
        ("give it in three columns of a table", Limits(), Limits(3, 3)),
        ("a table with at most 5 columns", Limits(), Limits(None, 5)),
        ("each idea in a single column of a table", Limits(), Limits(1, 1)),
    ],
)
def test_limits_of_tables_are_read(constraint, rows, columns):
    checker = FormatTable(constraint)
    assert (checker.rows, checker.columns) == (rows, columns)
    assert not checker.unparsed


TABLE = "Intro\n| Name | Year |\n|---|---|\n| Up | 2009 |\n| Brave | 2012 |\nEnd"


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("a table with no more than 2 rows", TABLE, True),
        ("a table with no more than 1 rows", TABLE, False),
        ("a table with exactly two rows", TABLE.replace("|---|---|\n", ""), True),
        ("a table with exactly 2 columns", TABLE, True),
        ("a table with no more than one column", TABLE, False),
        ("a table with no more than 9 rows", "no table", False),
        ("if a table is used, no more than 9 rows", "no table", True),
        ("if you decide to use tables, no more than 1 row", "no table", True),
        ("if a table is used, no more than 1 row", TABLE, False),
        ("the list must not exceed 3 rows", "no list", True),
        ("a table with no more than 2 rows", "a | b", True),  # a single bar: an empty table
        ("a table with exactly 2 rows", "a | b", False),
        ('a table with columns for "Name," and "Year"', TABLE, True),
        ('a table with columns for "Name," and "Place"', TABLE, False),
        ('a table that has "Year"', TABLE, True),
        ('a table that has "Place"', TABLE, False),
        ("a table with columns: year", TABLE, True),
        ("a table with columns: place", TABLE, False),
        ("each entry must include the name and its year in a table", TABLE, True),
        ("each entry must include the place and its owner in a table", TABLE, False),
        ("each entry must include the film title and its release year in a table", TABLE, False),
        ("the table's title must not exceed 3 words", TABLE, True),
        ("the table's title must not exceed 2 words", TABLE, False),
        ("each series must include the title, author, year in a table", TABLE, False),
        ("a markdown table", TABLE, True),
        ("a markdown table", "a | b", False),
    ],
)
def test_tables(constraint, response, passed):
    assert passes("Table", constraint, response) is passed


def test_tables_without_a_known_limit_are_judged_by_being_there_and_flagged():
    verdict = judge("Format", "Table", "a table with a strict limit of 5 rows", TABLE)
    assert (verdict.passed, verdict.unparsed) == (True, True)


def test_rows_and_header_are_responsible():
    rows = ("Format", "Table", "a table with no more than 1 rows")
    columns = ("Format", "Table", "a table with no more than one column")
    [(start, end)] = spans(*rows, TABLE)
    assert TABLE[start:end] == "| Brave | 2012 |"
    [(start, end)] = spans(*columns, TABLE)
    assert TABLE[start:end] == "| Name | Year |"
    assert len(spans("Format", "Table", "a table with exactly 2 columns", TABLE)) == 4


XML = '<a x="1" y="2"/> and <b z=\'3\'>text</b>'


@pytest.mark.parametrize(
    ("kind", "constraint", "response", "passed"),
    [
        ("XML", "Each element has no more than two attributes", XML, True),
        ("XML", "Each element has no more than 1 attribute", XML, False),
        ("XML", "it must not exceed one of the XML attributes", XML, False),
        ("XML", "Number of attributes must be exactly 2", XML, False),
        ("XML", "Each must have exactly two attributes", '<a x="1" y="2">', True),
        ("XML", "Each has at least 2 attributes", XML, False),
        ("XML", "Each has at least 2 attributes", "no tag at all", True),
        ("XML", "Each has at least 2 attributes", '<b/> ```xml\n<a x="1" y="2"/>\n```', True),
        ("XML", "Each has at least 2 attributes", '```xml\n<a x="1" y="2"/>', False),
        ("Text", "No bullet points", "one\n  - two", False),
        ("Text", "No bullet points", "one - two", True),
        ("Bullet Points", "Must be listed as bullet points", "* one", True),
        ("Text", "Must include 'red kite'", "a Red Kite flies", True),
        ("Text", "Must include 'red kite'", "a red kites", False),
        ("Text", "Must be in APA format", "so (Ho, 2020) says", True),
        ("Text", "Must be in APA format", "so Ho says", False),
        ("Text", "The answer must be in full sentences", "no", True),
        ("Text", "No lists", "1. one", False),
        ("Text", "No number points", "1.one", False),
        ("Text", "The answer must include at least two references", "[1] and (Ho, 2020)", True),
        ("Text", "The answer must include at least two references", "[1]", False),
        ("Blurb", "resembling a short blurb", "short", True),
        ("Blurb", "resembling a short blurb", "x" * 201, False),
        ("Length", "Response must be written at medium length", "x" * 201, True),
        ("Length", "Response must be written at medium length", "short", False),
        ("Markdown: Block quotes", "the quotes be formatted in block quotes", "> said", True),
        ("Markdown: Block quotes", "the quotes be formatted in block quotes", "said", False),
    ],
)
def test_other_formats(kind, constraint, response, passed):
    assert passes(kind, constraint, response) is passed


def test_rows_of_other_tables():
    asked = ("Table", "Table", "a table with no more than 2 rows")
    assert judge(*asked, "| A |\n|---|\n| 1 |").passed
    assert not judge(*asked, "| A |\n|---|\n| 1 |\n| 2 |").passed
    assert not judge(*asked, "<TR>" * 3).passed


def test_other_formats_that_are_not_understood_fail_and_are_flagged():
    verdict = judge("Format", "Text", "Set it in italics", "*yes*")
    assert (verdict.passed, verdict.unparsed) == (False, True)
