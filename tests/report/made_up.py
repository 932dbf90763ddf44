"""Made-up results of a small text-to-SQL job, as the stages write them."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pandas as pd

from mrtpo.runs import PastRun, curve_metric

REWARDS = ("format", "executability", "execution")
RESPONSE = """<think>
Which singers are older than 30, with their phone number, sorted by name?
singer has name, age, phone; concert has year, stadium_id.
</think>
<answer>
```sql
SELECT T1.name, T1.telefone, count(*) FROM singer AS T1 JOIN performance AS T2 \
ON T1.singer_id = T2.singer_id WHERE T1.age >= 30 GROUP BY T1.name ORDER BY T1.name ASC LIMIT 5
```
</answer><|im_end|>"""
QUERIES = {
    "selection": (
        "SELECT name FROM singer WHERE age > 30",
        "SELECT name FROM singer WHERE age >= 30",
    ),
    "aggregate": ("SELECT max(capacity) FROM stadium", "SELECT max(seats) FROM stadium"),
    "join": (
        "SELECT T1.name FROM singer AS T1 JOIN concert AS T2 ON T1.id = T2.singer_id",
        "SELECT T1.name FROM singer AS T1 JOIN concert AS T2 ON T1.id = T2.id",
    ),
    "nested": (
        "SELECT name FROM singer WHERE age > (SELECT avg(age) FROM singer)",
        "SELECT name FROM singer WHERE age > avg(age)",
    ),
}  # fmt: skip


def tokens_of(text: str) -> list[str]:
    return re.findall(r"<\|?/?\w+\|?>|```(?:sql)?|\n|[ ]?\w{1,6}|[ ]?[^\w\s]+|\s", text)


def parts_of(tokens: list[str]) -> list[str]:
    """Rough parts: enough for figures."""
    clauses = {
        "SELECT": "columns", "FROM": "tables", "JOIN": "tables", "ON": "joins",
        "WHERE": "predicates", "GROUP": "order", "ORDER": "order", "LIMIT": "order",
    }  # fmt: skip
    found, clause, inside = [], "columns", False
    for token in tokens:
        word = token.strip()
        inside = inside or word == "```sql"
        clause = clauses.get(word, clause)
        if re.fullmatch(r"<.*>|```(sql)?", word):
            found.append("tags")
        elif not inside:
            found.append("think" if word else "")
        elif not word:
            found.append("")
        else:
            found.append("literals" if word.isdigit() else clause)
    return found


def attribution_rows(prompts: int = 3, samples: int = 2) -> list[dict[str, Any]]:
    rng = random.Random(0)
    tokens = tokens_of(RESPONSE)
    parts = parts_of(tokens)
    blamed = {"format": {"tags"}, "executability": {"columns", "tables"},
              "execution": {"predicates", "literals", "columns"}}  # fmt: skip
    rows = []
    for prompt in range(prompts):
        for sample in range(samples):
            values = (1.0, float(prompt == 1), 0.0)
            signs = (1.0, 1.0 if prompt == 1 else -1.0, -1.0)
            for reward, value, sign in zip(REWARDS, values, signs, strict=True):
                skipped = reward == "execution" and prompt == 2
                distance = [
                    abs(rng.gauss(0, 0.02)) + (rng.uniform(0.2, 2) if p in blamed[reward] else 0)
                    for p in parts
                ]
                for at, token in enumerate(tokens):
                    if reward == "executability" and token in ("telefo", "ne"):
                        distance[at] = 4.0 + rng.random()
                floor = 0.05
                total = sum(distance) + floor * len(tokens)
                weight = [0.5 + 0.5 * len(tokens) * (d + floor) / total for d in distance]
                told = [-0.3 * rng.random() for _ in tokens]
                rows.append({
                    "prompt_id": f"synthetic-{prompt:04d}", "sample": sample, "reward": reward,
                    "value": None if skipped else value,
                    "advantage": sign * (0.4 + 0.3 * sample),
                    "skipped": skipped, "reason": "context too long" if skipped else "",
                    "tokens": tokens, "parts": parts, "logprob_with": told,
                    "logprob_without": [a - sign * d for a, d in zip(told, distance, strict=True)],
                    "distance": [] if skipped else distance,
                    "weight": [] if skipped else weight,
                })  # fmt: skip
    return rows


def history_frame(method: str = "mrtpo", seed: int = 0, steps: int = 60) -> pd.DataFrame:
    rng = random.Random(f"{method} {seed}")
    speed = {"grpo": 25.0, "gdpo": 18.0, "mrtpo": 11.0}[method]
    rows = []
    for step in range(1, steps + 1):
        done = 1 - math.exp(-step / speed)
        row: dict[str, float] = {"step": step}
        for at, reward in enumerate(REWARDS):
            top, start = (0.97, 0.92, 0.78)[at], (0.7, 0.55, 0.35)[at]
            mean = start + (top - start) * done + rng.gauss(0, 0.04)
            row |= {
                f"reward/{reward}/mean": min(1.0, max(0.0, mean)),
                f"reward/{reward}/std": 0.4 - 0.2 * done,
                f"reward/{reward}/missing": 0.0,
                f"reward/{reward}/timeout": float(reward == "execution" and step % 20 == 0),
                f"reward/{reward}/error": float(rng.randrange(9) if at else 0),
                f"reward/{reward}/dead_groups": min(1.0, 0.1 + 0.5 * done + rng.random() / 10),
                f"replay/{reward}/distance_sum": 30 - 10 * done + rng.random(),
                f"replay/{reward}/n_eff_share": 0.3 + 0.2 * done,
                f"replay/{reward}/top10_share": 0.6 - 0.1 * done,
                f"replay/{reward}/skipped": 0.1 + 0.4 * done,
            }
        row |= {
            "policy/grad_norm": 2 - done + rng.random() / 2, "policy/clip_share": 0.02,
            "policy/entropy": 1.2 - 0.7 * done, "policy/kl": 0.02 * done,
            "response/length": 62 - 9 * done + rng.random() * 3, "response/truncated": 0.02,
            "time/generate": 2.1 + rng.random() / 4, "time/verify": 0.3,
            "time/replay": 0.8 * (method == "mrtpo"), "time/update": 1.4 + rng.random() / 5,
        }  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows)


def evaluations_frame(method: str = "mrtpo", seed: int = 0, steps: int = 60) -> pd.DataFrame:
    rng = random.Random(f"{method} {seed} evaluation")
    speed = {"grpo": 25.0, "gdpo": 18.0, "mrtpo": 11.0}[method]
    rows = []
    for step in range(0, steps + 1, 10):
        done = 1 - math.exp(-step / speed)
        spider = 0.34 + 0.38 * done + rng.gauss(0, 0.01)
        rows.append({"step": step, "format": 0.8 + 0.18 * done, "executability": 0.6 + 0.3 * done,
                     "response_length": 60 - 9 * done, "undecided/execution": 1.0,
                     "spider_exec": spider, "bird_ex": spider - 0.02})  # fmt: skip
    return pd.DataFrame(rows)


def prediction_rows(count: int = 80) -> list[dict[str, Any]]:
    rng = random.Random(1)
    rows = []
    for at in range(count):
        kind = list(QUERIES)[at % len(QUERIES)]
        reference, wrong = QUERIES[kind]
        difficulty = ("easy", "medium", "hard")[at % 3]
        right = rng.random() < (0.85, 0.7, 0.4)[at % 3]
        status = "ok"
        if not right:
            status = rng.choice(["ok", "error", "error", "timeout", "refused"])
        sql = reference if right else wrong
        detail = {"error": "no such column: seats", "timeout": "stopped after 2.0 s",
                  "refused": "not a single SELECT statement"}.get(status, "")  # fmt: skip
        rows.append({
            "prompt_id": f"synthetic-{at:04d}", "kind": kind, "difficulty": difficulty,
            "source": ("concerts", "clinic", "orchard")[at % 5 % 3],
            "question": f"Which rows answer question {at}?", "reference": reference,
            "response": f"<think>\nplan\n</think>\n<answer>\n```sql\n{sql}\n```\n</answer>",
            "sql": sql, "status": status, "detail": detail,
            "format": float(rng.random() < 0.95), "executability": float(status == "ok"),
            "execution": None if status == "timeout" else float(right),
            "spider_exec": float(right), "bird_ex": float(right and at % 11 != 0),
        })  # fmt: skip
    return rows


def gain_record() -> dict[str, dict[str, Any]]:
    """`gain` of metrics/train.json: one reward trusted, one not, one that could not be measured."""
    measured: dict[str, Any] = {
        "told": 0.75, "untold": 0.5, "sampled": 0.25, "sampled_error": 0.0625, "loglik": 0.125,
        "loglik_error": 0.03125, "good": 21, "prompts": 14, "left_out": 2, "trusted": True,
        "reason": "Told, good responses are likelier.",
    }  # fmt: skip
    worse = {"told": 0.375, "sampled": -0.125, "loglik": -0.5, "trusted": False,
             "reason": "Told, good responses are not likelier."}  # fmt: skip
    names = ("told", "untold", "sampled", "sampled_error", "loglik", "loglik_error")
    bare = {"good": 0, "prompts": 0, "left_out": 16, "trusted": False,
            "reason": "No prompt could be compared."}  # fmt: skip
    found = {"execution": measured, "executability": measured | worse,
             "format": measured | dict.fromkeys(names) | bare}  # fmt: skip
    return {name: {"reward": name, **row} for name, row in found.items()}


def past_runs(seeds: int = 3) -> list[PastRun]:
    runs = []
    for method in ("grpo", "gdpo", "mrtpo"):
        for seed in range(seeds):
            history, tests = history_frame(method, seed), evaluations_frame(method, seed)
            wanted = [name for name in history if curve_metric(name)]
            curves = {name: history[name] for name in wanted}
            kept = {name: list(zip(history["step"], v, strict=True)) for name, v in curves.items()}
            kept |= {f"valid/{name}": list(zip(tests["step"], tests[name], strict=True))
                     for name in tests.columns[1:]}  # fmt: skip
            final = {f"final/{name}": float(tests[name].iloc[-1]) for name in tests.columns[1:]}
            runs.append(PastRun(
                run_id=f"{method}{seed}".ljust(32, "0"), name=f"text2sql {method} seed {seed}",
                method=method, seed=seed, params={"train.steps": "60"},
                tags={"method": method, "seed": str(seed), "model": "small 4×192",
                      "data_hash": "d" * 8, "fingerprint": f"{method}-{seed}",
                      "git_commit": "63970d3" * 5}, final=final, history=kept,
            ))  # fmt: skip
    return runs
