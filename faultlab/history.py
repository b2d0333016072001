"""The history of a run: one JSON object a line, with times of CLOCK_MONOTONIC.

Each process appends to a file of its own, one ``write`` a line. So a SIGKILL loses at most the
last line. The clock is the same in all processes of a machine.

Kinds of lines (``k``):

* ``call``, ``ret``: an operation begins, and comes to a value or an error
* ``belief``: ``hold.valid`` was true at or after ``t``
* ``gone``: ``hold.valid`` was false before it was released
* ``told``: the ``on_lost`` callback was called
* ``stall``: the process stood still from ``t`` to ``end``
* ``fault``: somebody made a fault, from ``t`` to ``end``
* ``start``, ``end``: a process starts, and ends
"""

from __future__ import annotations

import itertools
import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Line = dict[str, Any]


class Recorder:
    """Appends lines to the history of the process *name*."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._numbers = itertools.count(1)

    def note(self, kind: str, **fields: Any) -> None:
        """Append one line of *kind*, at the present time unless *fields* tell another."""
        line = {"t": time.monotonic(), "k": kind, "p": self.name, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def call(self, lane: str, op: str, **fields: Any) -> int:
        """Note that *lane* begins *op*; return the number that `ret` wants."""
        number = next(self._numbers)
        self.note("call", w=lane, op=op, n=number, **fields)
        return number

    def ret(self, number: int, **fields: Any) -> None:
        """Note the end of operation *number*."""
        self.note("ret", n=number, **fields)


def load(paths: Iterable[Path]) -> list[Line]:
    """Return all whole lines of the files *paths*, in the order of their times."""
    lines: list[Line] = []
    for path in paths:
        *whole, last = path.read_bytes().split(b"\n")
        lines += map(json.loads, whole)
        # A process that was killed within a write leaves half a line.
        if last:
            lines.append({"t": lines[-1]["t"] if lines else 0.0, "k": "torn", "p": path.stem})
    return sorted(lines, key=lambda line: line["t"])


def save(lines: Iterable[Line], path: Path) -> None:
    """Write *lines* to the file *path*."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def error_of(call: Line) -> str | None:
    """Return the name of the error that *call* ended with."""
    error: str | None = call.get("ret", {}).get("error")
    return error


def value_of(call: Line) -> Any:
    """Return what *call* returned; None if it did not."""
    return call.get("ret", {}).get("value")


def succeeded(call: Line) -> bool:
    """Return whether *call* returned without an error."""
    return "ret" in call and "error" not in call["ret"]


def who(call: Line) -> str:
    """Return the owner that made *call*."""
    return f"{call['p']}/{call['w']}"
