"""Commands that may end a hold sooner, and whose outcome is not known.

Theory. A command that shortens a lease, or gives a lock away, is sent, and no reply comes. The
network may deliver it at any later time, even after later calls. If the hold was made valid for
longer meanwhile, two owners would hold the lock. So while such a command is in doubt, nothing makes
the hold valid for longer (`Hold.cut_at`). The *recall* is the same script without effect: after its
answer, copies of the command do nothing (`idempotency.once`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, R, Script, undoing
from interlock._core.upkeep.idempotency import copies_of

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session


def shortening(session: Session, hold: Hold, call: Eval[bool], recall: Eval[bool]) -> Op[bool]:
    """Send *call*, for which `Hold.ask_lease` was called; return its answer.

    If no answer comes, *call* may be executed at any later time. So nothing makes the hold valid
    for longer until *recall*, the same script without effect, was answered (`end_doubt`).
    """
    return undoing(session.persist(call), _doubt, session, hold, copies_of(call, recall))


def _doubt(session: Session, hold: Hold, recall: Eval[bool], error: BaseException) -> Op[None]:
    told = doubting(session, hold, recall)
    yield from session.clean_up(told, session.clock() + hold.lease, error=error)


def doubting(session: Session, hold: Hold, recall: Eval[R]) -> Eval[R]:
    """Note that *hold* may be ended sooner until *recall* is answered; return *recall* to send.

    The answer ends the doubt, also if the background gets it.
    """
    script = recall.script

    def decode(reply: object) -> R:
        answer = script.decode(reply)
        hold.end_doubt(session.clock())
        return answer

    recall.script = Script(script.name, script.text, decode)
    hold.doubt_lease(recall)
    return recall.anew()


def end_doubt(session: Session, hold: Hold) -> Op[None]:
    """Make commands without an answer that may end *hold* sooner do nothing from now on."""
    if hold.cut_at == NEVER:
        call = hold.recall.anew()
        call.deadline = min(hold.valid_until, session.clock() + session.options.outage_timeout)
        _ = yield from session.persist(call)
