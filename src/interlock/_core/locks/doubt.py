"""Commands that may end a hold sooner, and whose outcome is not known.

Theory. A command that shortens a lease, or gives a lock away, is sent, and no reply comes. The
network may deliver it at any later time, even after later calls. If the hold was made valid for
longer meanwhile, two owners would hold the lock. So while such a command is in doubt, nothing makes
the hold valid for longer (`Hold.cut_at`). The *recall* is the same script without effect: after its
answer, copies of the command do nothing (`idempotency.once`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import NEVER, Script

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session


def doubt(session: Session, hold: Hold, recall: Eval[Any], error: BaseException) -> Op[None]:
    """Note that *error* has left a command under way that may end *hold* sooner; send *recall*.

    `Hold.ask_lease` was called for the command. Until *recall* is answered, also to the background,
    nothing makes the hold valid for longer.
    """
    script = recall.script

    def decode(reply: object) -> object:
        answer: object = script.decode(reply)
        hold.end_doubt(session.clock())
        return answer

    recall.script = Script(script.name, script.text, decode)
    hold.doubt_lease(recall)
    yield from session.clean_up(recall.anew(), session.clock() + hold.lease, error=error)


def end_doubt(session: Session, hold: Hold) -> Op[None]:
    """Make commands without an answer that may end *hold* sooner do nothing from now on."""
    if hold.cut_at == NEVER:
        call = hold.recall.anew()
        call.deadline = min(hold.valid_until, session.clock() + session.options.outage_timeout)
        _ = yield from session.persist(call)
