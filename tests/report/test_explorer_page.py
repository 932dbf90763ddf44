"""The explorer in a real browser, where one is found in PATH."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up import RESPONSE, attribution_rows, tokens_of
from matplotlib.image import imread
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mrtpo.config import Settings
from mrtpo.report.explorer import write_explorer
from mrtpo.report.source import Attributed, Question

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FOUND = next((path for name in BROWSERS if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(FOUND is None, reason=f"none in PATH: {', '.join(BROWSERS)}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=FOUND)
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = {
        f"synthetic-{n:04d}": Question(
            f"Question {n}?", "SELECT name FROM singer", "join", (("user", "The schema."),)
        )
        for n in range(3)
    }
    rows = attribution_rows()
    for row in rows:
        row["detail"] = "no such column: telefone" if row["reward"] == "executability" else ""
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    return write_explorer(path, Attributed(rows, asked, Settings()), most=100)


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1300, "height": 900})
    yield from watched(opened, file)


def watched(opened: Page, file: Path) -> Iterator[Page]:
    """A page that must not complain, nor ask for anything but itself."""
    trouble: list[str] = []
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    opened.on("request", lambda r: None if r.url.startswith("file:") else trouble.append(r.url))
    opened.goto(file.as_uri())
    yield opened
    opened.close()
    assert trouble == []


def tokens(page: Page, side: int) -> list[str]:
    return page.locator(f".tokens[data-side='{side}'] span").all_text_contents()


def tip(page: Page) -> str:
    return page.locator("#tip").inner_text()


def test_the_first_response_is_drawn_with_what_was_asked_beside_it(page: Page) -> None:
    assert page.locator("#question").inner_text() == "Question 0?"
    assert page.locator("#reference").inner_text() == "SELECT name FROM singer"
    assert page.locator("#place").inner_text() == "1 of 6"
    assert page.locator("#list li").count() == 6
    shown = "".join(tokens(page, 1)).replace("↵\n", "\n")
    assert shown == "".join(tokens_of(RESPONSE))
    assert "no such column: telefone" in page.locator("#rewards").inner_text()


def test_gdpo_is_even_and_mrtpo_is_not(page: Page) -> None:
    page.get_by_role("button", name="executability", exact=True).click()
    tints = [
        page.locator(f".tokens[data-side='{side}'] span").evaluate_all(
            "spans => spans.map(span => getComputedStyle(span).backgroundColor)"
        )
        for side in (0, 1)
    ]
    assert len(set(tints[0])) == 1
    assert len(set(tints[1])) > 5


def test_a_token_under_the_pointer_tells_its_numbers(page: Page) -> None:
    page.get_by_role("button", name="executability", exact=True).click()
    at = tokens_of(RESPONSE).index("telefo")
    page.locator(".tokens[data-side='1'] span").nth(at).hover()
    row = attribution_rows()[1]
    shown = tip(page)
    assert "telefo" in shown and "columns" in shown
    assert f"weight\t{np.float16(row['weight'][at]):.2f}" in shown
    assert f"distance\t{np.float16(row['distance'][at]):.2f}" in shown
    for what in ("probability, told", "not told", "advantage, GDPO", "advantage, MRTPO"):
        assert what in shown
    assert page.locator(".tokens .at").count() == 2  # the same token on both sides


def test_next_and_previous_stop_at_the_ends(page: Page) -> None:
    assert page.locator("#previous").is_disabled()
    for _ in range(5):
        page.locator("#next").click()
    assert page.locator("#place").inner_text() == "6 of 6"
    assert page.locator("#next").is_disabled()
    page.locator("#previous").click()
    assert page.locator("#about").inner_text().startswith("synthetic-0002 · response 0")


def test_filters_narrow_the_list_and_say_so(page: Page) -> None:
    page.select_option("#reward", label="executability")
    page.select_option("#verdict", "passed")
    assert page.locator("#count").inner_text() == "2 of 6 responses"
    assert page.locator("#question").inner_text() == "Question 1?"
    page.select_option("#reward", label="execution")
    page.select_option("#verdict", "skipped")
    assert page.locator("#question").inner_text() == "Question 2?"
    page.locator("#reset").click()
    expect(page.locator("#count")).to_have_text("6 responses")


def test_responses_are_found_by_part_share_and_text(page: Page) -> None:
    page.select_option("#reward", label="format")
    page.select_option("#part", label="tags")
    assert page.locator("#count").inner_text() == "6 responses"
    page.select_option("#part", label="order")
    assert page.locator("#count").inner_text() == "No response fits"
    assert page.locator("#next").is_disabled()
    page.locator("#reset").click()
    page.select_option("#share", "0.75")
    assert page.locator("#count").inner_text() == "No response fits"
    page.select_option("#share", "0")
    page.locator("#search").fill("question 2")
    assert page.locator("#count").inner_text() == "2 of 6 responses"


def test_weights_and_distances_are_a_switch_away(page: Page) -> None:
    page.keyboard.press("1")
    page.get_by_text("Weight", exact=True).click()
    assert page.locator(".map h4").first.inner_text() == "GDPO: 1 everywhere"
    page.get_by_text("Distance", exact=True).click()
    titles = page.locator(".map h4").all_inner_texts()
    assert titles == ["Δ log-probability, told − not told", "Distance"]
    assert page.locator(".tokens[data-side='1'] .o").count() > 5


def test_all_of_it_is_reached_by_keyboard(page: Page) -> None:
    page.keyboard.press("2")
    assert page.locator("#rewards tr.on").inner_text().startswith("executability")
    page.keyboard.press("v")
    assert page.locator("[name=view]:checked").get_attribute("value") == "weight"
    page.keyboard.press("ArrowRight")
    assert page.locator("#place").inner_text() == "2 of 6"
    page.locator(".tokens").nth(1).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "token 2 of" in tip(page)
    page.keyboard.press("End")
    count = len(tokens_of(RESPONSE))
    assert f"token {count} of {count}" in tip(page)
    assert "weight" in (page.locator("#said").text_content() or "")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert "token 1 of" not in tip(page)
    page.keyboard.press("Escape")
    assert page.locator("#place").inner_text() == "2 of 6"  # arrows moved in the text alone
    page.keyboard.press("/")
    page.keyboard.type("question 1")
    assert page.locator("#count").inner_text() == "2 of 6 responses"


def test_the_keys_are_told_in_a_dialog(page: Page) -> None:
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("j")  # nothing moves below
    page.keyboard.press("Escape")
    assert page.locator("#place").inner_text() == "1 of 6"


def test_an_address_brings_back_what_was_shown(page: Page) -> None:
    page.keyboard.press("3")
    page.keyboard.press("v")
    page.keyboard.press("j")
    page.reload()
    assert page.locator("#place").inner_text() == "2 of 6"
    assert page.locator("#rewards tr.on").inner_text().startswith("execution")
    assert page.locator("[name=view]:checked").get_attribute("value") == "weight"


def test_every_control_has_a_name(page: Page) -> None:
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, .tokens')]
             .filter(e => !e.ariaLabel && !e.textContent.trim())
             .filter(e => !e.labels?.[0]?.textContent.trim())
             .map(e => e.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("html").get_attribute("lang") == "en"


def contrast(page: Page) -> float:
    """The smallest contrast of text in the heat maps, by WCAG 2's formula."""
    return page.evaluate(
        """() => {
          const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
          const over = (...layers) => {
            pen.clearRect(0, 0, 1, 1);
            for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1); }
            return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255);
          };
          const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
          return Math.min(...[...document.querySelectorAll('.tokens span')].map(span => {
            const style = getComputedStyle(span);
            const card = getComputedStyle(span.closest('.pair > div')).backgroundColor;
            const a = light(over(style.color)), b = light(over(card, style.backgroundColor));
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          }));
        }"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_every_colour(browser: Browser, file: Path, scheme: Any) -> None:
    opened = browser.new_page(color_scheme=scheme)
    for page in watched(opened, file):
        for _ in range(3):
            page.keyboard.press("2")
            page.keyboard.press("v")
            assert contrast(page) > 4.5


def test_colours_follow_the_system_and_then_the_button(browser: Browser, file: Path) -> None:
    opened = browser.new_page(color_scheme="dark")
    for page in watched(opened, file):
        tint = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(tint)
        page.locator("#theme").click()
        assert page.evaluate(tint) != dark
        page.locator("#theme").click()
        assert page.evaluate(tint) == dark


@pytest.mark.parametrize("width", [360, 800, 1300, 2200])
def test_nothing_is_wider_than_the_window(browser: Browser, file: Path, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900})
    for page in watched(opened, file):
        page.keyboard.press("2")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_twelve_rewards_of_two_thousand_tokens_are_drawn_as_they_come_into_view(
    browser: Browser, tmp_path: Path
) -> None:
    rng = random.Random(0)
    words = [rng.choice([" the", " lamp", ".", "\n", "é"]) for _ in range(2000)]
    distance = [rng.random() for _ in words]
    rows = [
        {
            "prompt_id": "wild", "sample": sample, "reward": f"c{k}", "value": float(k % 2),
            "advantage": 0.5 - k % 2, "skipped": False, "reason": "", "tokens": words,
            "parts": ["text"] * 2000, "logprob_with": distance, "logprob_without": distance,
            "distance": distance, "weight": distance,
        }
        for sample in range(2)
        for k in range(12)
    ]  # fmt: skip
    path = write_explorer(tmp_path / "x.html", Attributed(rows, {}, Settings()), most=9)
    opened = browser.new_page()
    for page in watched(opened, path):
        assert page.locator("#rewards tbody tr").count() == 13
        page.keyboard.press("j")
        page.locator("#all").check()
        page.locator(".map .tokens span").first.wait_for()
        assert page.locator(".map").count() == 13
        assert page.locator(".map.waiting").count() > 5
        page.locator(".map").last.scroll_into_view_if_needed()
        expect(page.locator(".map").last).to_have_class("map")
        assert page.locator(".map").last.locator("span").count() == 4000


def test_a_print_has_the_whole_response_and_no_controls(page: Page, tmp_path: Path) -> None:
    page.locator("#all").check()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.locator(".side").is_visible()
    assert not page.locator(".bar").is_visible()
    assert page.locator(".map.waiting").count() == 0
    printed = page.pdf(path=tmp_path / "x.pdf")
    assert printed.startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_shows_red_and_blue(
    browser: Browser, file: Path, tmp_path: Path, scheme: Any
) -> None:
    opened = browser.new_page(viewport={"width": 1300, "height": 1200}, color_scheme=scheme)
    for page in watched(opened, file):
        shot = Path(os.environ.get("MRTPO_SHOTS") or tmp_path) / f"{scheme}.png"
        page.screenshot(path=shot)
        colours = imread(shot)[..., :3].reshape(-1, 3)
        red, blue = colours[:, 0] - colours[:, 2], colours[:, 2] - colours[:, 0]
        assert (red > 0.2).mean() > 0.001
        assert (blue > 0.2).mean() > 0.001
