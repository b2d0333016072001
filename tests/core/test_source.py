"""A server is sent a text in which each key and each command is literal."""

from __future__ import annotations

import pytest

from interlock._core.scripts.source import sent

SOURCE = """\
-- sample: a key's name is not looked for in comments (lock) or strings.
local lock, queue, holder, keys = KEYS[1], KEYS[2], ARGV[1], KEYS
local wait = tonumber(ARGV[2])

for _, each in ipairs(keys) do
  lock = each -- for the call below
  redis.call('hget', lock, 'lock queue', holder.lock, lock:sub(1))
end
if queue then
  redis.call(PUBLISH, wait, redis.pcall('pubsub', NUMSUB, wait))
end
"""
LITERAL = """\

local holder = ARGV[1]
local wait = tonumber(ARGV[2])

for _, each in ipairs(KEYS) do
  KEYS[1] = each
  redis.call('hget', KEYS[1], 'lock queue', holder.lock, KEYS[1]:sub(1))
end
if KEYS[2] then
  tell( wait, redis.pcall('pubsub', 'numsub', wait))
end
"""


def test_keys_and_commands_are_literal() -> None:
    """Names of keys become ``KEYS[n]``; comments go, and every line keeps its number."""
    text = sent(SOURCE, "PUBLISH")

    assert text.startswith("local unsent = {} local function tell(")
    assert LITERAL in text
    assert text[: text.index(LITERAL)].count("\n") == 0, "numbers of lines in errors are right"


@pytest.mark.parametrize(
    ("publish", "call", "question"),
    [
        ("PUBLISH", "redis.pcall('PUBLISH', channel", "'numsub'"),
        ("SPUBLISH", "redis.pcall('SPUBLISH', channel", "'shardnumsub'"),
        ("", "unsent( wait", "'numsub'"),
    ],
)
def test_messages_have_a_literal_command(publish: str, call: str, question: str) -> None:
    """Each variant has one command for messages, and one without messages has none."""
    text = sent(SOURCE, publish)

    assert call in text
    assert f"redis.pcall('pubsub', {question}, wait)" in text
    assert ("PUBLISH" in text) == bool(publish)
