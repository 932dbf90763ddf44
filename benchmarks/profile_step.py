"""Where a step's time goes: operators by their own CPU time, for one case and contender of `step`.

    python -m benchmarks.profile_step 4.2M-96 gdpo

One thread; needs nothing of TRL.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.fixture import save_model
from benchmarks.step import CASES, GROUP, PROMPTS, RESPONSE
from benchmarks.step_worker import OURS, our_trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("contender", choices=OURS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size, tokens = CASES[options.case]
    with tempfile.TemporaryDirectory() as folder:
        save_model(size, Path(folder) / "model")
        trainer = our_trainer(
            options.contender, Path(folder) / "model", Path(folder), tokens=tokens, group=GROUP,
            prompts=PROMPTS, response=RESPONSE,
        )  # fmt: skip
        trainer.one_step()
        trainer.step += 1
        with profile(activities=[ProfilerActivity.CPU]) as found, record_function("step"):
            trainer.one_step()
    events = found.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    for event in sorted(events, key=lambda event: -event.self_cpu_time_total)[:15]:
        share = event.self_cpu_time_total / total
        print(f"{event.key:50} {event.self_cpu_time_total / 1000:8.0f} ms {share:6.1%}")
    print(f"{'all':50} {total / 1000:8.0f} ms")


if __name__ == "__main__":
    main()
