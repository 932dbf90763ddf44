"""Public benchmarks by name, each with the module whose `open_benchmark` opens it."""

_SQL = "mrtpo.benchmarks.sql"
_IFEVAL = "mrtpo.benchmarks.ifeval"
BENCHMARKS: dict[str, str] = {
    "spider": _SQL,
    "spider_test": _SQL,
    "spider_syn": _SQL,
    "spider_dk": _SQL,
    "spider_realistic": _SQL,
    "bird": _SQL,
    "bird_minidev": _SQL,
    "ehrsql": _SQL,
    "sciencebenchmark": _SQL,
    "synsql": _SQL,
    "bfcl": "mrtpo.benchmarks.bfcl.score",
    "rlla": "mrtpo.benchmarks.rlla",
    "ifeval": _IFEVAL,
    "ifbench": _IFEVAL,
    "muldimif": "mrtpo.benchmarks.muldimif",
}
