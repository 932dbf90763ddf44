"""Tables in pages, and names chosen from a plan."""

from pathlib import Path

import pytest

from benchmarks.pages import chosen, fill


def test_a_page_is_filled_between_its_marks_and_again(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- curves -->\nold\n<!-- /curves -->\nafter\n")
    fill(page, "new", "curves")
    fill(page, "newer", "curves")
    assert page.read_text() == "before\n<!-- curves -->\nnewer\n<!-- /curves -->\nafter\n"
    for unmarked in ("no marks\n", "<!-- curves -->\nopen\n", "<!-- /curves -->\n"):
        page.write_text(unmarked)
        with pytest.raises(ValueError, match="has no lines <!-- curves -->"):
            fill(page, "new", "curves")
        assert page.read_text() == unmarked


def test_names_are_chosen_in_the_order_of_the_plan_and_all_if_none_is_asked_for():
    assert chosen(["b", "a", "c"], ["c", "b"], "plan") == ["b", "c"]
    assert chosen(["b", "a"], (), "plan") == ["b", "a"]
    with pytest.raises(ValueError, match=r"^plan: methods: no d, e; there are: b, x; a$"):
        chosen(["b, x", "a"], ["e", "a", "d"], "plan: methods")
