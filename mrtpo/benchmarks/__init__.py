"""Public benchmarks by name, each with the module whose `open_benchmark` opens it."""

BENCHMARKS: dict[str, str] = {}
