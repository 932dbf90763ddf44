"""The table of methods: what each is, what settings change of it, and that its page agrees."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from helpers import tiny_settings

from mrtpo import methods
from mrtpo.advantages import centred_credit, gd2po_credit, gdpo_credit, grpo_credit
from mrtpo.config import AverageName, LossName, MethodName, Settings
from mrtpo.loss import AVERAGES, LOSSES
from mrtpo.methods import METHODS, Method, Objective, objective, refill_rounds, replays, trusts

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
NAMES = get_args(MethodName)


def of(method: str, **train: Any) -> Settings:
    return tiny_settings({"train": {"method": method, **train}})


def test_every_method_that_can_be_set_is_in_the_table_and_no_other() -> None:
    assert tuple(METHODS) == NAMES


def test_losses_and_averages_that_can_be_set_are_those_there_are() -> None:
    assert get_args(LossName) == tuple(LOSSES)
    assert get_args(AverageName) == AVERAGES
    assert {own.loss for own in METHODS.values()} <= set(LOSSES)
    assert {own.average for own in METHODS.values()} <= set(AVERAGES)


@pytest.mark.parametrize("name", NAMES)
def test_a_methods_own_objective_holds_where_nothing_is_set(name: Any) -> None:
    own = METHODS[name]
    assert objective(of(name)) == Objective(own.loss, own.average, own.clip_low, own.clip_high)
    assert refill_rounds(of(name)) == own.refill


@pytest.mark.parametrize("name", ["gdpo", "gspo", "cispo", "dr_grpo", "dapo"])
@pytest.mark.parametrize(
    ("key", "value"),
    [("loss", "clipped"), ("loss", "gspo"), ("loss", "cispo"), ("average", "tokens"),
     ("average", "responses"), ("average", "constant"), ("clip_low", 0.0), ("clip_low", 0.7),
     ("clip_high", 0.9)],
)  # fmt: skip
def test_a_setting_overrules_its_part_of_the_objective_and_no_other(
    name: Any, key: str, value: Any
) -> None:
    made, own = objective(of(name, **{key: value})), objective(of(name))
    for field in fields(Objective):
        expected = value if field.name == key else getattr(own, field.name)
        assert getattr(made, field.name) == expected, field.name


def test_rounds_of_refilling_can_be_set_for_any_method_also_to_none() -> None:
    assert refill_rounds(of("dapo")) == 3
    assert refill_rounds(of("dapo", refill=0)) == 0
    assert refill_rounds(of("gdpo")) == 0
    assert refill_rounds(of("mrtpo", refill=2)) == 2


def test_which_methods_replay_and_which_of_them_reward_by_reward() -> None:
    assert {name for name in NAMES if replays(of(name))} == {
        "mrtpo", "mrtpo_shuffled", "mrtpo_permuted", "cort",
    }  # fmt: skip
    assert {name for name in NAMES if trusts(of(name))} == {
        "mrtpo", "mrtpo_shuffled", "mrtpo_permuted",
    }  # fmt: skip


def rewards() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(5)
    rewards_BK = torch.rand(12, 3, generator=generator).round(decimals=1)
    present_BK = torch.rand(12, 3, generator=generator) > 0.15
    return rewards_BK, present_BK, torch.arange(12) // 4, torch.tensor([1.0, -0.5, 2.0])


@pytest.mark.parametrize("name", NAMES)
def test_credit_is_that_of_the_function_the_table_names(name: Any) -> None:
    table = rewards()
    plain = {"grpo": grpo_credit, "centred": centred_credit, "gdpo": gdpo_credit}
    made = methods.credit(of(name), *table)
    kind = METHODS[name].credit
    if kind == "gd2po":
        expected = gd2po_credit(*table, form="soft", threshold=0.8)
    else:
        expected = plain[kind](*table)
    assert torch.equal(made, expected)
    assert made.shape == (12, 3 if kind == "gdpo" else 1)
    assert made.abs().max() > 0.1


def test_the_kinds_of_credit_differ() -> None:
    table = rewards()
    sums = {
        METHODS[name].credit: methods.credit(of(name), *table).sum(1)
        for name in ("grpo", "dr_grpo", "gdpo", "gd2po")
    }
    made = list(sums.values())
    assert len(made) == 4
    for i, one in enumerate(made):
        assert all(float((one - other).abs().max()) > 1e-2 for other in made[:i])


def test_conflicts_are_dropped_as_the_settings_say() -> None:
    table = rewards()
    asked = [("hard", 0.8), ("soft", 0.8), ("soft", 0.1)]
    made = [
        methods.credit(of("gd2po", conflict=form, conflict_threshold=threshold), *table)
        for form, threshold in asked
    ]
    for credit, (form, threshold) in zip(made, asked, strict=True):
        assert torch.equal(credit, gd2po_credit(*table, form=form, threshold=threshold))
    assert len({tuple(credit[:, 0].tolist()) for credit in made}) == 3


def page_rows() -> dict[str, list[str]]:
    """The cells of "All methods" by method."""
    section = PAGE.read_text(encoding="utf-8").split("## All methods")[1].split("\n## ")[0]
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", section, re.M)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in lines}


CREDITS = {
    "grpo": ("R, normalised once in the group", "as `grpo`"),
    "centred": ("R − mean R in the group",),
    "gdpo": ("each reward in its group, then over σ", "as `gdpo`"),
    "gd2po": ("as `gdpo`, without responses whose rewards conflict",),
}
SPREADS = {
    "even": "1",
    "replay": "of each reward, from its replay",
    "shuffled": "of `mrtpo`, from another response of the group",
    "permuted": "of `mrtpo`, from another reward of the response",
    "entropy": "from the policy's entropy, one for all rewards",
    "cort": "from one replay without any information",
    "oracle": "of each reward, from spans that the task knows",
}


def test_the_page_lists_every_method_in_the_tables_order() -> None:
    assert tuple(page_rows()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_of_a_method_what_the_table_does(name: Any) -> None:
    own: Method = METHODS[name]
    credit, weights, loss, average, clips = page_rows()[name]
    credit, _, more = credit.partition("; ")
    assert credit in CREDITS[own.credit]
    assert bool(more) == bool(own.refill) == ("refilled" in more)
    assert weights == SPREADS[own.spread]
    assert (loss, average) == (own.loss, own.average)
    assert tuple(float(clip) for clip in clips.split(",")) == (own.clip_low, own.clip_high)


def test_the_page_explains_every_method() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = ", ".join(re.findall(r"^## (.*)$", text, re.M)).split(", ")
    for name in NAMES:
        assert name in headings or f"`{name}`: " in text, name
