"""HTML pages: the template engine with our filters, and files that are whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mrtpo.report import text


def render(template: str, **context: Any) -> str:
    """A page of `templates/`; whatever stands in `context` is escaped."""
    environment = Environment(
        loader=PackageLoader("mrtpo.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "share": text.share, "number": text.plain, "credit": text.signed, "mark": text.mark,
        "name": text.name_of,
    }  # fmt: skip
    return environment.get_template(template).render(context)


def write_page(path: Path, page: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
    return path
