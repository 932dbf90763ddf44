"""The HTML report: self-contained, safe, right, and the same bytes each time."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up import (
    attribution_rows,
    evaluations_frame,
    gain_record,
    history_frame,
    past_runs,
    prediction_rows,
)

from mrtpo.benchmarks.base import Summary
from mrtpo.config import Settings, settings_from
from mrtpo.records import Information, Message, Prompt, write_prompts
from mrtpo.report import results as results_module
from mrtpo.report.html import write_report
from mrtpo.report.results import Results, read_results

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Tags with attributes, visible text by tag, and whether every tag is closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def find(self, tag: str, of: str) -> list[dict[str, str]]:
        return [a for name, a in self.tags if name == tag and of in a.get("class", "").split()]


def results(**changes: Any) -> Results:
    settings = settings_from({"replay": {"floor": 0.1}, "report": {"examples": 2}})
    made: dict[str, Any] = {
        "settings": settings, "predictions": prediction_rows(), "history": history_frame(),
        "evaluations": evaluations_frame(), "attribution": attribution_rows(),
        "runs": past_runs(), "origin": {"fingerprint": "mrtpo-0", "best.step": "40.0"},
        "metrics": {"evaluate": {"spider_exec": 0.5, "groups": {"kind/join": {"format": 1.0}}}},
    }  # fmt: skip
    return Results(**(made | changes))


def written(folder: Path, shown: Results) -> str:
    return write_report(folder / "sub" / "report.html", shown).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("report"), results())


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def test_nothing_is_loaded_from_anywhere_and_no_script_runs(source: str, page: Page) -> None:
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & {
        tag for tag, _ in page.tags
    }
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "action", "data"):
                assert value.startswith("#")
    style = source[source.index("<style>") : source.index("</style>")]
    assert not re.search(r"url\(|@import|https?:", style)
    (policy,) = [a["content"] for tag, a in page.tags if "http-equiv" in a and tag == "meta"]
    assert policy.startswith("default-src 'none'")


def test_what_a_model_wrote_is_shown_and_never_markup(tmp_path: Path) -> None:
    evil = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;"
    answers = prediction_rows(8)
    for row in answers:
        row |= dict.fromkeys(("prompt_id", "kind", "difficulty", "source", "question"), evil)
        row |= dict.fromkeys(("reference", "response", "sql", "status", "detail"), evil)
        row |= {"spider_exec": 0.0, evil: 0.5}
    rows = attribution_rows(1, 1)
    for row in rows:
        row |= {"prompt_id": evil, "reward": evil + row["reward"]}
        row["tokens"] = [evil, *row["tokens"][1:]]
        row["parts"] = [evil] * len(row["parts"])
        row["reason"] = evil
    history = history_frame().rename(
        columns=lambda n: n.replace("execution", evil.replace("/", ""))
    )
    source = written(
        tmp_path,
        results(
            predictions=answers, attribution=rows, history=history,
            questions={evil: {"question": evil, "reference": evil}},
            metrics={
                evil: {evil: evil},
                "train": {"gain": {evil: gain_record()["format"] | {"reward": evil,
                                                                    "reason": evil}}},
            }, origin={"git_commit": evil, "best.step": "1"},
            evaluations=evaluations_frame().assign(**{evil.replace("/", ""): 0.5}),
        ),
    )  # fmt: skip
    page = Page(source)
    assert "<script" not in source.lower()
    assert "<img" not in source.lower()
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert "".join(page.texts).count(evil) > 20, "it is shown as text"


def test_headline_numbers_are_the_means_of_the_predictions(page: Page) -> None:
    text = " ".join("".join(page.texts).split())
    rows = prediction_rows()
    value = 100 * sum(row["spider_exec"] for row in rows) / len(rows)
    assert f"Right result on {value:.1f} % of 80 test questions" in text.replace("\u202f", " ")


def test_the_tile_shows_validation_at_the_checkpoint_that_was_tested(tmp_path: Path) -> None:
    scores = pd.DataFrame({"step": [0, 10, 20], "spider_exec": [0.25, 0.75, 0.5]})
    for step, wanted in (("10", "from 25.0 % to 75.0 % at step 10"), ("0", "No checkpoint of")):
        shown = results(evaluations=scores, origin={"best.step": step})
        text = "".join(Page(written(tmp_path, shown)).texts).replace("\u202f", " ")
        assert wanted in " ".join(text.split())


def test_a_reward_without_contrast_is_named_instead_of_drawn(tmp_path: Path) -> None:
    rows = [row | {"advantage": 0.0} for row in attribution_rows(1, 1)[1:]]
    page = Page(written(tmp_path, results(attribution=[attribution_rows(1, 1)[0], *rows])))
    assert len(page.find("pre", "tokens")) == 2
    assert "No credit to place for executability, execution" in "".join(page.texts)


def test_tokens_are_blue_for_credit_red_for_penalty_and_even_under_gdpo(tmp_path: Path) -> None:
    row = {
        "prompt_id": "a", "sample": 0, "reward": "format", "value": 0.0, "advantage": -0.5,
        "skipped": False, "reason": "", "tokens": ["a", "b\n", "c"], "parts": ["tags", "", ""],
        "logprob_with": [math.log(0.5), 0.0, 0.0], "logprob_without": [math.log(0.25), 0.0, 0.0],
        "distance": [0.7, 0.0, 0.0], "weight": [3.0, 0.0, 0.0],
    }  # fmt: skip
    passed = row | {"reward": "execution", "value": 1.0, "advantage": 0.75}
    page = Page(written(tmp_path, results(attribution=[row, passed])))
    spans = [a for tag, a in page.tags if tag == "span" and "data-tip" in a]
    assert [span["class"] for span in spans] == ["n"] * 3 + ["n", "z", "z"] + ["p"] * 3 + [
        "p", "z", "z",
    ]  # fmt: skip
    strengths = [float(span["style"].removeprefix("--c:")) for span in spans]
    assert strengths[9] == 1.0, "the largest credit is the strongest colour"
    assert len(set(strengths[:3])) == 1
    assert strengths[0] < strengths[3] < strengths[9]
    assert spans[3]["data-tip"].split("\n") == [
        "told 0.5, not told 0.25", "distance 0.7", "weight 3", "credit −1.5", "tags",
    ]  # fmt: skip
    assert spans[0]["data-tip"] == "credit −0.5"


def test_methods_are_compared_where_several_runs_exist(page: Page, tmp_path: Path) -> None:
    assert any(a.get("id") == "methods" for _, a in page.tags)
    assert page.find("td", "best")
    single = Page(written(tmp_path, results(runs=past_runs(seeds=1)[2:])))
    assert not any(a.get("id") == "methods" for _, a in single.tags)


def test_a_report_needs_nothing_but_predictions(tmp_path: Path) -> None:
    bare = Results(settings=Settings(), predictions=prediction_rows(3))
    page = Page(written(tmp_path, bare))
    ids = {a["id"] for _, a in page.tags if "id" in a}
    assert ids == {"scores", "verifier", "failures", "settings"}
    links = {a["href"].removeprefix("#") for tag, a in page.tags if tag == "a"}
    assert links == ids
    assert Page(written(tmp_path, Results(settings=Settings(), predictions=[]))).tags


def test_whether_information_helps_is_told_where_it_was_checked(tmp_path: Path) -> None:
    def words(metrics: dict[str, Any]) -> str:
        page = Page(written(tmp_path, results(metrics=metrics)))
        linked = any(a.get("href") == "#information" for _, a in page.tags)
        assert linked == any(a.get("id") == "information" for _, a in page.tags)
        return " ".join(" ".join(page.texts).split())

    shown = words({"train": {"best": 0.5, "gain": gain_record()}})
    assert "Can the policy use its information?" in shown
    for row in (
        "executability 0.375 0.5 −0.125 ± 0.0625 −0.5 ± 0.0312 21 14 2 left out "
        "not trusted: even weights Told, good responses are not likelier.",
        "execution 0.75 0.5 +0.25 ± 0.0625 +0.125 ± 0.0312 21 14 2 left out "
        "trusted Told, good responses are likelier.",
        "format – – – – 0 0 16 left out not trusted: even weights No prompt could be compared.",
    ):
        assert row in shown
    assert "None" not in shown
    for metrics in ({}, {"train": {"best": 0.5}}, {"train": {"gain": {}}}):
        assert "Can the policy use" not in words(metrics)


def test_settings_that_differ_from_the_default_are_marked(page: Page) -> None:
    changed = page.find("div", "changed")
    default = Settings().report.examples
    assert [a["title"] for a in changed] == ["default 0.05", f"default {default}"]


def test_dark_colours_stand_in_for_every_light_one(source: str) -> None:
    light, dark = (
        set(re.findall(r"(--[a-z]+):", block))
        for block in re.findall(r":root \{(.*?)\}", source, re.DOTALL)
    )
    assert light == dark


def test_every_chart_shows_its_numbers_and_lies_within_its_frame(source: str, page: Page) -> None:
    charts = page.find("svg", "chart")
    assert len(charts) > 12
    width, height = map(float, charts[0]["viewbox"].split()[2:])
    for points in re.findall(r'points="([^"]+)"', source):
        for pair in points.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    assert "mrtpo: " in "".join(page.texts)


def test_the_same_results_give_the_same_bytes(source: str, tmp_path: Path) -> None:
    assert written(tmp_path, results()) == source


def test_a_long_run_keeps_the_page_small(tmp_path: Path) -> None:
    history = history_frame(steps=1500)
    long = len(written(tmp_path, results(history=history, runs=[])))
    assert long < 4 * len(written(tmp_path, results(runs=[])))


def test_results_are_read_from_where_the_stages_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(FileNotFoundError, match="run the stage"):
        read_results(Settings())
    for name in ("data/predictions", "data/attribution", "reports/train", "metrics",
                 "models/policy"):  # fmt: skip
        (tmp_path / name).mkdir(parents=True)
    pd.DataFrame(prediction_rows()).to_parquet("data/predictions/predictions.parquet")
    pd.DataFrame(attribution_rows()).to_parquet("data/attribution/attribution.parquet")
    history_frame().to_csv("reports/train/history.csv", index=False)
    Path("metrics/evaluate.json").write_text('{"spider_exec": 0.5}')
    Path("models/policy/training.json").write_text(
        json.dumps({"fingerprint": "abc", "best": {"step": 40.0}})
    )
    prompt = Prompt(
        "synthetic-0000", "train", "join", "easy", "db", (Message("user", "Question: ignored"),),
        (Information("format", "rule", "append", "x"),), "SELECT 1", '{"question": "How many?"}',
    )  # fmt: skip
    write_prompts(Path("data/prompts/train.parquet"), [prompt])
    found = read_results(Settings())
    assert found.predictions == prediction_rows()
    assert found.questions == {"synthetic-0000": {"question": "How many?", "reference": "SELECT 1"}}
    assert found.origin == {"fingerprint": "abc", "best.step": "40.0"}
    assert found.metrics == {"evaluate": {"spider_exec": 0.5}}
    assert found.evaluations.empty and found.runs == []
    assert "How many?" in written(tmp_path, found)
    assert not Path("mlflow.db").exists(), "reading makes no store"


def test_a_tracking_store_that_cannot_be_read_costs_the_comparison_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Settings) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(results_module, "other_runs", gone)
    (tmp_path / "data/predictions").mkdir(parents=True)
    pd.DataFrame(prediction_rows()).to_parquet(tmp_path / "data/predictions/predictions.parquet")
    with pytest.warns(UserWarning, match="refused"):
        found = read_results(Settings(), tmp_path)
    assert found.runs == []


def test_public_benchmarks_are_shown_with_their_scores_and_groups(tmp_path: Path) -> None:
    summary = Summary(
        "spider",
        {"spider_exec": 0.5, "bird_ex": None},
        {"difficulty": {"easy": {"spider_exec": 0.75, "questions": 4.0}}},
        {"questions": 1034},
    )
    metrics = {"benchmark": {"benchmarks": 1, "spider": summary.headline()}}
    made = Results(Settings(), prediction_rows(), metrics)
    page = Page(write_report(tmp_path / "r.html", made).read_text())
    text = " ".join(" ".join(page.texts).split())
    assert "spider 1034 spider_exec 50.0 % bird_ex – easy 75.0 %" in text
    none = Results(Settings(), prediction_rows(), {"benchmark": {"benchmarks": 0}})
    assert "Public benchmarks" not in write_report(tmp_path / "n.html", none).read_text()
