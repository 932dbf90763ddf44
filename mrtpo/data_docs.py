"""Data Docs: HTML pages about a validation that read offline and are the same for the same data.

The pages of Great Expectations' own site builder need styles and scripts from the network, and
carry random ids, times and this machine's paths. Ours keep its tables of results, bring their own
style, and depend on nothing but the data, so that DVC, which hashes them, sees no change.
`index.html` says what was expected, what failed and in which rows; `<table>.html` has the details.
"""

from __future__ import annotations

import html
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrtpo.validation import Summary

_VALUE_CHARS = 80
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:75rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{border:1px solid #ccc;
padding:.3rem .6rem;text-align:left;vertical-align:top;overflow-wrap:break-word}
th{background:#f3f3f3}h5{font-size:1.1rem;margin:1rem 0 0}h6{margin:0}
.badge{background:#eee;border-radius:3px;padding:0 .3rem}
.failed,.text-danger{color:#b00020}.passed,.text-success{color:#116329}
.fa-times::before{content:"✗"}.fa-check-circle::before{content:"✓"}
.fa-exclamation-triangle::before{content:"⚠"}i{font-style:normal}
[data-toggle=collapse]{display:none}
"""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def render(result: Any) -> str:
    """Great Expectations' own tables for a result, without its page around them.

    Positions of failing rows are dropped (ours name them better), and tracebacks, which would
    carry this machine's paths into a versioned file.
    """
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaSectionView

    for outcome in result.results:
        info = outcome.exception_info or {}
        for entry in [info] if "raised_exception" in info else info.values():
            entry["exception_traceback"] = ""
        for key in [key for key in outcome.result if "index" in key]:
            del outcome.result[key]
        for entry in outcome.result.get("partial_unexpected_counts", []):
            entry["value"] = shorten(plain(entry["value"]))
        if samples := outcome.result.get("partial_unexpected_list"):
            outcome.result["partial_unexpected_list"] = [shorten(plain(v)) for v in samples]
    page = ValidationResultsPageRenderer(run_info_at_end=False).render(result).to_json_dict()
    view = DefaultJinjaSectionView()
    # The first section is about the run (time, machine) and not about the data.
    text = "".join(
        view.render({"section": section, "section_loop": {"index": i}})
        for i, section in enumerate(page["sections"][1:], start=1)
    )
    text = re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    ids: dict[str, str] = {}
    return _UUID.sub(lambda found: ids.setdefault(found[0], f"id{len(ids)}"), text)


def left_out(counts: Mapping[str, float]) -> list[tuple[str, str, str, int]]:
    """What was done to rows, in which split, why, how many: of counts `dropped/<split>/<reason>`
    and `reduced/<split>/<step>`.
    """
    found = []
    for name, number in counts.items():
        what, _, rest = name.partition("/")
        split, _, why = rest.partition("/")
        if what in ("dropped", "reduced") and why:
            found.append((what, split, why, int(number)))
    order = {"train": 0, "valid": 1, "test": 2}
    return sorted(found, key=lambda row: (row[0], order.get(row[1], 3), row[1:]))


def write_docs(
    folder: Path,
    summary: Summary,
    pages: Mapping[str, str],
    rows_left_out: Sequence[tuple[str, str, str, int]] = (),
) -> None:
    """Written beside and renamed: outputs that DVC has linked from its cache are read-only."""
    new = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    links = " · ".join(f'<a href="{name}.html">all about {name}</a>' for name in pages)
    (new / "index.html").write_text(
        _page("Data validation", _overview(summary, rows_left_out) + links), "utf-8"
    )
    for name, body in pages.items():
        body = f'<p><a href="index.html">overview</a></p>{body}'
        (new / f"{name}.html").write_text(_page(f"Data validation: {name}", body), "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def _page(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def _overview(summary: Summary, rows_left_out: Sequence[tuple[str, str, str, int]]) -> str:
    failed = len(summary.failures)
    verdict = f"{failed} failed" if failed else "all passed"
    parts = [
        f'<p class="{"failed" if failed else "passed"}">{count(summary.rows, "row")}, '
        f"{count(len(summary.checks), 'expectation')}: {verdict}</p>",
        _html_table(
            ("", "field", "what is expected", "expectation", "failing rows"),
            [
                ("✓" if c.passed else "✗", c.field, c.description, c.expectation,
                 c.reason or c.failed_rows)
                for c in summary.checks
            ],
        ),
    ]  # fmt: skip
    rows = [
        (
            row.file or "",
            "" if row.row is None else row.row,
            row.id,
            row.field,
            shorten(plain(row.value)),
        )
        for check in summary.failures
        for row in check.rows
    ]
    if rows:
        parts.append("<h2>Failing rows</h2><p>The first of each expectation.</p>")
        parts.append(_html_table(("file", "row", "id", "field", "value"), rows))
    if rows_left_out:
        parts.append("<h2>Rows that were read and dropped, prompts that were reduced</h2>")
        parts.append(_html_table(("", "split", "why", "rows"), rows_left_out))
    return "\n".join(parts)


def _html_table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    def line(tag: str, cells: Iterable[object]) -> str:
        return "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)

    body = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>\n{body}</tbody></table>"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def plain(value: object) -> object:
    """numpy's scalars as Python's, whose text does not name numpy."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.item() if hasattr(value, "item") else value


def shorten(value: object) -> object:
    """Values as shown: long text cut, other things as they are."""
    text = value if isinstance(value, str) else str(value)
    if len(text) > _VALUE_CHARS:
        return text[: _VALUE_CHARS - 1] + "…"
    return value
