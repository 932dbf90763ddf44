"""What benchmarks share: tables in pages, and names chosen from a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path


def fill(page: Path, text: str, name: str) -> None:
    """Put `text` between `<!-- name -->` and `<!-- /name -->` of a page. Raises ValueError if it
    does not have these lines."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = page.read_text().partition(opening)
    _, closed, after = rest.partition(closing)
    if not opened or not closed:
        raise ValueError(f"{page}: has no lines {opening} and {closing}")
    page.write_text(f"{before}{opening}\n{text}\n{closing}{after}")


def chosen(names: Iterable[str], wanted: Collection[str], where: str) -> list[str]:
    """Those of `names` that are wanted, in their order; all if none is asked for.

    Raises ValueError on one that there is not; `where` says where they stand.
    """
    known = list(names)
    if unknown := sorted(set(wanted) - set(known)):
        raise ValueError(f"{where}: no {', '.join(unknown)}; there are: {'; '.join(known)}")
    return [name for name in known if not wanted or name in wanted]
