"""The kinds for exact numbers and plain texts."""

from constraint_cases import Case, examine, named

CASES = [
    Case(
        "exact:word_frequency", "Tea in the steam", "tea and Tea",
        {"keyword": "tea", "frequency": 1},
        fulfils=["Tea"], breaks=["tea", "Tea"],
    ),
    Case(
        "exact:text_frequency", "tea, steam, Tea", "tea", {"text": "tea", "frequency": 2},
        fulfils=["tea", "tea"], breaks=["tea"],
    ),
    Case(
        "exact:no_text", "Coffee", "Steam", {"forbidden_words": ["tea", "cake"]}, breaks=["tea"],
    ),
    Case(
        "exact:sentence_range", "One. Two.", "One. Two. Three.",
        {"min_sentences": 1, "max_sentences": 2},
    ),
    Case(
        "exact:first_word", "“Tea-time, now", "tea-time now", {"word": "Tea-time"},
        fulfils=["Tea-time"], breaks=["tea-time"],
    ),
    Case(
        "exact:last_word", "It is tea.", "It is tea time", {"word": "tea"},
        fulfils=["tea"], breaks=["time"],
    ),
]  # fmt: skip


@named(CASES)
def test_a_kind_is_checked_and_located(case):
    examine(case)
