"""What the workers of test_runner run: each job is a word for something to do."""

import os
import signal
import sys
import time
from pathlib import Path


def make(settings, tick):
    def answer(job):
        word, *rest = job
        if word == "echo":
            return rest[0]
        if word == "settings":
            return settings
        if word == "pid":
            return os.getpid()
        if word == "sleep":
            time.sleep(rest[0])
            return rest[0]
        if word == "spin":
            while True:
                pass
        if word == "step":  # many pieces, each reported
            for _ in range(rest[0]):
                time.sleep(rest[1])
                tick()
            return "stepped"
        if word == "exit":
            os._exit(rest[0])
        if word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "memory":
            return len(bytearray(rest[0] * 2**20))
        if word == "print":
            print("stray text on standard output", flush=True)
            return "printed"
        if word == "write":
            Path(rest[0]).write_text("x")
        if word == "modules":
            return sorted(sys.modules)
        raise ValueError(f"unknown word {word}")

    return answer


def broken(settings, tick):
    raise RuntimeError("this one cannot be made")
