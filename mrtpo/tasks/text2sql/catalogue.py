"""Themes from which the synthetic databases are composed.

A theme is a set of tables that belong together. `COLUMNS` gives each table's columns as
`name=pool`, where a pool (`POOLS`) says what values look like and how the column may be used;
`LINKS` lists `child>parent`: the child table carries the parent's key.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pool:
    """Values of a column: words to choose from, or integers from `low` to `high`."""

    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    step: int = 1

    @property
    def numeric(self) -> bool:
        return not self.words


def _words(text: str) -> Pool:
    return Pool(words=tuple(text.split()))


POOLS = {
    "person": _words(
        "Ada Bruno Clara David Elena Felix Grace Hugo Irene Jonas Karin Liam Maria Nora Oscar "
        "Paula Quinn Rosa Simon Tara Umar Vera Walter Xenia Yusuf Zoe Amir Bella Carlos Diana"
    ),
    "title": _words(
        "Aurora Beacon Cascade Dawn Echo Frontier Glacier Harbor Island Journey Kingdom Lantern "
        "Meadow Nightfall Orchard Pioneer Quarry River Summit Thunder Valley Willow Zenith Comet"
    ),
    "city": _words("Paris London Berlin Madrid Rome Vienna Oslo Lisbon Dublin Prague Athens Tokyo"),
    "country": _words("France Germany Spain Italy Japan Brazil Canada India Norway Kenya"),
    "color": _words("red blue green black white yellow"),
    "status": _words("active closed pending delayed"),
    "level": _words("basic standard premium"),
    "genre": _words("jazz rock pop folk classical drama comedy history science travel"),
    "field": _words("biology physics music law history chemistry medicine"),
    "age": Pool(low=18, high=70),
    "year": Pool(low=2000, high=2024),
    "small": Pool(low=1, high=20),
    "score": Pool(low=5, high=100, step=5),
    "money": Pool(low=100, high=950, step=50),
    "size": Pool(low=20, high=500, step=20),
}

# theme -> table -> columns; the first column of a table is what its rows are called by.
THEMES: dict[str, dict[str, str]] = {
    "music": {
        "singer": "name=person country=country age=age net_worth=money fame=score",
        "concert": "title=title year=year city=city attendance=size rating=score",
        "album": "title=title genre=genre year=year sales=money length=small",
        "band": "name=title country=country founded_year=year members=small",
    },
    "retail": {
        "customer": "name=person city=city age=age points=score membership=level",
        "product": "name=title color=color price=money stock=size weight=small",
        "purchase": "status=status quantity=small year=year amount=money",
        "supplier": "name=title country=country rating=score capacity=size",
    },
    "school": {
        "student": "name=person age=age city=city grade=score credits=small",
        "teacher": "name=person subject=field age=age salary=money experience=small",
        "course": "title=title level=level credits=small capacity=size year=year",
        "classroom": "building=title floor=small seats=size status=status",
    },
    "hospital": {
        "doctor": "name=person specialty=field age=age salary=money rating=score",
        "patient": "name=person city=city age=age weight=score status=status",
        "treatment": "title=title cost=money duration=small year=year status=status",
        "ward": "name=title floor=small beds=size level=level",
    },
    "library": {
        "author": "name=person country=country age=age awards=small",
        "book": "title=title genre=genre year=year pages=size price=money",
        "member": "name=person city=city age=age membership=level points=score",
        "loan": "status=status year=year days=small fine=money",
    },
    "airline": {
        "airport": "name=title city=city country=country runways=small capacity=size",
        "flight": "title=title status=status distance=size price=money duration=small",
        "pilot": "name=person age=age country=country experience=small salary=money",
        "aircraft": "name=title year=year seats=size color=color weight=score",
    },
    "sports": {
        "team": "name=title city=city founded_year=year points=score budget=money",
        "player": "name=person age=age country=country goals=small salary=money",
        "game": "title=title year=year attendance=size score=score",
        "coach": "name=person age=age experience=small salary=money",
    },
    "hotel": {
        "hotel": "name=title city=city stars=small rooms=size rating=score",
        "guest": "name=person country=country age=age points=score",
        "booking": "status=status nights=small amount=money year=year",
        "employee": "name=person age=age salary=money experience=small",
    },
    "museum": {
        "museum": "name=title city=city founded_year=year visitors=size rating=score",
        "artist": "name=person country=country age=age awards=small",
        "painting": "title=title year=year color=color price=money width=small",
        "exhibition": "title=title status=status year=year attendance=size cost=money",
    },
    "cinema": {
        "director": "name=person country=country age=age awards=small",
        "film": "title=title genre=genre year=year budget=money rating=score",
        "actor": "name=person age=age country=country salary=money",
        "studio": "name=title city=city founded_year=year capacity=size",
    },
    "bank": {
        "client": "name=person city=city age=age income=money score=score",
        "account": "status=status level=level balance=money year=year",
        "branch": "name=title city=city employees=size rating=score",
        "transfer": "title=title amount=money year=year days=small status=status",
    },
    "transport": {
        "driver": "name=person age=age city=city experience=small rating=score",
        "bus": "name=title color=color seats=size year=year",
        "route": "title=title distance=size duration=small price=money",
        "garage": "name=title city=city capacity=size floor=small",
    },
    "restaurant": {
        "restaurant": "name=title city=city stars=small seats=size rating=score",
        "chef": "name=person country=country age=age salary=money experience=small",
        "dish": "title=title price=money weight=size level=level",
        "review": "title=title score=score year=year status=status",
    },
    "company": {
        "department": "name=title city=city budget=money floor=small",
        "employee": "name=person age=age salary=money country=country experience=small",
        "project": "title=title status=status budget=money year=year duration=small",
        "office": "building=title city=city seats=size level=level",
    },
}

LINKS: dict[str, str] = {
    "music": "concert>singer album>singer singer>band",
    "retail": "purchase>customer purchase>product product>supplier",
    "school": "course>teacher student>course course>classroom",
    "hospital": "treatment>doctor treatment>patient patient>ward",
    "library": "book>author loan>book loan>member",
    "airline": "flight>airport flight>pilot flight>aircraft",
    "sports": "player>team game>team coach>team",
    "hotel": "booking>guest booking>hotel employee>hotel",
    "museum": "painting>artist exhibition>museum painting>museum",
    "cinema": "film>director film>studio actor>film",
    "bank": "account>client account>branch transfer>account",
    "transport": "bus>driver bus>garage route>bus",
    "restaurant": "chef>restaurant dish>chef review>restaurant",
    "company": "employee>department project>department department>office",
}

PLURALS = {
    "bus": "buses",
    "branch": "branches",
    "dish": "dishes",
    "coach": "coaches",
    "aircraft": "aircraft",
    "country": "countries",
    "city": "cities",
}


def plural(noun: str) -> str:
    """English plural of a table's noun."""
    return PLURALS.get(noun, noun + "s")
