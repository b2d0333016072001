"""The text that a server is sent for a Lua source.

The sources are written to be read: their first lines give each key and argument a name. Some
servers check a script before they run it. They want each key as ``KEYS[1]`` in the call itself,
and each command as a literal. So a server is sent another text:

* Each name of a key is replaced by its ``KEYS[n]``, wherever it stands. An assignment to the name
  becomes an assignment to ``KEYS[n]``: loops use that to declare each key that they touch.
* The constants ``PUBLISH`` and ``NUMSUB`` become the commands that the client uses for messages.
* The constants in `TIMES` become milliseconds: the client counts on the same times.
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

from interlock._core.model.holds import CLAIM
from interlock._core.queue.policy import COURTESY, LEFT_EVERY, LOOK_AFTER

TIMES = {
    "CLAIM": CLAIM, "COURTESY": COURTESY, "LEFT_EVERY": LEFT_EVERY, "LOOK_AFTER": LOOK_AFTER,
}  # fmt: skip
"""The constants that stand for times, in seconds."""
MESSAGES = {"PUBLISH": "numsub", "SPUBLISH": "shardnumsub", "": "numsub"}
"""The commands that send a message (empty: none is sent), and the question who listens."""

_COMMENT = re.compile(r"('[^'\n]*')|[ \t]*--[^\n]*")
_BINDING = re.compile(r"^local (.+) = (.*\bKEYS\b.*)\n", re.MULTILINE)
_VALUE = re.compile(r"(?:[^,(]|\([^)]*\))+")
_TIME = re.compile(rf"\b(?:{'|'.join(TIMES)})\b")
_PUBLISHING = re.compile(r"redis\.p?call\(PUBLISH,")
_NO_MESSAGE = "local function unsent() return 0 end "
_TELL = """local unsent = {}
local function tell(channel, message)
local heard = redis.pcall('PUBLISH', channel, message)
if type(heard) == 'number' then return heard end
if string.find(heard.err, 'not allowed from') or string.find(heard.err, 'nknown') then
unsent[#unsent + 1] = {channel, tostring(message)}
return 0
end
return redis.call('PUBLISH', channel, message)
end
local function script() """.replace("\n", " ")
_ANSWER = """end
local reply = script()
if not unsent[1] then return reply end
local function told(value)
if type(value) == 'number' then return string.format(':%.0f', value) end
if type(value) == 'string' then
return '$' .. string.gsub(value, '.', function(c) return string.format('%02x', string.byte(c)) end)
end
if type(value) ~= 'table' then return '_' end
local words = {'*' .. #value}
for i, each in ipairs(value) do words[i + 1] = told(each) end
return table.concat(words, ' ')
end
return {err = 'TELL PUBLISH ' .. told({reply or false, unsent})}
"""
CLOCK = """local function clock()
local time = redis.pcall('time')
if time[1] then return time end
local left = redis.call('pttl', KEYS[1])
if left == -2 then
redis.call('del', KEYS[1])
redis.call('set', KEYS[1], '', 'pxat', '4102444800000')
else
redis.call('pexpireat', KEYS[1], '4102444800000')
end
local now = 4102444800000 - redis.call('pttl', KEYS[1])
if left == -2 then
redis.call('del', KEYS[1])
elseif left == -1 then
redis.call('persist', KEYS[1])
else
redis.call('pexpireat', KEYS[1], string.format('%.0f', now + math.max(left, 1)))
end
return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)}
end """.replace("\n", " ")
"""The function that tells the time, for scripts that need it."""


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
        text = CLOCK + text.replace("redis.call('time')", "clock()")
    text = _TIME.sub(lambda found: str(round(TIMES[found[0]] * 1000)), text)
    text = text.replace("NUMSUB", f"'{MESSAGES[publish]}'")
    if not publish:
        return (_NO_MESSAGE if "PUBLISH" in text else "") + _PUBLISHING.sub("unsent(", text)
    if "redis.call(PUBLISH," in text:
        tell = _TELL.replace("'PUBLISH'", f"'{publish}'")
        text = tell + text.replace("redis.call(PUBLISH,", "tell(")
        text += _ANSWER.replace("PUBLISH", publish)
    return text.replace("(PUBLISH,", f"('{publish}',")
