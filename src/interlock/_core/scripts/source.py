"""The text that a server is sent for a Lua source.

The sources are written to be read: their first lines give each key and argument a name. Some
servers check a script before they run it. They want each key as ``KEYS[1]`` in the call itself,
and each command as a literal. So a server is sent another text:

* Each name of a key is replaced by its ``KEYS[n]``, wherever it stands. An assignment to the name
  becomes an assignment to ``KEYS[n]``: loops use that to declare each key that they touch.
* The constants ``PUBLISH`` and ``NUMSUB`` become the commands that the client uses for messages.
* Comments are left out. The numbers of the lines stay: errors of the server name them.

Source: "EVAL" in the documentation of Redis: all keys are in KEYS, and none is built by a script.
"""

from __future__ import annotations

import re

MESSAGES = {"PUBLISH": "numsub", "SPUBLISH": "shardnumsub", "": "numsub"}
"""The commands that send a message (empty: none is sent), and the question who listens."""

_COMMENT = re.compile(r"('[^'\n]*')|[ \t]*--[^\n]*")
_BINDING = re.compile(r"^local (.+) = (.*\bKEYS\b.*)\n", re.MULTILINE)
_VALUE = re.compile(r"(?:[^,(]|\([^)]*\))+")
_PUBLISHING = re.compile(r"redis\.p?call\(PUBLISH,")
_NO_MESSAGE = "local function unsent() return 0 end "


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
    if "PUBLISH" not in text and "NUMSUB" not in text:
        return text
    text = text.replace("NUMSUB", f"'{MESSAGES[publish]}'")
    if publish:
        return text.replace("(PUBLISH,", f"('{publish}',")
    return _NO_MESSAGE + _PUBLISHING.sub("unsent(", text)
