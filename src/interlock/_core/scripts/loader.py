"""How a Lua text becomes a script: with its parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import R, Script
from interlock._core.scripts.source import read, sent

if TYPE_CHECKING:
    from collections.abc import Callable

_INCLUDE = re.compile(r"^ *-- include: *(.*)\n", re.MULTILINE)
_PART = re.compile(r"(\w+)(?:\((.*?)\))?")


class Variants(dict[str, Script[Any]]):
    """The variants of ``lua/<name>.lua``, by the command that sends its messages.

    A variant is made when it is first used: a client needs one of them.
    """

    def __init__(self, name: str, decode: Callable[[Any], Any], *, patient: bool = False) -> None:
        super().__init__()
        self.name, self._decode, self._patient = name, decode, patient
        # Read now: later the process may have no file descriptor left.
        self._text = text_of(name)

    def __missing__(self, publish: str) -> Script[Any]:
        text = sent(self._text, publish)
        script = self[publish] = Script(self.name, text, self._decode, patient=self._patient)
        return script


def load(name: str, decode: Callable[[Any], R]) -> Script[R]:
    """Return the script in ``lua/<name>.lua``, which sends no messages."""
    return Script(name, sent(text_of(name)), decode)


def text_of(path: str, *given: str) -> str:
    """Return the text of ``lua/<path>.lua`` with *given* for ``$1`` and so on, and its parts."""
    text = read(path)
    for n, each in enumerate(given, 1):
        text = text.replace(f"${n}", each)
    return _INCLUDE.sub(lambda found: "".join(map(_part, _PART.finditer(found[1]))), text)


def _part(named: re.Match[str]) -> str:
    return text_of(f"parts/{named[1]}", *(named[2] or "").split(", "))
