"""The fenced lock: each hold has a token that is larger than all earlier ones.

Its hash, its queue and its place are the plain lock's. A release draws the token of the next
holder. A command has the largest token that the client knows, so that a counter that went back in a
failover goes on from there.

Source: RFencedLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Lock
from interlock._core.model.forms import HOLE, MORE, Form, Spliced
from interlock._core.model.names import fence_token, packed_text
from interlock._core.model.tokens import EPOCH_BITS, WEAKER
from interlock._core.scripts import locks as scripts
from interlock._core.scripts.replies import Grant, milliseconds

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.hold import Hold
    from interlock._core.scripts.replies import News
    from interlock._core.upkeep.session import Session


class _FencedForm(Form):
    """A form with a second hole, for what the token must exceed."""

    __slots__ = ("_lock",)

    def __init__(self, lock: FencedLock, *parts: Any) -> None:
        super().__init__(*parts)
        self._lock = lock

    def of(self, hold: Hold) -> Eval[Any]:
        call: Any = Spliced()
        call.script, call.form, call.hold = self.script, self, hold
        call.more = self._lock.floor()
        floor = packed_text(str(call.more))
        call.packed = f"{self.head}{hold.packed}{self.middle}{floor}{self.tail}".encode()
        return call  # type: ignore[no-any-return]


class FencedLock(Lock):
    """A plain lock whose holds have tokens."""

    kind = "fenced lock"
    asks, releases = scripts.FENCED_ASK, scripts.FENCED_RELEASE

    def __init__(self, session: Session, name: str, key: str, **options: Any) -> None:
        self.own_keys = (fence_token(key),)
        self._unit = 1 << EPOCH_BITS if session.outside.clustered else 0
        super().__init__(session, name, key, **options)

    def floor(self) -> int:
        """Return a number that every new token exceeds."""
        last, epoch = self.session.tokens.last(self.key), self.session.outside.epoch()
        return max(last, epoch << EPOCH_BITS) if epoch else last

    def _entering(self, lease: float, depth: int) -> Form:
        args = (milliseconds(lease), HOLE, depth, MORE, self._unit)
        return self._made(scripts.FENCED_ACQUIRE, (self.key, *self.own_keys), args)

    def _asking(self, lease: float, deaf: str) -> Form:
        lasts = milliseconds(lease)
        return self._form(self.asks, lasts, HOLE, self.channel, self._unit, MORE, *deaf)

    def _leaving(self, depth: int, how: str) -> Form:
        return self._form(self.releases, HOLE, depth, self.channel, how, self._unit, MORE)

    def _made(self, *parts: Any) -> Form:
        return _FencedForm(self, *parts)

    def attempt(self, hold: Hold, until: float, failure: Exception | None) -> Op[Any]:
        """Try as other locks do; a grant with a token that is too small asks for another one."""
        answer = yield from super().attempt(hold, until, failure)
        if self._too_small(hold, answer):
            call = self.confirmed(self.ask(hold), hold)
            answer = yield from self.session.persist(call, until, hold)
        return answer

    def _too_small(self, hold: Hold, answer: Any) -> bool:
        """Return whether *answer* grants *hold* with a token below others.

        Its command was made before a failover, or before the first connection told of the last one.
        """
        if not self.session.outside.epoch():
            return False  # there was none
        if answer.__class__ is not Grant or answer.token is None:
            return False
        floor: int = self.floor()
        return bool(answer.token < floor or (answer.token == floor and hold.token != floor))

    def granted(self, hold: Hold, answer: Any) -> bool:
        if self._too_small(hold, answer):
            hold.sent_at = 0.0  # as if it had not been tried: `rest` does that, and it is `asking`
            return False
        if answer.__class__ is Grant and answer.token is not None:
            self._note(hold, answer.token)
            outside = self.session.outside
            self.token_source = "epoch" if outside.counts_failovers else answer.source
            if outside.clustered and answer.source != "epoch":
                outside.note("token.source", WEAKER[answer.source])
        return super().granted(hold, answer)

    def started(self, hold: Hold, news: News) -> bool:
        """Return whether *hold*, which waits, is valid by the *news*; if not, it asks.

        It asks if a plain lock has granted it, without a token.
        """
        if news.token is None or news.token <= self.floor():
            return False
        self._note(hold, news.token)
        return super().started(hold, news)

    def _note(self, hold: Hold, token: int) -> None:
        hold.token = token
        self.session.tokens.note(self.key, token)
