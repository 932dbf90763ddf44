"""The sections of `params.yaml`; the string under a field says what it means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from mrtpo.benchmarks import BENCHMARKS
from mrtpo.config.names import (
    AverageName,
    Count,
    DistanceName,
    LossName,
    MethodName,
    NormaliseName,
    Positive,
    RecipeName,
    Share,
    SourceName,
)


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


class Data(Section):
    """What `prepare` reads."""

    source: SourceName = "synthetic"
    """Where prompts come from: generated here, or a public set; see docs/data.md."""
    path: str | None = None
    """The set's folder, one that holds it, or a hub id; null: `$MRTPO_DATA/<source>`, else
    `$MRTPO_DATA`. With `task: instruct` also a file."""
    revision: str | None = None
    """Commit, tag or branch of the hub id in `path`; needed with one."""
    databases_path: str | None = None
    """A further folder of databases, `<db_id>/<db_id>.sqlite`; it goes before the set's own."""
    databases: Annotated[int, Field(ge=12, le=400)] = 80
    """Databases to generate (synthetic)."""
    themes: Annotated[int, Field(ge=1, le=14)] = 6
    """Themes they are about (synthetic): with each come tables, columns and words to learn."""
    difficulty: Literal["easy", "medium", "hard", "mixed"] = "mixed"
    """How many decisions a reference makes (synthetic): 3 to 8, 9 to 13, 14 to 20, or all three in
    equal shares."""
    train_prompts: Count = 4000
    """Most prompts of the train split (the first n after a seeded shuffle)."""
    valid_prompts: Count = 200
    """Most prompts of the valid split."""
    test_prompts: Count = 400
    """Most prompts of the test split."""
    prompt: Literal["compact", "full", "chat"] = "compact"
    """`compact`: one line a table or tool, for small models; `full`: DDL, or tools as ToolRL shows
    them, and the format rule; `chat`: tools by the model's chat template (`task: tools`)."""
    mistyped: Literal["drop", "keep"] = "drop"
    """Rows of public tool-calling sets whose reference has a value of another type than its tool
    says, as "1" for an integer."""
    requests: Literal["all", "one_call"] = "all"
    """`one_call`: only requests that one call answers (`task: tools`, synthetic), which the small
    decoder can learn to get right."""
    fewest_constraints: Annotated[int, Field(ge=1, le=12)] = 4
    """Fewest constraints that a prompt gets (`task: instruct`: synthetic, composed)."""
    most_constraints: Annotated[int, Field(ge=1, le=12)] = 12
    """Most constraints that a prompt gets (`task: instruct`: synthetic, composed)."""
    lines: Annotated[int, Field(ge=2, le=24)] = 12
    """Numbered lines of an answer, of which each may have one constraint (`task: instruct`,
    synthetic)."""
    max_prompt_chars: Count = 6000
    """A longer prompt is reduced step by step, each counted (see docs/data.md); one that stays too
    long fails validation (synthetic) or is dropped and counted."""
    max_prompt_tokens: Count | None = None
    """The same in tokens of `model.path`, chat template included; it takes the place of
    `max_prompt_chars`."""
    sample_values: Annotated[int, Field(ge=0, le=10)] = 0
    """Example values shown for each column in the schema part of the prompt."""
    match_values: bool = False
    """Show values of the database that are alike to some part of the question."""


class Model(Section):
    """The policy. With `path` null a small decoder is built and trained by `warmstart`."""

    path: str | None = None
    """Hub id, local folder or GGUF file of a pretrained chat model; null builds the small one."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type that the model computes in. Weights that are trained are float32, and so is every
    log-softmax."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`, …"""
    vocab_size: Annotated[int, Field(ge=300)] = 1000
    """Small decoder: size of the byte-level BPE vocabulary."""
    hidden_size: Count = 128
    """Small decoder: width."""
    layers: Count = 4
    """Small decoder: number of layers."""
    heads: Count = 2
    """Small decoder: attention heads; must divide `hidden_size`."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Model:
        if self.hidden_size % self.heads or (self.hidden_size // self.heads) % 2:
            raise ValueError("hidden_size must be an even multiple of heads")
        return self


class Warmstart(Section):
    """Supervised start of the small decoder; ignored when `model.path` is set."""

    steps: Count = 1600
    """Optimiser steps."""
    batch_size: Count = 8
    """Demonstrations a step."""
    learning_rate: Positive = 3e-3
    """Peak rate, after a linear warm-up and before a cosine decay."""
    told: Share = 0.5
    """Chance of each information block to stand in a training prompt."""
    copying: Annotated[int, Field(ge=0)] | None = None
    """Steps before these in which a decoder that begins with heads for it learns to copy from its
    context (`mrtpo/induction.py`); 0: neither; null: the task's own."""
    noise: dict[str, Share] | None = None
    """Chance, by reward, that a demonstration errs in each thing it checks, such as each name in a
    query, when that is not told; null: the task's own."""


class Sampling(Section):
    """How the policy answers, in `rollout` and in training."""

    group_size: Annotated[int, Field(ge=2)] = 8
    """Responses for each prompt (G)."""
    temperature: Positive = 1.0
    """Sampling temperature; log-probabilities are kept at this temperature."""
    max_new_tokens: Count = 128
    """Longest response; one that does not end by itself counts as truncated."""


class ToolRewards(Section):
    """ToolRL's variants."""

    correctness: Literal["fine", "refined", "intermediate", "coarse"] = "fine"
    """What of a call counts: names, keys and values; the same with equal keys only; whole calls;
    or all calls together."""
    largest: Positive = 3.0
    """Correctness lies between −`largest` and `largest`; 1.0 is ToolRL's CORRECTMAX1."""
    length: bool = False
    """A third reward `length`: words of the thought over 512, at most 1 (WITHLENGTH)."""


# What a reward weighs in a recipe where `rewards.weights` does not say; 1 where neither does.
RECIPE_WEIGHTS: dict[str, dict[str, float]] = {
    "think2sql": {
        "cell_precision": 0.85 / 3, "cell_recall": 0.85 / 3, "tuple_cardinality": 0.85 / 3,
        "format": 0.10, "tag_count": 0.05, "execution": 0.0,
    }
}  # fmt: skip


class Rewards(Section):
    """How verifier results become rewards."""

    recipe: RecipeName = "default"
    """The set of rewards (text2sql): format, executability and execution of 0 or 1, or that of a
    publication; docs/verifiers.md has them."""
    weights: dict[str, float] = {}
    """λ_k by reward name; a reward that is not named weighs 1, or what its recipe says; weight 0
    makes it a metric."""
    requires: dict[str, str] = {}
    """Reward k counts only where the named reward reached its maximum; elsewhere it is 0."""
    on_timeout: Literal["missing", "zero"] = "missing"
    """A verifier that ran out of time: leave the reward out, or count it as 0."""
    tools: ToolRewards = ToolRewards()
    """Variants of ToolRL's rewards (`task: tools`)."""
    overlong: Annotated[int, Field(ge=0)] = 0
    """Tokens before `sampling.max_new_tokens` in which a reward `overlong` falls from 0 to −1
    (DAPO's soft overlong punishment); 0: no such reward."""

    def weight(self, name: str) -> float:
        """λ of a reward."""
        return self.weights.get(name, RECIPE_WEIGHTS.get(self.recipe, {}).get(name, 1.0))


class Verifier(Section):
    """Limits for model-written SQL."""

    seconds: Positive = 2.0
    """Time for one query; past it the status is `timeout`."""
    rows: Count = 10_000
    """Rows fetched at most; more is the status `refused`."""
    megabytes: Count = 512
    """Address space of a verifier process beyond its start."""
    sql_chars: Count = 20_000
    """Longer statements are refused unread."""
    processes: Count = 2
    """Verifier processes."""


class Rollout(Section):
    """The stage `rollout`: one file of verified groups from a checkpoint."""

    prompts: Count = 64
    """Prompts sampled."""
    split: Literal["train", "valid", "test"] = "train"
    """Which prompts."""


class Replay(Section):
    """Replay and token weights (read by `attribute` and by `train`)."""

    distance: DistanceName = "directional_contrast"
    """How far the two replays are apart at a token."""
    floor: Annotated[float, Field(ge=0.0)] = 0.05
    """δ, in the distance's unit: where the replay finds less, weights tend to 1."""
    normalise: NormaliseName = "max"
    """`mean`: Σw=T; `max`: w=d/max d; `l2`: Σw²=T."""
    scale: Literal["response", "group", "balanced"] = "balanced"
    """Over what weights are normalised. `response`: each by itself. `group`: all answers to a
    prompt, so that a distance weighs the same in those that pass and in those that fail.
    `balanced` (with `max`): tokens without a distance weigh the same in all of them, and the
    largest distance of each weighs 1."""
    mix_start: Share = 1.0
    """λ at the first step in `(1−λ) + λ·w`."""
    mix_end: Share = 0.0
    """λ at the last step; linear in between."""
    cap: Annotated[float, Field(gt=1.0)] | None = None
    """Largest weight; the excess is spread evenly. Null: none."""
    pool: Literal["none", "word", "lexeme"] = "none"
    """Tokens of a word, or of a lexical unit of SQL or JSON, share their mean distance."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Distances of distributions over the k likeliest tokens, the emitted one and the rest as one;
    null: over the whole vocabulary."""
    contexts: Literal["leave_one_out", "add_one_in"] = "add_one_in"
    """All information against all but one reward's, or one reward's against none."""
    policy: Literal["current", "start", "ema"] = "current"
    """Who replays: the policy that sampled, the frozen start, or an average of its weights."""
    ema: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.99
    """Share of the old average that a step keeps (`policy: ema`)."""
    max_rewards: Count | None = None
    """At most so many rewards of a response are replayed, drawn by seed; null: all."""
    variants: dict[str, str] = {}
    """Which information text a reward is replayed with, e.g. `{executability: schema}`."""
    gain_every: Annotated[int, Field(ge=0)] = 20
    """Steps between checks that the policy can use its information; the first is before training.
    0: never."""
    gain_prompts: Count = 16
    """Prompts of the valid split in such a check."""
    gain_samples: Count = 4
    """Responses sampled for each of them under each context."""
    cort_strength: Annotated[float, Field(ge=0.0)] = 1.0
    """η of `method: cort`."""
    cort_sharpness: Positive = 1.0
    """τ of `method: cort`, per nat."""
    cort_offset: float = 0.0
    """b of `method: cort`, in nats."""

    @model_validator(mode="after")
    def _balanced_by_the_largest(self) -> Replay:
        if self.scale == "balanced" and self.normalise != "max":
            raise ValueError(
                f"scale: balanced needs normalise: max, not {self.normalise}; choose scale: group "
                "or response with it"
            )
        return self


class Train(Section):
    """The RL loop."""

    method: MethodName = "mrtpo"
    """How rewards become token advantages."""
    steps: Count = 60
    """Policy updates."""
    prompts_per_step: Count = 8
    """Distinct prompts in one batch (B)."""
    learning_rate: Positive = 3e-4
    """AdamW's rate, constant after the warm-up."""
    warmup_steps: Annotated[int, Field(ge=0)] = 3
    """Linear warm-up."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """AdamW's weight decay."""
    loss: LossName | None = None
    """The policy loss; null: the method's own."""
    average: AverageName | None = None
    """How token losses are averaged: over all tokens, within each response first, or by
    `sampling.max_new_tokens`; null: the method's own."""
    clip_low: Share | None = None
    """ε_l of the loss; null: the method's own, mostly 0.2."""
    clip_high: Annotated[float, Field(gt=0.0)] | None = None
    """ε_h of the loss; null: the method's own, mostly 0.2."""
    refill: Annotated[int, Field(ge=0)] | None = None
    """Rounds of sampling further prompts for groups in which every reward is constant (DAPO's
    dynamic sampling); null: the method's own, mostly 0."""
    conflict: Literal["soft", "hard"] = "soft"
    """`method: gd2po`: drop responses whose rewards mostly cancel, or whose signs differ at all."""
    conflict_threshold: Share = 0.8
    """`method: gd2po`, soft: dropped where abs Σ A_k / Σ abs A_k is smaller."""
    kl: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL to the starting policy (k3 estimator); 0 loads no reference."""
    epochs: Count = 1
    """Passes over a batch before the next is sampled."""
    max_grad_norm: Positive = 1.0
    """Gradient norm is clipped to this."""
    micro_batch_tokens: Count = 8192
    """Padded tokens in one forward and backward pass."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time; contexts are then not
    shared in the update."""
    processes: Count = 1
    """Data parallel processes, one a device; the numbers do not depend on it."""
    evaluate_every: Count = 20
    """Steps between evaluations on the valid split (always at 0 and at the end)."""
    evaluate_prompts: Count = 128
    """Prompts of such an evaluation (greedy, and one sample each)."""
    checkpoint_every: Count = 10
    """Steps between resumable checkpoints."""
    best_metric: str | None = None
    """What picks the best checkpoint: a reward or metric, greedy, or `sampled/` and its name; null:
    the task's own."""
    best_mode: Literal["max", "min"] = "max"
    """Whether more or less of it is better."""
    max_bad_steps: Count = 5
    """Consecutive non-finite steps after which the run stops."""


class Evaluate(Section):
    """The stage `evaluate`: the best checkpoint on the test split, greedy."""

    split: Literal["valid", "test"] = "test"
    """Which prompts."""
    prompts: Count = 400
    """Most prompts evaluated."""
    batch_size: Count = 64
    """Prompts decoded together."""


class Benchmark(Section):
    """The stage `benchmark`: the best checkpoint on public sets."""

    names: list[str] = []
    """Which, as `python -m mrtpo score --help` lists them; empty: the stage does nothing."""
    path: str | None = None
    """Folder that holds each by its name; null means `$MRTPO_DATA`."""
    databases: str | None = None
    """Folder of databases, where they are not beside the questions."""
    tools: Literal["bfcl", "compact", "full", "chat"] = "bfcl"
    """How a policy is shown the functions of BFCL: by BFCL's own prompt, as `data.prompt` of these
    names shows tools, or by the model's chat template, which then says how calls are written."""
    limit: Count | None = None
    """Only so many questions of each, drawn by the seed; null: all."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Sampled answers beside the greedy one, for a majority vote."""
    seconds: Positive = 30.0
    """Time for one query; BIRD's scorer allows as much."""
    rows: Count = 100_000
    """Rows fetched at most. The other limits are those of `verifier`."""

    @field_validator("names")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        if unknown := [name for name in names if name not in BENCHMARKS]:
            raise ValueError(f"unknown: {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}")
        return names


class Report(Section):
    """The stages `explore` and `report`."""

    examples: Count = 6
    """Responses shown as heat maps."""

    responses: Count = 512
    """Responses in the explorer, at most."""


class Tracking(Section):
    """MLflow."""

    uri: str | None = None
    """Tracking URI; null means `$MLFLOW_TRACKING_URI`, else `sqlite:///mlflow.db`."""
    experiment: str = "mrtpo"
    """Experiment that runs are filed under."""
