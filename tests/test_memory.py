"""No tensor of all tokens and the whole vocabulary: in training, in replays, in entropies.

Operations are watched for the largest tensor that any makes. What is kept alive from one to the
next only shows in a process's memory, which is measured with a vocabulary of real size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import number_policy, rollout, tiny_settings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mrtpo import logprobs, placement, replay
from mrtpo.contexts import Pair, Plan
from mrtpo.logprobs import response_logps
from mrtpo.placement import entropies
from mrtpo.policy import Policy
from mrtpo.records import Rollout
from mrtpo.replay import Distance, measure

CHUNKED = (logprobs, replay, placement)


def answers(vocab: int, rows: int, tokens: int) -> list[Rollout]:
    return [
        rollout([(7 * b + 11 * t) % vocab for t in range(tokens)], prompt_ids=(1, 2, 3))
        for b in range(rows)
    ]


def train(policy: Policy, rollouts: Sequence[Rollout]) -> None:
    logps_BT, _ = response_logps(
        policy, [(1, 2, 3)], [r.response_ids for r in rollouts], [0] * len(rollouts), 0.7
    )
    logps_BT.sum().backward()
    policy.model.zero_grad()


def replayed(name: str, top_k: int | None = None) -> Callable[[Policy, Sequence[Rollout]], None]:
    def run(policy: Policy, rollouts: Sequence[Rollout]) -> None:
        half = rollouts[: len(rollouts) // 2]
        pairs = [Pair(b, 0, (1, 2, 3, 4), (1, 2, 5)) for b in range(len(half))]
        made = measure(
            policy, half, Plan(pairs, {}), 1, Distance(name, top_k), temperature=0.7,
            token_budget=1 << 20,
        )  # fmt: skip
        assert float(made.distance_BKT.max()) > 0

    return run


def doubts(policy: Policy, rollouts: Sequence[Rollout]) -> None:
    settings = tiny_settings({"train": {"micro_batch_tokens": 1 << 20}})
    assert float(entropies(policy, rollouts, settings).max()) > 0


WORK = {
    "train": train, "replay": replayed("abs_logprob"), "replay of distributions": replayed("js"),
    "coarse replay": replayed("kl", 20), "entropies": doubts,
}  # fmt: skip
MEASURED = {name: work for name, work in WORK.items() if "coarse" not in name}  # it takes longest


class Largest(TorchDispatchMode):
    """The largest memory, in float32 numbers, that the result of any operation stands in."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().nbytes() // 4)
        return made


@pytest.mark.parametrize("name", WORK)
def test_no_operation_makes_a_tensor_of_all_tokens_and_words(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocab, rows, tokens, chunk = 3000, 8, 40, 1 << 16
    policy, rollouts = number_policy(vocab=vocab, std=0.1), answers(vocab, rows, tokens)
    scored = rows * tokens * vocab  # rows of a replay are answers under two contexts
    largest = {}
    for size in (chunk, 1 << 40):
        for module in CHUNKED:
            monkeypatch.setattr(module, "CHUNK_LOGITS", size)
        with Largest() as seen:
            WORK[name](policy, rollouts)
        largest[size] = seen.numbers
    assert chunk / 3 < largest[chunk] <= chunk
    # Unless it is allowed to, when distributions are compared row by row: half of a pair's rows.
    assert largest[1 << 40] >= (tokens * vocab if "distr" in name or "coarse" in name else scored)
    assert 10 * chunk < scored


def test_the_backward_pass_alone_makes_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    vocab, chunk = 3000, 1 << 16
    policy, rollouts = number_policy(vocab=vocab, std=0.1), answers(vocab, 8, 40)
    responses = [r.response_ids for r in rollouts]
    largest = {}
    for size in (chunk, 1 << 40):
        monkeypatch.setattr(logprobs, "CHUNK_LOGITS", size)
        logps_BT, _ = response_logps(policy, [(1, 2, 3)], responses, [0] * 8, 0.7)
        with Largest() as seen:
            logps_BT.sum().backward()
        largest[size] = seen.numbers
    assert largest[chunk] <= chunk
    assert largest[1 << 40] >= 8 * 40 * vocab


def peak(work: Callable[[], None]) -> float:
    """By how many MiB this process grew while it worked, at most."""

    def megabytes(field: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(x.split()[1]) / 1024 for x in lines if x.startswith(field + ":"))

    Path("/proc/self/clear_refs").write_text("5")  # the peak is what is held now
    before = megabytes("VmRSS")
    work()
    return megabytes("VmHWM") - before


def main() -> None:
    vocab, rows, tokens = 150_000, 16, 64
    policy, rollouts = (
        number_policy(vocab=vocab, std=0.05, positions=128),
        answers(vocab, rows, tokens),
    )
    found = {}
    for name, work in MEASURED.items():
        work(policy, rollouts[:2])
        found[name] = peak(lambda work=work: work(policy, rollouts))  # type: ignore[misc]
    logprobs.CHUNK_LOGITS = 1 << 40
    found["whole"] = peak(lambda: train(policy, rollouts))
    print(json.dumps(found))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_a_process_never_holds_all_tokens_and_words_of_a_large_vocabulary() -> None:
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
             # What is freed goes back to the system at once, and is not measured again.
             "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    whole = 16 * 64 * 150_000 * 4 / 2**20
    assert found.pop("whole") > 0.95 * whole  # so it would be seen
    assert set(found) == set(MEASURED)
    for name, grown in found.items():
        assert grown < 0.6 * whole, (name, grown)


if __name__ == "__main__":
    main()
