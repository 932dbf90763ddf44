"""Where a reward's credit goes inside a response, for baselines and controls.

`attribution` places credit by what a replay finds. Here is what it is compared with: the same
weights in a wrong place (`shuffled`, `permuted`), weights of one scalar replay (`cort_weights`) or
of the policy's own doubt (`entropy`), and distances pooled over words or lexical units. No gradient
flows through anything here. Rows are padded on the right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

WORD = re.compile(r"\w+|[^\w\s]+")

# After a repeated group nothing can fail, so none is gone back into, and what is scanned in vain is
# at most one name after a `<`: the time is linear in the text. No group is possessive: before
# Python 3.11.5 such a group keeps part of a failed match (gh-106052).
LEXEME = re.compile(
    r"""
      </?[^\W\d][\w-]*+/?>                           # a tag
    | '(?:[^'\\\n]|''|\\[^\n]?)*'?                   # strings: closed, or up to the line's end
    | "(?:[^"\\\n]|""|\\[^\n]?)*"?
    | `(?:[^`\\\n]|``|\\[^\n]?)*`?
    | (?:\d++(?:\.\d++)?|\.\d++)(?:[eE][+-]?\d++)?   # a number
    | [^\W\d]\w*+                                    # a name or keyword
    | ->>|->|>=|<=|<>|!=|==|\|\||::                  # operators of several characters
    | \S
    """,
    re.VERBOSE,
)


def shuffled(weights_BKT: Tensor, live_BK: Tensor, group_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Control `mrtpo_shuffled`: each reward of a row is placed as in another answer to its prompt.

    A live pair (b, k) takes the weights of the next row of its group, cyclically, whose pair with k
    is live, stretched to its own length (token t reads ⌊t·T_other/T⌋) and scaled to its own Σ_t w.
    A live pair with no such row is spread evenly. Pairs that are not live stay as they are.
    """
    rows, count, longest = weights_BKT.shape
    length_B = mask_BT.bool().sum(1)
    usable_KB = (live_BK & (length_B > 0)[:, None]).T.tolist()
    groups: dict[int, list[int]] = {}
    for b, group in enumerate(group_B.tolist()):
        groups.setdefault(group, []).append(b)
    other_KB = [list(range(rows)) for _ in range(count)]
    for k, usable_B in enumerate(usable_KB):
        for members in groups.values():
            _next_of([b for b in members if usable_B[b]], other_KB[k])
    other_BK = torch.tensor(other_KB, device=weights_BKT.device).reshape(count, rows).T
    t_T = torch.arange(longest, device=weights_BKT.device)
    k_K1 = torch.arange(count, device=weights_BKT.device)[:, None]
    at_BKT = t_T * length_B[other_BK][..., None] // length_B.clamp(min=1)[:, None, None]
    placed_BKT = weights_BKT[other_BK[..., None], k_K1, at_BKT.clamp(max=longest - 1)]
    alone_BK = other_BK == torch.arange(rows, device=weights_BKT.device)[:, None]
    return _placed_as(placed_BKT, alone_BK, weights_BKT, live_BK, mask_BT)


def permuted(weights_BKT: Tensor, live_BK: Tensor, mask_BT: Tensor) -> Tensor:
    """Control `mrtpo_permuted`: each reward of a row is placed as another reward of that row.

    A live pair (b, k) takes the weights of the row's next live reward, cyclically, scaled to its
    own Σ_t w; the only live reward of a row is spread evenly. Pairs that are not live stay as they
    are.
    """
    count = weights_BKT.shape[1]
    other = [list(range(count)) for _ in live_BK]
    for live_K, other_K in zip(live_BK.tolist(), other, strict=True):
        _next_of([k for k in range(count) if live_K[k]], other_K)
    other_BK = torch.tensor(other, device=weights_BKT.device).reshape(-1, count)
    placed_BKT = weights_BKT.gather(1, other_BK[..., None].expand_as(weights_BKT))
    alone_BK = other_BK == torch.arange(count, device=weights_BKT.device)
    return _placed_as(placed_BKT, alone_BK, weights_BKT, live_BK, mask_BT)


def _next_of(members: list[int], other: list[int]) -> None:
    """Write the cyclic successor of each member to its place in `other`."""
    for member, successor in zip(members, members[1:] + members[:1], strict=True):
        other[member] = successor


def _placed_as(
    placed_BKT: Tensor, alone_BK: Tensor, weights_BKT: Tensor, live_BK: Tensor, mask_BT: Tensor
) -> Tensor:
    """Live pairs with another placement but their own Σ_t w; even where the placement is empty."""
    real_BKT = mask_BT.bool()[:, None].expand_as(weights_BKT)
    zero_BKT = torch.zeros_like(weights_BKT)
    even_BKT = real_BKT.to(weights_BKT.dtype)
    placed_BKT = torch.where(real_BKT & ~alone_BK[..., None], placed_BKT, zero_BKT)
    empty_BK1 = placed_BKT.sum(2, keepdim=True) <= 0
    placed_BKT = torch.where(empty_BK1, even_BKT, placed_BKT)
    total_BK1 = placed_BKT.sum(2, keepdim=True)
    mass_BK1 = torch.where(real_BKT, weights_BKT, zero_BKT).sum(2, keepdim=True)
    share_BKT = placed_BKT / torch.where(total_BK1 > 0, total_BK1, torch.ones_like(total_BK1))
    return torch.where(live_BK[..., None], share_BKT * mass_BK1, weights_BKT)


def cort_weights(
    delta_BT: Tensor, mask_BT: Tensor, *, strength: float, sharpness: float, offset: float
) -> Tensor:
    """CoRT (arXiv 2607.25659): `w = 1 + η·s`, s = σ(τ(Δ − b)) − ½, over its mean in the row.

    η is the strength, τ the sharpness, b the offset. Padding gets 0. s lies in [−½, ½], so a
    strength up to 2 keeps weights from falling below 0; a row in which all are 0 has weights 1.
    """
    real_BT = mask_BT.bool()
    score_BT = torch.sigmoid(sharpness * (delta_BT - offset)) - 0.5
    raised_BT = torch.where(real_BT, 1.0 + strength * score_BT, torch.zeros_like(delta_BT))
    even_BT = real_BT.to(delta_BT.dtype)
    raised_BT = torch.where(raised_BT.sum(1, keepdim=True) > 0, raised_BT, even_BT)
    mean_B1 = raised_BT.sum(1, keepdim=True) / even_BT.sum(1, keepdim=True).clamp(min=1)
    return raised_BT / torch.where(mean_B1 > 0, mean_B1, torch.ones_like(mean_B1))


def entropy(logps_NV: Tensor) -> Tensor:
    """Entropy of log-distributions in nats; a token of probability 0 adds nothing. Shape N."""
    p_NV = logps_NV.exp()
    return -torch.where(p_NV > 0, p_NV * logps_NV, torch.zeros_like(p_NV)).sum(-1)


def words(pieces: Sequence[str]) -> list[int]:
    """Number of the word that each token belongs to, in the text that the pieces make together.

    Words are runs of letters, digits and `_`, and runs of other characters that are no space. A
    token belongs where its first non-space character lies, and white space to the word after it;
    so does a piece without text, as of a token that holds a part of a character. What follows the
    last word, such as an end token without text, makes one more.
    """
    return _units(pieces, WORD)


def lexemes(pieces: Sequence[str]) -> list[int]:
    """Number of the lexical unit of SQL, JSON or a tag that each token belongs to.

    Units are strings in any quotes, numbers, names, operators such as `>=`, tags such as
    `</answer>`, and other characters one by one. A quote is escaped by doubling it or by a
    backslash; a string that is not closed on its line ends with the line. Tokens are placed as by
    `words`.
    """
    return _units(pieces, LEXEME)


def _units(pieces: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    text = "".join(pieces)
    ends = [match.end() for match in pattern.finditer(text)]
    numbers: list[int] = []
    start = at = unit = 0
    for piece in pieces:
        at = max(at, start)
        while at < len(text) and text[at].isspace():
            at += 1
        while unit < len(ends) and ends[unit] <= at:
            unit += 1
        numbers.append(unit)
        start += len(piece)
    return numbers


def pooled(distance_BT: Tensor, unit_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean distance of its unit for every token, so that a row's sum stays; 0 on padding.

    `unit_BT` numbers the units of each row from 0; what stands on padding has no influence.
    """
    real_BT = mask_BT.bool()
    if not real_BT.any():
        return torch.zeros_like(distance_BT)
    unit_BT = torch.where(real_BT, unit_BT, torch.zeros_like(unit_BT)).long()
    distance_BT = torch.where(real_BT, distance_BT, torch.zeros_like(distance_BT))
    zeros_BU = distance_BT.new_zeros(len(unit_BT), int(unit_BT.max()) + 1)
    sum_BU = zeros_BU.scatter_add(1, unit_BT, distance_BT)
    count_BU = zeros_BU.scatter_add(1, unit_BT, real_BT.to(distance_BT.dtype))
    mean_BU = sum_BU / count_BU.clamp(min=1)
    return torch.where(real_BT, mean_BU.gather(1, unit_BT), torch.zeros_like(distance_BT))
