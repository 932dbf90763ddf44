"""Rows of a data file with their numbers from 0: a JSON list, JSON lines or parquet, by content.

Public sets call JSON lines `.json` and large ones do not fit into memory, so the name tells nothing
and rows come one by one. Every fault names the file and the line or row.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Values = dict[str, Any]
_CHUNK = 2**20  # bytes read at a time
_PARQUET = b"PAR1"
_BOM = codecs.BOM_UTF8


def read_rows(path: Path) -> Iterator[tuple[int, Values]]:
    """Each row's number and fields. Raises ValueError; also if there are no rows at all."""
    with path.open("rb") as file:
        start = file.read(64)
    row = -1
    for row, values in enumerate(_items(path, start)):
        if not isinstance(values, dict):
            raise ValueError(f"{path}: row {row} (from 0): expected an object with named fields")
        yield row, values
    if row < 0:
        raise ValueError(f"{path}: no rows")


def field_text(path: Path, row: int, values: Values, field: str, optional: bool = False) -> str:
    """A field that must be text, stripped. `optional`: absent, null or blank gives ''."""
    value = values.get(field)
    if optional and value is None:
        return ""
    if field not in values:
        found = ", ".join(values) or "no fields"
        raise bad_field(path, row, field, f"missing (the row has {found})")
    if not isinstance(value, str):
        raise bad_field(path, row, field, f"expected text, found {type(value).__name__}")
    if not value.strip() and not optional:
        raise bad_field(path, row, field, "empty")
    return value.strip()


def bad_field(path: Path, row: int, field: str, fault: str) -> ValueError:
    return ValueError(f"{path}: row {row} (from 0): field {field}: {fault}")


def _items(path: Path, start: bytes) -> Iterator[Any]:
    if start.startswith(_PARQUET):
        return _parquet(path)
    if start.removeprefix(_BOM).lstrip()[:1] == b"[":
        return _json_list(path)
    return _json_lines(path)


def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: not a parquet file: {error}") from error


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:  # text mode would also end lines at other separators
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(_BOM) if number == 1 else raw
            if line.strip():
                try:
                    yield json.loads(line.decode("utf-8"))
                except json.JSONDecodeError as error:
                    raise ValueError(f"{path}: line {number}: not JSON: {error.msg}") from error
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}: line {number}: not UTF-8: {error}") from error


class _Text:
    """The unread part of a text file, and the line that it starts in."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self.file = path, file
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.at, self.line, self.ended = "", 0, 1, False

    def more(self) -> bool:
        """Read on, twice as much as is pending; False at the end of the file."""
        if self.ended:
            return False
        self.line += self.text.count("\n", 0, self.at)
        self.text, self.at = self.text[self.at :], 0
        raw = self.file.read(max(_CHUNK, len(self.text)))
        self.ended = not raw
        try:
            self.text += self.decoder.decode(raw, final=self.ended)
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}: not UTF-8: {error}") from error
        return True

    def next(self) -> str:
        """The next character that is no blank, not taken; '' at the end."""
        while True:
            rest = self.text[self.at : self.at + 1]
            while rest and rest in " \t\r\n":
                self.at += 1
                rest = self.text[self.at : self.at + 1]
            if rest or not self.more():
                return rest

    def fault(self, message: str, at: int) -> ValueError:
        line = self.line + self.text.count("\n", 0, at)
        return ValueError(f"{self.path}: line {line}: not JSON: {message}")


def _json_list(path: Path) -> Iterator[Any]:
    decode = json.JSONDecoder().raw_decode
    with path.open("rb") as file:
        source = _Text(path, file)
        source.next()  # the bracket
        source.at += 1
        if source.next() == "]":
            source.at += 1
        else:
            while True:
                source.next()
                try:
                    item, end = decode(source.text, source.at)
                except json.JSONDecodeError as error:
                    if source.more():
                        continue
                    raise source.fault(error.msg, error.pos) from error
                if end == len(source.text) and source.more():
                    continue  # a number may go on in the next part
                yield item
                source.at = end
                mark = source.next()
                source.at += 1
                if mark == "]":
                    break
                if mark != ",":
                    raise source.fault("expected , or ] after a row", source.at)
        if source.next():
            raise source.fault("text after the list", source.at)
