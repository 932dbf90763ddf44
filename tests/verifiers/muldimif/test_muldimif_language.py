"""Letter case of English, and simplified or traditional Chinese."""

import sys

import pytest

from mrtpo.verifiers.muldimif import judge, spans

TABLE = "Words\n| One | two |\n|---|---|\n| Three | four |"


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("In all uppercase letters", "ALL 1 BIG!", True),
        ("In all uppercase letters", "ALL big", False),
        ("In capitalized form", "Not Enough", False),
        ("Capitalize each word", "Every Word 1st", True),
        ("Capitalize each word", "Every word", False),
        ("Use capitalized letters for each word", "“quoted” Élan", True),
        ("Each word in the text starts big", "no", False),
        ("Names must be capitalized", "Ann", True),
        ("It must be in lowercase", "all small, 1", True),
        ("It must be in lowercase", "All small", False),
        ("written as a short blurb", "any thing", True),
        ("In all uppercase letters", "", False),
        ("In all uppercase letters", " \n", False),
        ("The table headers must be capitalized", TABLE, True),  # the first line, table or not
        ("The table entries must be capitalized", TABLE, False),
        ("The table must be capitalized", "| One | Two |\n| Three | Four |", True),
        ("The table must be capitalized", "no table here", False),
        ("All keys of the JSON must be capitalized", '{"Key": "value"}', True),
        ("All values of the JSON must be capitalized", '{"Key": "value"}', False),
        ("All values of the JSON must be capitalized", "no json", False),
        ("Headings must be capitalized", "# A Head\nsmall text", True),
        ("Headings must be capitalized", "# A head\nsmall text", False),
        ("Headings must be capitalized", "small text", False),
    ],
)
def test_letter_case(constraint, response, passed):
    assert judge("Language", "English", constraint, response).passed is passed


def test_english_that_is_not_understood_fails_and_is_flagged():
    verdict = judge("Language", "English", "written entirely in uppercase letters", "ALL BIG")
    assert (verdict.passed, verdict.unparsed) == (False, True)


def test_words_in_the_wrong_case_are_responsible():
    asked = ("Language", "English", "Capitalize each word")
    assert spans(*asked, "One two Three four") == [(4, 7), (14, 18)]
    assert spans("Language", "English", "Headings must be capitalized", "# a") is None


@pytest.mark.parametrize(
    ("constraint", "response", "passed"),
    [
        ("The answer must be in Simplified Chinese", "这是中文", True),
        ("The answer must be in Simplified Chinese", "這是中文", False),
        ("The answer must be in Simplified Chinese", "English", False),
        ("必须使用简体中文", "汉语", True),
        ("请用中文简体描述", "漢語", False),
        ("It should include some Traditional Chinese characters", "some 漢語", True),
        ("It should include some Traditional Chinese characters", "some 汉语", False),
        ("必須使用繁體中文", "漢語", True),
        ("Must use Traditional Chinese characters", "漢語", True),
        ("Must use Traditional Chinese characters", "漢語 too", False),
        ("Must use Traditional Chinese characters", "汉语", False),
        ("Must translate the text into Simplified Chinese", "汉语", True),
        ("Must translate the text into Simplified Chinese", "漢語", False),
        ('Must include the phrase "你好" in it', "说：你好！", True),
        ('Must include the phrase "你好" in it', "说：您好！", False),
        ('Must write the name "Shen Lim" in Simplified Chinese', "沈林", True),
    ],
)
def test_chinese(constraint, response, passed):
    pytest.importorskip("zhconv")
    assert judge("Language", "Chinese", constraint, response).passed is passed


def test_chinese_that_is_not_understood_fails_and_is_flagged():
    verdict = judge("Language", "Chinese", "in Cantonese", "漢語")
    assert (verdict.passed, verdict.unparsed) == (False, True)


def test_without_the_converter_chinese_is_an_error_and_no_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "zhconv", None)
    verdict = judge("Language", "Chinese", "in Simplified Chinese", "汉语")
    assert (verdict.passed, verdict.status) == (None, "error")
    assert "mrtpo[chinese]" in verdict.detail
