"""Several processes against one: the same numbers, and no process waits for one that is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import parallel_cases as cases
import pytest
import torch

from mrtpo import checkpoint
from mrtpo.parallel import Ranks

TESTS = Path(__file__).parent


def launch(arguments: list[str], seconds: float = 240.0) -> subprocess.CompletedProcess[str]:
    """Two processes on CPUs, one thread each."""
    path = [str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1",
                    "ACCELERATE_USE_CPU": "true"}  # fmt: skip
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
               "2", *arguments]  # fmt: skip
    return subprocess.run(command, env=surroundings, capture_output=True, text=True,
                          timeout=seconds)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have gone through all cases; first, one process began a run for them."""
    made = tmp_path_factory.mktemp("parallel")
    cases.half_a_run(made / "half by one")
    done = launch([str(TESTS / "parallel_cases.py"), str(made)])
    assert done.returncode == 0, done.stderr[-4000:]
    return made


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict[str, Any]]:
    return [torch.load(folder / f"rank-{n}.pt", weights_only=False) for n in range(2)]


def assert_near(made: Any, expected: Any, where: str = "") -> None:
    """Equal, but for numbers, which may differ by rounding."""
    if isinstance(expected, dict):
        assert made.keys() == expected.keys(), where
        for key in expected:
            assert_near(made[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(made) == len(expected), where
        for n, (one, other) in enumerate(zip(made, expected, strict=True)):
            assert_near(one, other, f"{where}/{n}")
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(made, expected, rtol=1e-6, atol=1e-6, msg=where)
    elif "/replay/null/" in where:  # is rounding itself
        assert 0 <= made < 1e-5, where
    elif isinstance(expected, float):
        # Weights divide by what a replay found, so that rounding counts for more in these.
        assert made == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True), where
    else:
        assert made == expected, where


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_shares_cover_everything_in_order_and_differ_by_one_at_most(count: int) -> None:
    ranks = [Ranks() for _ in range(count)]
    for own, one in enumerate(ranks):
        one.own, one.count = own, count
    assert [one.main for one in ranks] == [own == 0 for own in range(count)]
    for total in range(25):
        things = list(range(total))
        shares = [things[one.share(total)] for one in ranks]
        assert [thing for share in shares for thing in share] == things
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_one_process_gathers_and_shares_what_it_has() -> None:
    ranks = Ranks()
    assert (ranks.count, ranks.own, ranks.main) == (1, 0, True)
    assert ranks.gather([3, 1]) == [3, 1] and ranks.same("x") == "x"
    assert ranks.share(4) == slice(0, 4)
    weight = torch.nn.Parameter(torch.ones(2))
    ranks.sum_gradients([weight])
    assert weight.grad is None


def test_two_processes_know_each_other(ranks: list[dict[str, Any]]) -> None:
    first, second = (one["ranks"] for one in ranks)
    assert (first["own"], second["own"]) == (0, 1)
    assert (first["main"], second["main"]) == (True, False)
    assert first["gathered"] == second["gathered"] == [1]  # one list is empty
    assert first["same"] == second["same"] == {"of": 0}
    assert (first["share"], second["share"]) == (slice(0, 1), slice(1, 3))


@pytest.mark.parametrize("name", cases.TRAINED)
def test_two_processes_do_what_one_does(
    ranks: list[dict[str, Any]], tmp_path: Path, name: str
) -> None:
    alone = cases.trained(tmp_path, name)
    shared = [one[name] for one in ranks]
    rows = alone.pop("own")
    parts = [one.pop("own") for one in shared]
    assert sum(parts) == rows and min(parts) == rows // 3  # of three groups, one and two
    policy, other = (one.pop("policy") for one in shared)
    assert torch.equal(policy, other)
    assert_near(policy, alone.pop("policy"), "policy")
    for one in shared:
        assert_near(one, alone)
    start = cases.weights(cases.fresh(tmp_path, {}))
    assert float((policy - start).abs().max()) > 1e-3
    if name == "refill":
        assert max(row["groups/sampled"] for row in alone["metrics"]) > 3
    if name == "gain":  # what is decided is the same to the bit
        gains = [
            [{k: v for k, v in row.items() if k.startswith("gain/")} for row in one["metrics"]]
            for one in shared
        ]
        assert gains[0] == gains[1] and all("gain/plain/trusted" in row for row in gains[0])


def test_an_evaluation_is_that_of_one_process(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    alone = cases.evaluated(tmp_path)
    for one in ranks:
        assert_near(one["evaluated"], alone)


def test_a_gradient_that_is_not_finite_in_one_process_is_skipped_and_stops_in_both(
    ranks: list[dict[str, Any]],
) -> None:
    for one in ranks:
        assert one["broken"] == {
            "skipped": 1.0, "bad_steps": 1, "still": True,
            "said": "2 updates in a row were not finite (step 1)",
        }  # fmt: skip


def test_a_checkpoint_is_written_once_and_resumed_by_one_process_to_the_same(
    folder: Path, ranks: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert [one["half"] for one in ranks] == [
        {"written": [0, 2], "step": 2}, {"written": [], "step": 2},
    ]  # fmt: skip
    state = folder / "half by two"
    assert [p.name for p in checkpoint.completed(state)] == ["step-000000", "step-000002"]
    assert len(list(state.glob("best-*"))) == 1 and not list(state.glob(".*"))
    rest = cases.rest_of_a_run(state)
    whole = cases.rest_of_a_run(tmp_path)
    assert (rest.pop("resumed"), whole.pop("resumed")) == (2, False)
    assert_near(rest, whole)
    for one in ranks:  # and the other way round: begun by one, ended by two
        assert one["rest"].pop("resumed") == 2
        assert_near(one["rest"], whole)


FAILING = """
from mrtpo.parallel import Ranks
ranks = Ranks()
assert ranks.count == 2
if not ranks.main:
    raise ValueError("this one has had enough")
ranks.gather([1])
ranks.wait()
"""


def test_a_process_that_fails_does_not_leave_the_other_waiting(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    started = time.monotonic()
    done = launch(["--monitor-interval", "0.1", str(script)])
    assert done.returncode != 0 and "this one has had enough" in done.stderr
    assert time.monotonic() - started < 60
