"""The text that a server is sent for a Lua source.

The sources are written to be read: their first lines give each key and argument a name. Some
servers check a script before they run it. They want each key as ``KEYS[1]`` in the call itself,
and each command as a literal. So a server is sent another text:

* Each name of a key is replaced by its ``KEYS[n]``, wherever it stands. An assignment to the name
  becomes an assignment to ``KEYS[n]``: loops use that to declare each key that they touch.
* The constants ``PUBLISH`` and ``NUMSUB`` become the commands that the client uses for messages.
* A message that the server refuses to send from a script is sent by the client, behind the script.
  For that the script answers with the error ``TELL``: see `interlock._core.model.messages`. So a
  release does not fail after it has released. A user without rights to the channel still gets the
  error.
* A server that refuses TIME in scripts tells its clock by the time to live of a key.
* Comments are left out. The numbers of the lines stay: errors of the server name them.

Source: "EVAL" in the documentation of Redis: all keys are in KEYS, and none is built by a script.
"""

from __future__ import annotations

import re
from pkgutil import get_data

MESSAGES = {"PUBLISH": "numsub", "SPUBLISH": "shardnumsub", "": "numsub"}
"""The commands that send a message (empty: none is sent), and the question who listens."""

_COMMENT = re.compile(r"('[^'\n]*')|[ \t]*--[^\n]*")
_BINDING = re.compile(r"^local (.+) = (.*\bKEYS\b.*)\n", re.MULTILINE)
_VALUE = re.compile(r"(?:[^,(]|\([^)]*\))+")
_PUBLISHING = re.compile(r"redis\.p?call\(PUBLISH,")
_NO_MESSAGE = "local function unsent() return 0 end "


def around(name: str) -> tuple[str, str]:
    """Return what ``lua/around/<name>.lua`` puts before a script and after it.

    The text before it is one line: errors of the server name the lines of the script.
    """
    text = get_data("interlock._core", f"lua/around/{name}.lua")
    assert text is not None  # every loader of packages can read data
    before, after = (
        [line.strip() for line in part.splitlines() if line and not line.startswith("--")]
        for part in text.decode().split("-- script\n")
    )
    return "".join(f"{line} " for line in before if line), "".join(f"{line}\n" for line in after)


_BEFORE_TELL, _AFTER_TELL = around("tell")
_CLOCK, _ = around("clock")


def question(publish: str) -> str:
    """Return a script that asks whether the server takes *publish* from scripts.

    It sends no message: where scripts may call it, the error says that arguments are missing.
    """
    return f"return redis.call('{publish}')"


def sent(source: str, publish: str = "") -> str:
    """Return the text that a server is sent for *source*.

    Args:
        source: the Lua source, with what it includes.
        publish: the command that sends a message; empty to send none.
    """
    text = _COMMENT.sub(r"\1", source)
    keys: dict[str, str] = {}

    def without_keys(binding: re.Match[str]) -> str:
        kept: list[tuple[str, str]] = []
        values = (value.strip() for value in _VALUE.findall(binding[2]))
        for name, value in zip(binding[1].split(", "), values, strict=True):
            if value.startswith("KEYS"):
                keys[name] = value
            else:
                kept.append((name, value))
        if not kept:
            return "\n"
        names, others = zip(*kept, strict=True)
        return f"local {', '.join(names)} = {', '.join(others)}\n"

    text = _BINDING.sub(without_keys, text)
    words = "|".join(map(re.escape, keys))
    named = re.compile(rf"('[^'\n]*')|(?<![.:\w])({words})(?!\w)")
    text = named.sub(lambda found: found[1] or keys[found[2]], text)
    if "redis.call('time')" in text:
        text = _CLOCK + text.replace("redis.call('time')", "clock()")
    text = text.replace("NUMSUB", f"'{MESSAGES[publish]}'")
    if not publish:
        return (_NO_MESSAGE if "PUBLISH" in text else "") + _PUBLISHING.sub("unsent(", text)
    if "redis.call(PUBLISH," in text:
        tell = _BEFORE_TELL.replace("'PUBLISH'", f"'{publish}'")
        text = tell + text.replace("redis.call(PUBLISH,", "tell(")
        text += _AFTER_TELL.replace("PUBLISH", publish)
    return text.replace("(PUBLISH,", f"('{publish}',")
