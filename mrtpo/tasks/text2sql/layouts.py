"""Where the public text-to-SQL sets keep their files, and what their fields are called.

    set               question files by split; names are looked for in this order
    spider            train_spider.json or train_spider.min.json, and train_others.json; dev.json;
                      test.json with test_tables.json and test_database
    spider_syn        train_spider.json; dev.json          on Spider's databases
    spider_dk         Spider-DK.json                       on Spider's databases and three more
    spider_realistic  spider-realistic.json                on Spider's databases
    bird              train.json; dev.json; mini_dev_sqlite.json
    ehrsql            {mimic_iii,eicu}/{train,valid,test}.json; dev.json as OmniSQL has it
    sciencebenchmark  {oncomx,cordis,sdss}/{dev,seed,synth}.json, or dev.json as OmniSQL has it
    synsql            data.json, or SQL-R1's train and test parquet files

A folder is the set's own or one that holds it under one of its names. Databases are
`<folder>/<db_id>/<db_id>.sqlite` below the set's folder, below a further folder that is given, or,
for the sets on Spider's databases, below Spider's folder beside the set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from mrtpo.tasks.text2sql.spider_hardness import LEVELS

Kind = Literal[
    "spider", "spider_syn", "spider_dk", "spider_realistic",
    "bird", "ehrsql", "sciencebenchmark", "synsql",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)

Names = tuple[str, ...]
"""Paths below the set's folder in order of preference; a `*` stands for any characters."""


@dataclass(frozen=True)
class Layout:
    """`files`: by split, one entry a file; of each entry the first name that exists is read.

    `test`: which split is scored, the first that is there. `train` and `valid` likewise name the
    splits that training may use; without `valid` it is carved from `train`.
    """

    folders: Names
    files: Mapping[str, tuple[Names, ...]]
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ("dev",)
    tables: Names = ("tables.json",)
    databases: Names = ("database", "databases")
    sql: str = "query"
    question: str = "question"
    evidence: str = "evidence"
    difficulty: str = "difficulty"
    category: str | None = None
    difficulties: tuple[str, ...] = ()
    """The set's words for difficulty; none: it has no such field."""
    filled: Mapping[str, float] = field(default_factory=dict)
    """Fields that at least this share of the rows has."""
    hardness: bool = False
    """Whether difficulty is Spider's hardness, which follows from the query."""
    on_spider: bool = False
    """Whether questions are about Spider's databases."""
    disjoint: bool = True
    """Whether splits have databases of their own."""


_SPIDER_FILES: dict[str, tuple[Names, ...]] = {
    "train": (("train_spider.json", "train_spider.min.json"), ("train_others.json",)),
    "dev": (("dev.json",),),
    "test": (("test.json",),),
}
_DOMAINS = ("mimic_iii", "eicu")
_SCIENCE = ("oncomx", "cordis", "sdss")

LAYOUTS: dict[Kind, Layout] = {
    "spider": Layout(
        folders=("spider", "spider_data"),
        files=_SPIDER_FILES,
        train=("train",),
        test=("dev", "test"),
        tables=("tables.json", "test_tables.json"),
        databases=("database", "databases", "test_database"),
        difficulties=LEVELS,
        filled={"difficulty": 1.0},
        hardness=True,
    ),
    "spider_syn": Layout(
        folders=("spider_syn", "Spider-Syn", "Spider-Syn/Spider-Syn", "spider-syn"),
        files={"train": (("train_spider.json",),), "dev": (("dev.json",),)},
        train=("train",),
        question="SpiderSynQuestion",
        difficulties=LEVELS,
        filled={"difficulty": 1.0},
        hardness=True,
        on_spider=True,
    ),
    "spider_dk": Layout(
        folders=("spider_dk", "Spider-DK", "spider-dk"),
        files={"dev": (("Spider-DK.json",),)},
        category="type",
        difficulties=LEVELS,
        filled={"difficulty": 1.0},
        hardness=True,
        on_spider=True,
    ),
    "spider_realistic": Layout(
        folders=("spider_realistic", "spider-realistic", "Spider-Realistic"),
        files={"dev": (("spider-realistic*.json",),)},
        difficulties=LEVELS,
        filled={"difficulty": 1.0},
        hardness=True,
        on_spider=True,
    ),
    "bird": Layout(
        folders=("bird", "bird_minidev", "bird_mini_dev", "minidev/MINIDEV", "MINIDEV"),
        files={
            "train": (("train.json", "train/train.json"),),
            "dev": (("dev.json", "dev/dev.json", "dev_2*/dev.json"),),
            "mini_dev": (("mini_dev_sqlite.json",),),
        },
        train=("train",),
        test=("dev", "mini_dev"),
        tables=(
            "dev_tables.json", "dev*/dev_tables.json", "train_tables.json",
            "train/train_tables.json", "tables.json",
        ),
        databases=(
            "train_databases", "train/train_databases", "dev_databases", "dev*/dev_databases",
            "databases", "database",
        ),
        sql="SQL",
        difficulties=("simple", "moderate", "challenging"),
        filled={"evidence": 0.5},
    ),
    "ehrsql": Layout(
        folders=("ehrsql", "EHRSQL", "EHRSQL/dataset/ehrsql", "dataset/ehrsql"),
        files={
            split: tuple((f"{domain}/{split}.json",) for domain in _DOMAINS)
            for split in ("train", "valid", "test")
        }
        | {"dev": (("dev.json",),)},
        train=("train",),
        valid=("valid",),
        test=("test", "dev", "valid"),
        databases=("database", "databases", "."),
        category="department",
        disjoint=False,
    ),
    "sciencebenchmark": Layout(
        folders=("sciencebenchmark", "sciencebenchmark_dataset", "ScienceBenchmark"),
        files={
            "dev": (("dev.json", f"{_SCIENCE[0]}/dev.json"),
                    *((f"{domain}/dev.json",) for domain in _SCIENCE[1:])),
            "seed": tuple((f"{domain}/seed.json",) for domain in _SCIENCE),
            "synth": tuple((f"{domain}/synth.json",) for domain in _SCIENCE),
        },
        train=("seed", "synth"),
        databases=("databases", "database"),
        disjoint=False,
    ),
    "synsql": Layout(
        folders=("synsql", "SynSQL-2.5M"),
        files={
            "train": (("data.json", "data.jsonl", "*train*.parquet", "data/*train*.parquet"),),
            "test": (("*test.parquet", "data/*test*.parquet"),),
        },
        train=("train", "test"),
        test=("test", "train"),
        databases=("databases", "database"),
        sql="sql",
        evidence="external_knowledge",
        difficulty="sql_complexity",
        difficulties=("Simple", "Moderate", "Complex", "Highly Complex"),
        filled={"difficulty": 1.0},
        category="question_style",
    ),
}  # fmt: skip


def locate(kind: Kind, folder: Path, split: str | None = None) -> Path:
    """The set's own folder: `folder` itself, or what it holds under one of the set's names.

    Raises ValueError if no question file (of the split, if given) is there.
    """
    layout = LAYOUTS[kind]
    if split is not None and split not in layout.files:
        raise ValueError(f"{kind} has no split {split}; it has {', '.join(layout.files)}")
    if not folder.is_dir():
        raise ValueError(f"{folder}: not a folder")
    splits = [split] if split else list(layout.files)
    for root in (folder, *(folder / name for name in layout.folders)):
        if any(question_files(kind, root, each) for each in splits):
            return root
    names = [name for each in splits for group in layout.files[each] for name in group]
    raise ValueError(
        f"{folder}: none of {', '.join(names)} is there, nor below "
        f"{', '.join(layout.folders)} ({kind})"
    )


def splits_of(kind: Kind, folder: Path) -> list[str]:
    """Which splits the set's folder has files of."""
    root = locate(kind, folder)
    return [split for split in LAYOUTS[kind].files if question_files(kind, root, split)]


def question_files(kind: Kind, root: Path, split: str) -> list[Path]:
    """The files of a split, in the order in which their rows are counted."""
    return [path for names in LAYOUTS[kind].files[split] for path in first_of(root, names)]


def first_of(root: Path, names: Names) -> list[Path]:
    """What the first name that exists stands for: one path, or all that a pattern fits, sorted."""
    return next((found for name in names if (found := matches(root, name))), [])


def matches(root: Path, name: str) -> list[Path]:
    if "*" in name:
        return sorted(root.glob(name))
    return [root / name] if (root / name).exists() else []


@dataclass(frozen=True)
class Places:
    """The set's own folder, and where databases and tables files may be, first things first."""

    root: Path
    databases: list[Path]
    tables: list[Path]


def places(
    kind: Kind, folder: Path, databases: Path | None = None, split: str | None = None
) -> Places:
    """Databases and tables files: of the folder that is given, of the set's own, of Spider's.

    A set's own tables file goes before that of another folder. Raises ValueError, as `locate`.
    """
    root, layout, spider = locate(kind, folder, split), LAYOUTS[kind], LAYOUTS["spider"]
    if databases is not None and not databases.is_dir():
        raise ValueError(f"{databases}: not a folder (of databases)")
    own = (root, layout)
    given = [(databases, spider if layout.on_spider else layout)] if databases else []
    beside = []
    if layout.on_spider:
        around = dict.fromkeys((folder, folder.parent, root.parent))
        beside = [(base / name, spider) for base in around for name in spider.folders]
    files = [databases] if databases else []
    files += [p for base, its in (*given, own, *beside) for p in _all(base, its.databases)]
    tables = [p for base, its in (own, *given, *beside) for p in _all(base, its.tables)]
    return Places(root, list(dict.fromkeys(files)), list(dict.fromkeys(tables)))


def read_paths(kind: Kind, folder: Path, databases: Path | None = None) -> list[Path]:
    """All that a set is read from: its folder, and databases and tables files outside of it."""
    place = places(kind, folder, databases)
    outside = [p for p in place.databases + place.tables if not p.is_relative_to(place.root)]
    return [place.root, *outside]


def _all(root: Path, names: Names) -> list[Path]:
    return [path for name in names for path in matches(root, name)]
