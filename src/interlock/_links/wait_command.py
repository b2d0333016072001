"""The question to replicas that is sent after a script, and the meaning of the answers.

There is no I/O here, only bytes and numbers.

WAIT counts the replicas that have the writes of its connection. It takes a number, not "all". So
INFO is sent with it in the same write, and tells how many replicas are connected. The next WAIT
asks for that number. If a WAIT has asked for too few, it is sent once more.

The first call of a script goes with the text. The server may not know the digest, for example after
a failover. Then replicas would be waited for in vain before the text is sent.

Prior art: syncedEval of Redisson 4.7.0, which learns the number beforehand.
"""

from __future__ import annotations

import re
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, cast

from interlock._links.replies import refusal
from interlock._links.resp import ReplyError, pack
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Eval
    from interlock._core.model.replication import Replication
    from interlock._links.connection import Connection

_DEMOTED = re.compile("^UNBLOCKED|cannot be used with replica")
_CONNECTED = re.compile(rb"connected_slaves:(\d+)")

_pack = lru_cache(maxsize=64)(pack)


class WaitCommand:
    """One question about all grants of *calls*, which share a policy.

    Args:
        calls: the scripts.
        link: the connection that they are sent on.

    Attributes:
        timeout: seconds that the replicas are given.
        answers: how many replies the commands get.
    """

    def __init__(self, calls: Sequence[Eval[object]], link: Connection) -> None:
        requirements = [call.replication for call in calls if call.replication is not None]
        self._calls = calls
        self._link = link
        self._policy = requirements[0].policy
        self.timeout = max(wish.timeout for wish in requirements)
        self._until = monotonic() + self.timeout
        self._all = self._policy.count == "all"
        self._asked = 0
        self._wanted = self._number()
        self._acknowledged = 0
        self._problem = self._demoted = ""
        self.answers = 2 if self._all else 1

    def commands(self) -> list[bytes]:
        """Return the commands to send."""
        self._asked = self._wanted
        left = max(1, round((self._until - monotonic()) * 1000))
        if self._policy.fsync:
            wait = _pack(("WAITAOF", 1, self._asked, left))
        else:
            wait = _pack(("WAIT", self._asked, left))
        return [wait, _pack(("INFO", "replication"))] if self._all else [wait]

    def heard(self, answers: Sequence[object]) -> bool:
        """Take the *answers*; return whether they are final. If not, ask again."""
        for answer in answers:
            if isinstance(answer, ReplyError):
                text = str(answer)
                if _DEMOTED.search(text):
                    self._demoted = text
                else:
                    self._problem = f"its server cannot tell what replicas have ({text})"
                return True
        self._count(answers[0])
        if not self._all:
            return True
        self._link.replicas = _connected(answers[1])
        self._wanted = self._number()
        return self._acknowledged >= self._wanted or self._asked >= self._wanted

    def grants(self, replies: Sequence[object]) -> list[int]:
        """Return the places of the grants among the *replies* to the calls."""
        return [
            place
            for place, (call, reply) in enumerate(zip(self._calls, replies, strict=True))
            if call.replication is not None and call.replication.concerns(call.script.decode, reply)
        ]

    def conclude(self, replies: list[object]) -> None:
        """Put an error into *replies* for each grant that is not replicated well enough."""
        for place in self.grants(replies):
            call = self._calls[place]
            try:
                if self._demoted:
                    raise self._lost(call)
                cast("Replication", call.replication).conclude(
                    self._acknowledged, self._wanted, self._link.where, self._problem
                )
            except InterlockError as error:
                replies[place] = error

    def _lost(self, call: Eval[object]) -> InterlockError:
        """Return the error for a grant whose primary became a replica before others had it."""
        error = refusal(
            f"READONLY {self._demoted}",
            call,
            self._link.where,
            moves=self._link.moves,
            served=self._link.served,
        )
        if isinstance(error, ServerUnavailableError):
            error.sent = True
        return error

    def _number(self) -> int:
        """Return how many replicas must have the grants, as far as is known."""
        if self._policy.count != "all":
            return self._policy.count
        # A primary that is cut off from all of its replicas counts 0 of them. That must not be
        # enough.
        return max(self._link.replicas, 1 if self._policy.mode == "required" else 0)

    def _count(self, answer: object) -> None:
        if not self._policy.fsync:
            self._acknowledged = cast("int", answer)
            return
        here, self._acknowledged = cast("list[int]", answer)
        if not here and self._policy.mode == "required":
            self._problem = f"its server did not have it on disk in {self.timeout:g} s"


def _connected(info: object) -> int:
    match = _CONNECTED.search(cast("bytes", info))
    return int(match[1]) if match else 0
