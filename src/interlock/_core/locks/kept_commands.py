"""The commands that an owner sends for a lock each time: encoded once, and sent again.

An owner that takes the same lock again and again sends the same bytes. To encode them anew takes a
large part of an acquire. So a lock keeps them for its last owner, from the second time on.
`LockBase.kept_for` leads to them. Two methods that every acquire and release runs have it inlined:
a call more there costs 2.5 % of the instructions of a pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._core.model.holds import Hold
    from interlock._core.scripts.script import Grant


class KeptCommands:
    """The commands that a holder sends for a lock each time.

    Attributes:
        client_id, number: the parts of its holder id.
        holder, lease: the holder id and the lease of the holds that these commands serve.
        acquire: the first try, if nobody waits here.
        waiting: the tries of a client that stands in the server's queue, by whether others wait
            here, and whether it stands in the holder's name.
        renewal: what keeps its hold for another lease; None until it is needed.
        release: the release from depth 1.
    """

    __slots__ = (
        "acquire", "client_id", "holder", "lease", "number", "release", "renewal", "waiting"
    )  # fmt: skip

    def __init__(
        self,
        client_id: str,
        number: int,
        hold: Hold,
        acquire: Eval[Grant | float],
        release: Eval[int],
    ) -> None:
        self.client_id = client_id
        self.number = number
        self.holder = hold.holder
        self.lease = hold.lease
        self.acquire = acquire
        self.release = release
        self.renewal: Eval[list[bool]] | None = None
        self.waiting: dict[tuple[bool, bool], Eval[Grant | float]] = {}

    def keep_waiting(self, call: Eval[Grant | float]) -> None:
        """Keep a copy of *call*, a try that was not sent yet."""
        if call.spare_args:  # else the place has just ended
            _, others_wait, _, *starts = call.args[-call.spare_args :]
            kept = self.waiting[bool(others_wait), bool(starts)] = call.anew()
            kept.deadline = NEVER
