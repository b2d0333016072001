"""The text that a server is sent for a Lua source.

The sources are written to be read: their headers give each key and argument a name, which
``lua/README.md`` explains. Some servers check a script before they run it. They want each key as
``KEYS[1]`` in the call itself, and each command as a literal. So a server is sent another text:

* Each name of a key is replaced by its ``KEYS[n]``, wherever it stands. An assignment to the name
  becomes an assignment to ``KEYS[n]``: loops use that to declare each key that they touch.
* The names of arguments become local variables: ``#name`` a number, and ``name?``, which may be
  left out, empty then.
* The constants ``PUBLISH`` and ``NUMSUB`` become the commands that the client uses for messages, and
  ``MUTE`` tells whether it uses none.
* Messages are sent by ``pcall``: a release does not fail because the server refuses to send them.
* A server that refuses TIME in scripts tells its clock by the time to live of a key.
* Comments are left out.

Source: "EVAL" in the documentation of Redis: all keys are in KEYS, and none is built by a script.
"""

from __future__ import annotations

import re
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import R, Script
from interlock._core.scripts.replies import held_or_refused

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = {"PUBLISH": "numsub", "SPUBLISH": "shardnumsub", "": "numsub"}
"""The commands that send a message (empty: none is sent), and the question who listens."""

_COMMENT = re.compile(r"('[^'\n]*')|[ \t]*--[^\n]*")
_HEADER = re.compile(r"^-- (KEYS|ARGV) +(.+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"^ *-- include: *(.*)\n", re.MULTILINE)
_PART = re.compile(r"(\w+)(?:\((.*?)\))?")
_BINDING = re.compile(r"^local (\w+) = (KEYS\[\d+\])\n", re.MULTILINE)
_NO_MESSAGE = "local function unsent() end "


def read(path: str) -> str:
    """Return the text of ``lua/<path>.lua``, also if the package is in a zip archive."""
    text = get_data("interlock._core", f"lua/{path}.lua")
    assert text is not None  # every loader of packages can read data
    return text.decode()


def text_of(path: str, *given: str) -> str:
    """Return the text of ``lua/<path>.lua`` with *given* for ``$1`` and so on, and its parts."""
    text = read(path)
    for n, each in enumerate(given, 1):
        text = text.replace(f"${n}", each)
    return _INCLUDE.sub(lambda found: "".join(map(_part, _PART.finditer(found[1]))), text)


def _part(named: re.Match[str]) -> str:
    return text_of(f"parts/{named[1]}", *(named[2] or "").split(", "))


def bare(path: str) -> str:
    """Return the text of ``lua/<path>.lua`` without its comments."""
    return _COMMENT.sub(r"\1", read(path)).lstrip()


_CLOCK = bare("around/clock")


def question(publish: str) -> str:
    """Return a script that asks whether the server takes *publish* from scripts.

    Its arguments are a channel and a message. Without them it sends nothing: where scripts may call
    it, the error says that arguments are missing.
    """
    return f"return redis.call('{publish}', unpack(ARGV))"


def _argument(name: str, n: int) -> str:
    """Return the value of the argument *n*, which a header calls *name*."""
    if name.startswith("#"):
        return f"tonumber(ARGV[{n}])"
    return f"ARGV[{n}] or ''" if name.endswith("?") else f"ARGV[{n}]"


def sent(source: str, publish: str = "") -> str:
    """Return the text that a server is sent for *source*.

    Args:
        source: the Lua source, with what it includes.
        publish: the command that sends a message; empty to send none.
    """
    keys: dict[str, str] = {}

    def bound(header: re.Match[str]) -> str:
        table, names = header[1], header[2].split(", ")
        if table == "KEYS":
            keys.update((name.strip("?."), f"KEYS[{n}]") for n, name in enumerate(names, 1))
            return "\n"
        names = [name for name in names if not name.endswith("...")]
        values = [_argument(name, n) for n, name in enumerate(names, 1)]
        bare = ", ".join(name.strip("#?") for name in names)
        return f"local {bare} = {', '.join(values)}\n" if names else "\n"

    text = _COMMENT.sub(r"\1", _HEADER.sub(bound, source))
    keys.update(_BINDING.findall(text))
    text = _BINDING.sub("\n", text)
    words = "|".join(map(re.escape, keys))
    named = re.compile(rf"('[^'\n]*')|(?<![.:\w])({words})(?!\w)")
    text = named.sub(lambda found: found[1] or keys[found[2]], text)
    if "redis.call('time')" in text:
        text = _CLOCK + text.replace("redis.call('time')", "clock()")
    text = text.replace("NUMSUB", f"'{MESSAGES[publish]}'")
    text = text.replace("MUTE", "false" if publish else "true")
    if publish:
        return text.replace("(PUBLISH,", f"('{publish}',")
    return (_NO_MESSAGE if "PUBLISH" in text else "") + text.replace(
        "redis.pcall(PUBLISH,", "unsent("
    )


class Variants(dict[str, Script[Any]]):
    """The variants of ``lua/<name>.lua``, by the command that sends its messages.

    A variant is made when it is first used: a client needs one of them.
    """

    def __init__(self, name: str, decode: Callable[[Any], Any]) -> None:
        super().__init__()
        self.name, self._decode = name, decode
        # Read now: later the process may have no file descriptor left.
        self._text = text_of(name)

    def __missing__(self, publish: str) -> Script[Any]:
        text = sent(self._text, publish)
        script = self[publish] = Script(self.name, text, self._decode)
        script.patient = self._decode is held_or_refused
        return script


def load(name: str, decode: Callable[[Any], R]) -> Script[R]:
    """Return the script in ``lua/<name>.lua``, which sends no messages."""
    return Script(name, sent(text_of(name)), decode)
