"""Copying from the context: weights to begin with, and sequences to learn it from.

A policy must repeat names and values that stand in its prompt, and replay needs one that uses what
it is told. Both are copying: find where the last tokens stood before, and repeat what followed.
Gradient descent finds the circuit for it late (measured, 0.9 M parameters, batches of 32 sequences:
after 500 steps 5.6 of 6.6 nats a token are left), and a supervised start of some minutes ends
before that. With weights in which it is there, weakly, 200 steps leave 0.2 nats, after which
demonstrations use it at once:

    embeddings   a constant | the token, random | two empty parts
    layer 0      two heads look one and two places back, by the constant alone, and write a
                 projection P of the token there into the empty parts
    layer 1      two heads ask for places behind the same two tokens: P of their own token for the
                 first part, their first part for the second; they add the token of these places

Two tokens, because one says little in JSON or SQL: every value stands behind `": "`.

Positions are rotary, so looking back uses quick angles and matching slow ones, and the base must be
large enough for some (`THETA`). All weights are trained; nothing is held.

Source of the circuit: Elhage et al. 2021, Olsson et al. 2022 (arXiv 2209.11895).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

THETA = 1e6  # base of the rotary angles
FAR = 150.0  # places over which matching must hold
QUICK = 0.05  # least angle, in radians a place, that tells places apart
TOKEN, CONSTANT = 0.02, 0.1  # sizes in the embedding
NEXT = 4.0  # logits between the place looked for and the one beside it
MATCH = 8.0  # and between a place behind the same token and behind another
MARKS = 0.3  # share of tokens that stand several times in a sequence
CARRY, COPY = 0.03, 0.06  # what the heads write, in units of what they read


def repeating(known: int, rows: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """Random ids of tokens below `known`, whose end repeats a part of them, and from where the
    repetition can be foretold.

    A third of the tokens are one of four of their sequence, as marks between values are, so that
    the token before alone does not say what follows.
    """

    def drawn(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    skipped, length, between = (int(drawn(a, b, 1)) for a, b in ((0, 24), (6, 33), (1, 24)))
    size = (rows, skipped + length + between)
    ids_BL = drawn(0, known, *size)
    marks_BL = drawn(0, known, rows, 4).gather(1, drawn(0, 4, *size))
    ids_BL = torch.where(torch.rand(size, generator=generator) < MARKS, marks_BL, ids_BL)
    repeated_BL = ids_BL[:, skipped : skipped + length]
    return torch.cat([ids_BL, repeated_BL], 1), size[1] + 2


@torch.no_grad()
def look_back(model: Any, seed: int) -> None:
    """Write the circuit into the first two layers of a fresh Llama.

    Raises ValueError if it has fewer than two layers or heads, or too narrow ones.
    """
    config = model.config
    width, heads = config.hidden_size, config.num_attention_heads
    head = width // heads
    half = head // 2
    angles = [THETA ** (-at / half) for at in range(half)]
    slow = [at for at, angle in enumerate(angles) if angle * FAR < 1]
    places = [*slow, *(at + half for at in slow)]
    part = len(places) // 2  # dimensions to know a token by
    if heads < 2 or config.num_hidden_layers < 2 or part < 4:
        raise ValueError(
            "warmstart.copying needs two layers, two heads, and heads of width 16; 0 does without"
        )
    own = slice(1, width - 2 * part)
    parts = [slice(own.stop, own.stop + part), slice(own.stop + part, width)]
    generator = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(own.stop - 1, own.stop - 1, generator=generator))
    first, second = (layer.self_attn for layer in model.model.layers[:2])

    table = model.model.embed_tokens.weight
    size = TOKEN * math.sqrt(len(basis))  # the same for all, so that the constant stays one
    table[:, own] *= size / table[:, own].norm(dim=1, keepdim=True).clamp_min(1e-9)
    table[:, 0] = CONSTANT
    table[:, own.stop :] = 0
    constant = CONSTANT / math.sqrt((CONSTANT**2 + len(basis) * TOKEN**2) / width)  # normed

    fast = [at for at, angle in enumerate(angles) if angle > QUICK]
    sharpness = NEXT / sum(1 - math.cos(angles[at]) for at in fast)
    size = math.sqrt(sharpness * math.sqrt(head)) / constant
    for number, empty in enumerate(parts):
        rows = _cleared(first, number, head)
        for at in fast:  # rotated by `number + 1` places back, a query is its key
            angle = angles[at] * (number + 1)
            first.k_proj.weight[rows.start + at, 0] = size
            first.q_proj.weight[rows.start + at, 0] = size * math.cos(angle)
            first.q_proj.weight[rows.start + at + half, 0] = -size * math.sin(angle)
        first.v_proj.weight[rows.start : rows.start + part, own] = basis[:part]
        first.o_proj.weight[empty, rows.start : rows.start + part] = CARRY * torch.eye(part)

    size = math.sqrt(MATCH * math.sqrt(head) / part)
    for number in range(2):
        rows = _cleared(second, number, head)
        for n, at in enumerate(places[:part]):
            second.q_proj.weight[rows.start + at, own] = size * basis[n]
            second.k_proj.weight[rows.start + at, parts[0].start + n] = size
        for n, at in enumerate(places[part : 2 * part]):
            second.q_proj.weight[rows.start + at, parts[0].start + n] = size
            second.k_proj.weight[rows.start + at, parts[1].start + n] = size
        copied = basis[number * head : (number + 1) * head]
        some = slice(rows.start, rows.start + len(copied))
        second.v_proj.weight[some, own] = copied
        second.o_proj.weight[own, some] = COPY * copied.T


def _cleared(attention: Any, number: int, head: int) -> slice:
    """The rows of one head, after all its weights were set to 0."""
    rows = slice(number * head, (number + 1) * head)
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight[rows] = 0
    attention.o_proj.weight[:, rows] = 0
    return rows
