"""Words and types that settings are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

TaskName = Literal["text2sql", "tools", "instruct"]
SourceName = Literal[
    "synthetic",
    "spider",
    "spider_syn",
    "spider_dk",
    "spider_realistic",
    "bird",
    "ehrsql",
    "sciencebenchmark",
    "synsql",
    "rlla",
    "toolace",
    "xlam",
    "hammer",
    "apibank",
    "bfcl",
    "if_rlvr",
    "muldimif",
    "recast",
    "hir",
    "composed",
]
TOOL_SOURCES = ("rlla", "toolace", "xlam", "hammer", "apibank", "bfcl")
INSTRUCT_SOURCES = ("if_rlvr", "muldimif", "recast", "hir", "composed")
MethodName = Literal[
    "grpo",
    "grpo_no_std",
    "dr_grpo",
    "dapo",
    "gspo",
    "cispo",
    "gdpo",
    "gd2po",
    "mrtpo",
    "mrtpo_shuffled",
    "mrtpo_permuted",
    "entropy",
    "cort",
    "oracle",
]
RecipeName = Literal["default", "sql_r1", "arctic", "think2sql"]
LossName = Literal["clipped", "gspo", "cispo"]
AverageName = Literal["tokens", "responses", "constant"]
DistanceName = Literal[
    "js",
    "kl",
    "reverse_kl",
    "tv",
    "hellinger",
    "abs_logprob",
    "contrast",
    "directional_logprob",
    "directional_contrast",
    "directional_js",
]
NormaliseName = Literal["mean", "max", "l2"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]
