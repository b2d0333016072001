"""Histories of counters, judged by porcupine: https://github.com/anishathalye/porcupine.

The Go program beside this file is built for each run. Go's own cache makes that fast.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .objects import PERMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .history import Line

_SOURCE = Path(__file__).with_name("linear")
_SECONDS = 20
_SETTLED = 20.0
"""Seconds after which an operation without an answer has been executed, or never will be."""


class Counter:
    """The history of the semaphore, the latch or the event."""

    def __init__(
        self, name: str, calls: list[Line], excused: Callable[[float, float, str], bool]
    ) -> None:
        self._name = name
        self._calls = [call for call in calls if call.get("o") == name]
        self._excused = excused

    def findings(self) -> list[str]:
        """Return what is wrong, as sentences."""
        if not self._calls:
            return []
        initial = PERMITS if self._name == "permits" else 0
        operations = [op for call in self._calls for op in self._operations(call)]
        answer = ask({"initial": initial, "seconds": _SECONDS, "ops": operations})
        if answer == "ok":
            return []
        if answer == "unknown":
            return [f"L-11 linear: {self._name}: porcupine came to no end in {_SECONDS} s"]
        return [f"L-11 linear: {self._name}: no order explains its {len(operations)} operations"]

    def _operations(self, call: Line) -> list[dict[str, Any]]:
        ret = call.get("ret")
        begin = int(call["t"] * 1e6)
        late = int(((ret or call)["t"] + _SETTLED) * 1e6)
        if ret is None or "error" in ret:
            return [
                {"kind": kind, "n": n, "call": begin, "ret": late}
                for kind, n in _FAILED.get(call["op"], ())
            ]
        end, value = int(ret["t"] * 1e6), ret["value"]
        kind = self._kind(call, value)
        return [] if kind is None else [{**kind, "call": begin, "ret": end}]

    def _kind(self, call: Line, value: Any) -> dict[str, Any] | None:
        op = call["op"]
        if op == "take" and not value:
            # Within a timeout a reply may be lost, and what was taken is given back.
            calm = not self._excused(call["t"] - _SETTLED, call["ret"]["t"], call["p"])
            return {"kind": "refused", "n": 1} if calm and call["timeout"] == 0 else None
        if op in ("wait", "event-wait") and not value:
            return None
        if op == "set":
            return {"kind": "set" if value else "not-set", "n": 2}
        return {"kind": _KINDS[op], "n": 1, "value": int(value or 0)}


_KINDS = {
    "take": "take",
    "put": "put",
    "available": "read",
    "count": "read",
    "down": "down",
    "wait": "open",
    "event-set": "raise",
    "event-clear": "lower",
    "event-read": "read",
    "event-wait": "read",
}
_FAILED = {
    # A failed acquire gives back what it took, sooner or later, unless its process dies before.
    "take": (("borrow", 1), ("give-back", 1)),
    "put": (("maybe-put", 1),),
    "set": (("maybe-set", 2),),
    "down": (("maybe-down", 1),),
    "event-set": (("maybe-raise", 1),),
    "event-clear": (("maybe-lower", 1),),
}


def ask(history: dict[str, Any]) -> str:
    """Return what porcupine says of *history*: ``ok``, ``illegal`` or ``unknown``.

    Raises:
        FileNotFoundError: Go is not installed.
    """
    go = shutil.which("go")
    if go is None:
        raise FileNotFoundError("the checker of semaphores and latches needs Go (golang-go)")
    with tempfile.TemporaryDirectory() as home:
        program = f"{home}/linear"
        build = [go, "build", "-o", program, "."]
        subprocess.run(build, cwd=_SOURCE, check=True, capture_output=True)
        text = json.dumps(history) + "\n"
        ran = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return ran.stdout.strip()
