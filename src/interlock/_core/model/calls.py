"""The calls of scripts, which the core asks for and `interlock._links` sends."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock._core.model.replication import Replication

R = TypeVar("R")
A = TypeVarTuple("A")
R_co = TypeVar("R_co", covariant=True)

NEVER = float("inf")
"""A deadline that never comes."""
GRACE = 0.15
"""Seconds for one round trip if the caller's time is already up."""


class Script(Generic[R_co]):
    """A Lua text, its digest, and how to read its reply.

    Attributes:
        name: the stem that the ``.lua`` file, the constructor in `scripts` and error messages
            share.
        text: what EVAL takes.
        sha: what EVALSHA takes.
        decode: turns the reply into core units (seconds, bool, str).
        varies: whether each call has other arguments, so that its packed form is not cached.
        called: the beginning of a packed call, up to the digest.
    """

    __slots__ = ("called", "decode", "name", "sha", "text", "varies")

    def __init__(
        self, name: str, text: str, decode: Callable[[object], R_co], *, varies: bool = False
    ) -> None:
        self.varies = varies
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.called = f"$7\r\nEVALSHA\r\n$40\r\n{self.sha}\r\n"
        self.decode = decode

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


@dataclass(slots=True)
class Eval(Generic[R_co]):
    """Run *script* atomically on the server that owns *keys*.

    Attributes:
        deadline: on the session's clock. A driver waits for the reply until then, and for
            `GRACE` at least, but no longer than the command time-out.
        replication: what replicas must acknowledge, if they are asked. That takes additional time.
        packed: the encoded command, once it has been made.
        spare_keys: how many of the last keys may be left out. One is the queue of waiters, which is
            often missing. While a slot moves, a server refuses a call with a missing key. It always
            refuses a key that the user has no right to. Then the call is sent again without them.
        spare_args: how many of the last arguments are left out with these keys. They are about the
            queue, or about the answer to this call, which the server remembers.

    Raises:
        ServerUnavailableError: no usable answer; its ``sent`` tells whether the script may have
            run.
        WrongTypeError: a key holds something else.
        ReplicationError: too few replicas have what it granted.
    """

    script: Script[R_co]
    keys: tuple[str, ...]
    args: tuple[str | int, ...]
    deadline: float = NEVER
    replication: Replication | None = None
    packed: bytes | None = None
    spare_args: int = 0
    spare_keys: int = 0

    def anew(self) -> Eval[R_co]:
        """Return an unsent copy of this call."""
        # By place: names cost as much as the object.
        return Eval(
            self.script,
            self.keys,
            self.args,
            self.deadline,
            self.replication,
            self.packed,
            self.spare_args,
            self.spare_keys,
        )

    def __iter__(self) -> Generator[Any, Any, R_co]:
        return self.script.decode((yield self))


LATE: Final = object()
"""What a `Gather` tells of a call whose reply nobody waited for."""
