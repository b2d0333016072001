"""Messages that a server does not let scripts send: the client sends them behind the script.

Such a script has done its work. It answers with the error ``TELL``, the command that sends
messages, and a list of its answer and the messages. Words stand for values, so that nothing needs
escaping: ``:<number>``, ``$<hexadecimal digits of a text>``, ``*<length>`` before the values of a
list, ``_`` for nil. If the connection breaks before a message is answered, the message is sent by
another one. If the client dies before it has sent the messages, waiters look by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

TELL = "TELL "
"""How the error begins."""


class Told(NamedTuple):
    """The answer of a script, with the messages that it left to its client.

    Attributes:
        reply: the answer of the script.
        messages: commands that the client must send.
    """

    reply: object
    messages: list[tuple[str, str, str]]


def told_by(error: str) -> Told | None:
    """Return what the error ``TELL`` says; None if no script of ours has said that."""
    _, command, *words = error.split(" ")
    left = iter(words)
    try:
        reply, messages = cast("tuple[object, list[list[bytes]]]", _value(left))
        return Told(reply, [(command, one.decode(), other.decode()) for one, other in messages])
    except (StopIteration, TypeError, AttributeError, ValueError):
        return None


def _value(words: Iterator[str]) -> object:
    word = next(words)
    match word[:1]:
        case ":":
            return int(word[1:])
        case "$":
            return bytes.fromhex(word[1:])
        case "*":
            return [_value(words) for _ in range(int(word[1:]))]
        case _:
            return None
