"""The explorer's data: compact, whole, and harmless whatever a model wrote."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up import attribution_rows

from mrtpo import paths
from mrtpo.config import Settings
from mrtpo.records import Information, Message, Prompt, write_prompts
from mrtpo.report.explorer import explorer_data, write_explorer
from mrtpo.report.opening import opened
from mrtpo.report.source import Attributed, Question, pick, read_attribution

ASKED = {f"synthetic-{n:04d}": Question(f"Question {n}?", "SELECT 1") for n in range(3)}


def made(rows: list[dict[str, Any]] | None = None) -> Attributed:
    return Attributed(rows or attribution_rows(), ASKED, Settings())


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_page_has_every_number_of_every_token() -> None:
    rows = attribution_rows()
    data, left_out = explorer_data(made(rows), most=100)
    assert left_out == 0
    first = data["responses"][0]
    tokens = np.frombuffer(base64.b64decode(first["t"]), "<u4")
    assert [data["pieces"][t] for t in tokens] == rows[0]["tokens"]
    parts = np.frombuffer(base64.b64decode(first["q"]), "u1")
    assert [data["parts"][q] for q in parts] == rows[0]["parts"]
    numbers = np.frombuffer(base64.b64decode(first["rewards"][0]["x"]), "<f2").reshape(4, -1)
    for kept, name in zip(
        numbers, ("logprob_with", "logprob_without", "distance", "weight"), strict=True
    ):
        assert np.allclose(kept, rows[0][name], rtol=1e-3, atol=1e-6)


def test_the_largest_token_and_the_part_with_most_distance_are_told() -> None:
    rows = attribution_rows(1, 1)[:1]
    rows[0]["distance"] = [0.0] * len(rows[0]["tokens"])
    rows[0]["distance"][3], rows[0]["distance"][0] = 3.0, 1.0
    data, _ = explorer_data(made(rows), most=1)
    reward = data["responses"][0]["rewards"][0]
    assert reward["top"] == 0.75
    assert data["parts"][reward["part"]] == rows[0]["parts"][3]


def test_a_reward_that_was_not_replayed_says_why_and_holds_no_numbers() -> None:
    data, _ = explorer_data(made(), most=100)
    skipped = [k for r in data["responses"] for k in r["rewards"] if k["why"]]
    assert {k["why"] for k in skipped} == {"context too long"}
    assert all("x" not in k and k["v"] is None for k in skipped)


def test_a_replay_that_found_nothing_has_no_part_with_most_distance() -> None:
    rows = attribution_rows(1, 1)[:1]
    rows[0]["distance"] = [0.0] * len(rows[0]["tokens"])
    reward = explorer_data(made(rows), most=1)[0]["responses"][0]["rewards"][0]
    assert (reward["top"], reward["part"]) == (0.0, None)


def test_an_impossible_token_stays_impossible() -> None:
    rows = attribution_rows(1, 1)[:1]
    rows[0]["logprob_without"] = [-math.inf, *rows[0]["logprob_without"][1:]]
    reward = explorer_data(made(rows), most=1)[0]["responses"][0]["rewards"][0]
    assert np.frombuffer(base64.b64decode(reward["x"]), "<f2").reshape(4, -1)[1, 0] == -math.inf


def test_responses_that_are_left_out_are_counted_on_the_page(tmp_path: Path) -> None:
    page = write_explorer(tmp_path / "x.html", made(), most=4).read_text()
    assert len(embedded(page)["responses"]) == 4
    assert "<dt>left out</dt><dd>2 responses</dd>" in page


def test_no_rows_are_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to explore"):
        explorer_data(Attributed([], {}, Settings()), most=4)


def test_nothing_that_a_model_wrote_can_leave_the_data(tmp_path: Path) -> None:
    rows = attribution_rows(1, 1)[:1]
    bad = "</script><script>alert(1)</script><!--\u2028"
    rows[0]["tokens"] = [bad, *rows[0]["tokens"][1:]]
    page = write_explorer(tmp_path / "x.html", made(rows), most=1).read_text()
    assert embedded(page)["pieces"][0] == bad
    assert page.count("<script") == 2


def test_the_only_script_is_the_one_whose_digest_the_policy_names(tmp_path: Path) -> None:
    page = write_explorer(tmp_path / "x.html", made(), most=4).read_text()
    script = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert len(script) == 1
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    pages = [write_explorer(tmp_path / f"{n}.html", made(), most=4) for n in range(2)]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_a_prompt_of_many_labelled_rewards_shows_what_each_is_about() -> None:
    rows = attribution_rows(1, 1)
    for at, row in enumerate(rows):
        row |= {"label": "words:at_least", "information": f"- Use {at} words."}
    data, _ = explorer_data(made(rows), most=1)
    assert data["rewards"] == ["Use 0 words.", "Use 1 words.", "Use 2 words."]
    assert data["filed"] == ["words:at_least"]


def workspace(folder: Path) -> Path:
    prompt = Prompt(
        "synthetic-0000", "train", "join", "easy", "clinic", (Message("user", "Say it."),),
        (Information("format", "rule", "append", "Use tags."),), "SELECT 1",
        json.dumps({"question": "Which?"}),
    )  # fmt: skip
    write_prompts(folder / paths.PROMPTS / "train.parquet", [prompt])
    file = folder / paths.ATTRIBUTION
    file.parent.mkdir(parents=True)
    rows = [row for row in attribution_rows(1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), file)
    return folder


def test_a_runs_folder_and_its_attribution_file_hold_the_same(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    by_folder = opened(root, None, [], None)
    by_file = opened(root / paths.ATTRIBUTION, None, ["replay.floor=0.25"], None)
    assert by_folder.rows == by_file.rows == read_attribution(Settings(), root).rows
    assert by_file.facts["floor"] == "0.25"
    asked = by_file.questions["synthetic-0000"]
    assert (asked.question, asked.about) == ("Which?", "join · easy · clinic")
    assert {row["information"] for row in by_file.rows} == {"Use tags.", ""}


def test_what_holds_no_responses_is_refused_with_its_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"step": [1]}), tmp_path / "history.parquet")
    with pytest.raises(ValueError, match=r"neither rollouts.*its columns: step"):
        opened(tmp_path / "history.parquet", None, [], None)
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        opened(tmp_path / "nothing.parquet", None, [], None)


def test_a_response_is_picked_by_prompt_and_sample_and_others_are_named() -> None:
    rows = pick(made(), "synthetic-0001", 1)
    assert {(row["prompt_id"], row["sample"]) for row in rows} == {("synthetic-0001", 1)}
    assert len(rows) == 3
    with pytest.raises(ValueError, match="prompts: synthetic-0000, synthetic-0001"):
        pick(made(), "synthetic-9", None)
