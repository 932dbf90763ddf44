"""IFBench's constraints that are whole tasks: each is asked of one prompt, without arguments."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from itertools import pairwise

from mrtpo.verifiers.constraints.kinds import Kind, Spans
from mrtpo.verifiers.constraints.text import ENDS, sentence_spans, sentences, without_punctuation

# From north to south, as the original orders them.
CAPITALS = [
    "Reykjavik", "Helsinki", "Oslo", "Tallinn", "Stockholm", "Riga", "Moscow", "Copenhagen",
    "Vilnius", "Minsk", "Dublin", "Berlin", "Amsterdam", "Warsaw", "London", "Brussels", "Prague",
    "Luxembourg", "Paris", "Vienna", "Bratislava", "Budapest", "Vaduz", "Chisinau", "Bern",
    "Ljubljana", "Zagreb",
]  # fmt: skip
AFRICAN_LINES = 52
CITY_COLUMNS = ["ID", "Country", "City", "Year", "Count"]
PRODUCT_COLUMNS = ["ProductID", "Category", "Brand", "Price", "Stock"]
STUDENT_COLUMNS = ["StudentID", "Subject", "Grade", "Semester", "Score"]
DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
YEARS = (1769, 1821)  # of Napoleon's life

_DIGITS = re.compile(r"\d+")
_QUESTION = re.compile(r"Question \d+[.|):;]?")
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_SPECIAL = re.compile(r"[^\d\w\s]")


def _plain(text: str) -> str:
    """Without accents and whatever else is not ASCII."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


def _multiples(response: str) -> bool:
    return _DIGITS.findall(response) == [str(n) for n in range(14, 51, 7)]


def _questions(response: str) -> bool:
    if not response.startswith("Question"):
        return False
    questions = [text.strip() for text in _QUESTION.split(response) if text.strip()]
    if len(questions) != 4:
        return False
    lengths = []
    for question in questions:
        found = [line.strip() for line in question.split("\n")]
        options = [i for i, line in enumerate(found) if _OPTION.match(line)]
        if len(options) != 5:
            return False
        lengths.append(len(" ".join(found[: options[0]]).strip()))
    return all(a < b for a, b in pairwise(lengths))


def _africa(response: str) -> bool:
    found = [line for text in response.split("\n") if (line := text.strip(ENDS))]
    start = next((i for i, line in enumerate(found) if "Zimbabwe" in line), None)
    if start is None or len(found) - start < AFRICAN_LINES:
        return False
    plain = [_plain(line) for line in found[start:]]
    return plain == sorted(plain, reverse=True)


def _words_reversed(response: str) -> bool:
    words = without_punctuation(response.lower()).split()
    return "bald eagle" in " ".join(reversed(words))


def _letters_reversed(response: str) -> bool:
    return "elgae dlab" in response.lower()


def _reversed_spans(response: str) -> Spans:
    start = response.lower().find("elgae dlab")
    return [(start, start + 10)] if start >= 0 else None


def _starts_right(sentence: str, i: int) -> bool:
    return sentence.lstrip()[:1].lower()[:1] == chr(ord("a") + i)


def _alphabet_of_sentences(response: str) -> bool:
    found = sentences(response)
    return len(found) == 26 and all(_starts_right(text, i) for i, text in enumerate(found))


def _first_letters(response: str, right: bool) -> Spans:
    spans = sentence_spans(response)[:26]
    return [
        (a, a + 1) for i, (a, b) in enumerate(spans) if _starts_right(response[a:b], i) is right
    ]


def _capitals(response: str) -> bool:
    return [name.strip() for name in _plain(response).split(",") if name.strip()] == CAPITALS


def _table(text: str, delimiter: str = ",") -> list[list[str]]:
    """Rows of CSV; none where the text is not CSV."""
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


def _heads(columns: list[str], between: str) -> re.Pattern[str]:
    return re.compile(between.join(f'(?:{name}|"{name}")' for name in columns))


_PRODUCT_HEAD = _heads(PRODUCT_COLUMNS, r",[ \t]*")
_STUDENT_HEAD = _heads(STUDENT_COLUMNS, "\t *")


def _cities(response: str) -> bool:
    rows = _table(response)
    return len(rows) == 8 and rows[0] == CITY_COLUMNS and all(len(row) == 5 for row in rows)


def _tripled(response: str) -> str:
    """Quotes are tripled, so that each field keeps one on either side."""
    return response.replace('"', '"""')


def _special_field(field: str) -> bool:
    """Begins with a quote that a special character and another quote follow, on the same line."""
    if not field.startswith('"'):
        return False
    last = field.split("\n")[0].rfind('"')
    return last > 1 and bool(_SPECIAL.search(field, 1, last))


def _products(response: str) -> bool:
    # Rows after the first that has a special field are not looked at, as in the original.
    if not _PRODUCT_HEAD.fullmatch(response.split("\n")[0].strip()):
        return False
    rows = _table(_tripled(response))
    if len(rows) != 15:
        return False
    for row in rows[1:]:
        if len(row) != 5:
            return False
        if any(map(_special_field, row)):
            return True
    return False


def _quoted_field(field: str) -> bool:
    text = field.strip()
    return bool(text) and text[0] == text[-1] == '"'


def _students(response: str) -> bool:
    if not _STUDENT_HEAD.fullmatch(response.split("\n")[0].strip()):
        return False
    rows = _table(_tripled(response), "\t")
    return len(rows) == 4 and all(len(row) == 5 and all(map(_quoted_field, row)) for row in rows)


def _date(text: str) -> bool:
    # Months and days from 00 on, as in the original.
    match = _DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = map(int, match.groups())
    most = DAYS[month - 1] if 1 <= month <= 12 else 99
    return YEARS[0] <= year <= YEARS[1] and month <= 12 and day <= most


def _dates(response: str) -> bool:
    return all(_date(text.strip()) for text in response.strip().split(","))


def _date_spans(response: str, right: bool) -> Spans:
    found, start = [], 0
    for text in response.split(","):
        if text.strip() and _date(text.strip()) is right:
            begin = start + len(text) - len(text.lstrip())
            found.append((begin, begin + len(text.strip())))
        start += len(text) + 1
    return found


def _columns(names: list[str]) -> str:
    return ", ".join(names)


KINDS = {
    "custom:multiples": Kind(
        _multiples,
        "Count from 10 to 50, but write only the multiples of 7.",
        fulfils=lambda response: [match.span() for match in _DIGITS.finditer(response)],
    ),
    "custom:mcq_count_length": Kind(
        _questions,
        "Write 4 multiple-choice questions on the history of art in the 20th century, with 5 "
        'options each. Begin each with "Question" and its number, make each longer than the one '
        "before it, and explain nothing.",
    ),
    "custom:reverse_newline": Kind(
        _africa,
        "List the countries of Africa from Z to A, one on each line.",
    ),
    "custom:word_reverse": Kind(
        _words_reversed,
        "Which animal is the national symbol of the US? Answer with a sentence whose words stand "
        "in reverse order.",
    ),
    "custom:character_reverse": Kind(
        _letters_reversed,
        "Which animal is the national symbol of the US? Answer with a sentence whose letters stand "
        "in reverse order.",
        fulfils=_reversed_spans,
    ),
    "custom:sentence_alphabet": Kind(
        _alphabet_of_sentences,
        "Tell a story of 26 sentences: the first begins with A, the next with B, and so on to Z.",
        fulfils=lambda response: _first_letters(response, True),
        breaks=lambda response: _first_letters(response, False),
        needs=("punkt_tab",),
    ),
    "custom:european_capitals_sort": Kind(
        _capitals,
        "Name the capitals of European countries that lie north of 45 degrees, from north to "
        "south, without the countries, with commas between them.",
    ),
    "custom:csv_city": Kind(
        _cities,
        f"Write CSV data with the columns {_columns(CITY_COLUMNS)} and 7 rows, with commas between "
        "the fields.",
    ),
    "custom:csv_special_character": Kind(
        _products,
        f"Write CSV data with the columns {_columns(PRODUCT_COLUMNS)} and 14 rows, with commas "
        "between the fields. One field must hold a special character and stand in double quotes.",
    ),
    "custom:csv_quotes": Kind(
        _students,
        f"Write CSV data with the columns {_columns(STUDENT_COLUMNS)} and 3 rows, with tabs "
        "between the fields and every field in double quotes.",
    ),
    "custom:date_format_list": Kind(
        _dates,
        "List the dates on which Napoleon's battles began, as YYYY-MM-DD with commas between them, "
        "and explain nothing.",
        fulfils=lambda response: _date_spans(response, True),
        breaks=lambda response: _date_spans(response, False),
    ),
}
