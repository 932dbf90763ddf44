"""IFBench's kinds that are whole tasks."""

import pytest
from constraint_cases import Case, examine, named

from mrtpo.verifiers.constraints import check
from mrtpo.verifiers.constraints.custom import CAPITALS

NUMBERS = "14, 21, 28, 35, 42, 49"
ALPHABET = [f"{letter} is it." for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
OPTIONS = "\n".join(f"{letter}) x" for letter in "ABCDE")
QUESTIONS = "\n\n".join(f"Question {i}: Who{'o' * i}?\n{OPTIONS}" for i in range(1, 5))
AFRICA = "\n".join(["Zimbabwe", *(f"Country {i:02}" for i in range(51, 0, -1))])
CITIES = "ID,Country,City,Year,Count\n" + "1,a,b,2000,3\n" * 7
PRODUCTS = 'ProductID, "Category",Brand,Price,Stock\n1,"a&b",c,2,3\n' + "1,a,b,2,3\n" * 13
STUDENTS = "\n".join("\t".join(f'"{x}"' for x in row) for row in (
    ("StudentID", "Subject", "Grade", "Semester", "Score"), *(("1", "a", "b", "c", "2"),) * 3
))  # fmt: skip

CASES = [
    Case(
        "custom:multiples", NUMBERS, "7, " + NUMBERS, fulfils=NUMBERS.split(", "),
    ),
    Case("custom:mcq_count_length", QUESTIONS, QUESTIONS.replace("Whooo?", "Who?")),
    Case("custom:reverse_newline", AFRICA, AFRICA.replace("Zimbabwe\n", "") + "\nZimbabwe"),
    Case("custom:word_reverse", "Eagle bald the is it", "It is the bald eagle"),
    Case(
        "custom:character_reverse", ".Elgae dlab eht si tI", "It is the bald eagle",
        fulfils=["Elgae dlab"],
    ),
    Case(
        "custom:sentence_alphabet", " ".join(ALPHABET), " ".join(["O no.", *ALPHABET[1:]]),
        fulfils=list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), breaks=["O"],
    ),
    Case("custom:european_capitals_sort", ", ".join(CAPITALS), ", ".join(sorted(CAPITALS))),
    Case("custom:csv_city", CITIES, CITIES + "1,a,b,2000,3\n"),
    Case("custom:csv_special_character", PRODUCTS, PRODUCTS.replace("a&b", "ab")),
    Case("custom:csv_quotes", STUDENTS, STUDENTS.replace('"2"', "2")),
    Case(
        "custom:date_format_list", "1796-04-12, 1805-12-02", "1796-04-12, 1805-12-32",
        fulfils=["1796-04-12", "1805-12-02"], breaks=["1805-12-32"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_tells_good_from_bad_and_where(case):
    examine(case)


@pytest.mark.parametrize(
    "id", ["custom:csv_city", "custom:csv_special_character", "custom:csv_quotes"]
)
def test_what_is_no_csv_fails(id):
    good = {case.id: case.good for case in CASES}[id]
    for text in (good.replace("\n", "\r", 2), good + "x" * 99_000, "\n" + good):
        verdict = check(id, {}, text)
        assert (verdict.status, verdict.passed) == ("ok", False), text[:80]


def test_accents_do_not_matter_where_names_are_sorted():
    accented = ", ".join(CAPITALS).replace("Reykjavik", "Reykjavík").replace("Chisinau", "Chișinău")
    assert check("custom:european_capitals_sort", {}, accented).passed is True
    africa = AFRICA.replace("Country 51", "Sâo").replace("Country", "Country")
    assert check("custom:reverse_newline", {}, africa).passed is True
