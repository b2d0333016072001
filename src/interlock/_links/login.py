"""The credentials of a client: who asks for them, when, and which connections hear of new ones.

Rules:

* The user's provider may raise, hang or call ``sys.exit``. It runs in a thread of its own, for all
  callers that ask at the same time, and a caller waits a limited time. A call that hangs is left
  behind, and the next caller asks anew, while there are few of these.
* An answer serves until there is another one or a server refuses it. So a provider that fails or
  hangs is no reason to connect to nothing, and a slow one delays no connection.
* `version` grows with each other answer. A connection notes the version that it logged in with.
* While there are connections, a thread asks again before the answer ends. After a change it tells
  every follower, and again ever more rarely. A connection may be busy, or the server may not know
  the new credentials yet. A refused login leaves a connection as it was.
* No mutex: a signal handler or ``__del__`` may strike anywhere, and open a connection.
"""

from __future__ import annotations

import logging
import time
import weakref
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, Protocol, cast

from interlock._links.resp import pack
from interlock._links.shared import Shared, answer_of
from interlock.credentials import CredentialProvider
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

LIMIT = 3.0
"""Seconds after which a provider that does not answer hangs."""
MOST = 4
"""How many calls of a provider may hang at a time."""
EVERY = 60.0
"""Seconds after which a provider is asked again that does not say how long its answer works."""
EARLY = 0.8
"""The part of its life after which an answer is asked for anew."""
TICK = 0.05
"""Seconds after which followers are told of a change again; each next time it takes twice that."""
LONGEST = 5.0
"""The most of these seconds."""
LOOK = 1.0
"""Seconds between two looks for followers and new answers."""
_LOGGER = logging.getLogger("interlock")
Known = tuple[tuple[str, ...], int]
"""Credentials, and their version."""


class Follower(Protocol):
    """One or more connections that log in anew."""

    def log_in_anew(self) -> None:
        """Log in on each connection that has an older version; called in the login's thread."""


class Login:
    """The credentials that a provider gives; an endpoint takes them from here when it connects.

    Args:
        provider: an object with `get_credentials`, or a function that returns the same.

    Attributes:
        limit: seconds after which a provider that does not answer hangs.
    """

    def __init__(self, provider: Any) -> None:
        given = isinstance(provider, CredentialProvider)
        self._provider: Callable[[], object] = provider.get_credentials if given else provider
        self.limit = LIMIT
        self._known: Known = (), 0
        self._until = 0.0
        self._asking = Shared[None]("interlock-ask", here=False)
        self._asked_at = 0.0
        self._adopted_at = 0.0
        self._calls = set[object]()
        self._followers: weakref.WeakKeyDictionary[Follower, None] = weakref.WeakKeyDictionary()
        self._keeping = Shared[None]("interlock-credentials", here=False)
        self._refused = self._doubted = -1

    @property
    def version(self) -> int:
        """The number of the newest answer, which grows with each other one; 0 before the first."""
        return self._known[1]

    def now(self, seconds: float) -> Known:
        """Return the credentials, and their version; ask for them unless there are some that serve.

        Wait at most *seconds* for others than those that were refused. The first ones have longer.

        Raises:
            ServerUnavailableError: the provider raised, hangs, or answered with something else.
        """
        if self.version == 0 or self.doubted:
            seconds = min(self.limit, seconds) if self.version else self.limit
            try:
                answer_of(self._ask(), seconds)
            except NotYet:
                raise self._hangs(seconds) from None
        return self._known

    def follow(self, follower: Follower) -> None:
        """Tell *follower* of new credentials until `leave`, or for as long as it lives."""
        self._followers[follower] = None
        # If no thread can start, it does with a later follower.
        _ = self._keeping.begin(self, self._keep)

    def leave(self, follower: Follower) -> None:
        """Forget *follower*; it may have gone already."""
        _ = self._followers.pop(follower, None)

    def command(self) -> bytes:
        """Return the packed command that logs in with the newest answer."""
        return pack(("AUTH", *self._known[0]))

    def _hangs(self, seconds: float) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"the credentials did not come within {seconds:.3g} s: the provider hangs",
            code="CREDENTIALS",
            transient=self.version > 0,
        )

    @property
    def doubted(self) -> bool:
        """Whether a server has refused the newest credentials."""
        return self.version in (self._refused, self._doubted)

    def doubt(self, version: int) -> None:
        """Note that a server refused the answer of that *version* to a new connection."""
        self._doubted = max(self._doubted, version)

    def refused(self, error: Exception) -> None:
        """Note that a server refused the newest credentials on an open connection; log it once."""
        if self._refused != self.version:
            self._refused = self.version
            extra = {"event": "credentials.refused", "detail": str(error)}
            _LOGGER.warning("%s; open connections keep the former ones", error, extra=extra)

    def _ask(self) -> Future[None]:
        asked, now = self._asking.running(self), time.monotonic()
        if asked is not None and now >= self._asked_at + self.limit and len(self._calls) < MOST:
            self._asking.leave(self, asked)  # it hangs, and is left behind
            asked = None
        if asked is None:
            self._asked_at = now
        return self._asking.begin(self, self._call)

    def _call(self) -> None:
        """Call the provider, and adopt its answer unless a newer call was answered before."""
        began, call = time.monotonic(), object()
        self._calls.add(call)
        try:
            answer, seconds = _read(self._provider())
        except BaseException as error:
            raise _failed(error, transient=self.version > 0) from error
        finally:
            self._calls.discard(call)
        if began < self._adopted_at:
            return
        self._adopted_at = began
        self._until = time.monotonic() + seconds * EARLY
        if answer != self._known[0]:
            self._known = answer, self.version + 1

    def _keep(self) -> None:
        """Ask again and again, and tell the followers, as long as there are any."""
        told, pause, tell_at, failing = -1, TICK, 0.0, False
        while self._followers:
            now = time.monotonic()
            if now >= self._until:
                failing = not self._renew(log=not failing)
            if told != self.version:
                told, pause, tell_at = self.version, TICK, 0.0
            # Not with each answer: a connection that logs in is missing to those who want one.
            if now >= tell_at:
                for ref in self._followers.keyrefs():
                    follower = ref()
                    if follower is not None:
                        follower.log_in_anew()
                    del follower
                tell_at, pause = now + pause, min(pause * 2, LONGEST)
            time.sleep(max(min(tell_at, self._until, now + LOOK) - time.monotonic(), TICK))
        if (ends := self._keeping.running(self)) is not None:
            self._keeping.leave(self, ends)
        # One may have come just now, and have taken this thread for running.
        if self._followers:
            _ = self._keeping.begin(self, self._keep)

    def _renew(self, *, log: bool) -> bool:
        """Ask for a new answer; return whether one came. If none did, *log* that."""
        try:
            answer_of(self._ask(), self.limit)
        except (NotYet, ServerUnavailableError) as error:
            failure = (
                error if isinstance(error, ServerUnavailableError) else self._hangs(self.limit)
            )
        else:
            return True
        self._until = time.monotonic() + 1.0
        if log:
            extra = {"event": "credentials.failing", "detail": str(failure)}
            _LOGGER.warning(
                "%s; the former ones serve until a server refuses them", failure, extra=extra
            )
        return False


def _read(answer: object) -> tuple[tuple[str, ...], float]:
    """Return the credentials in a provider's *answer*, and for how many seconds they work."""
    if not isinstance(answer, tuple):
        raise TypeError(f"credentials must be (username, password), not {type(answer).__name__}")
    words = list(cast("tuple[object, ...]", answer))
    seconds = words.pop() if len(words) == 3 else EVERY / EARLY  # noqa: PLR2004
    if len(words) == 2 and words[0] in ("", b"", None):  # noqa: PLR2004
        del words[0]  # the default user
    texts = tuple(part.decode() if isinstance(part, bytes) else part for part in words)
    if len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
        raise TypeError("credentials must be (username, password), each a str")
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise TypeError("the seconds for which credentials work must be a number above 0")
    return cast("tuple[str, ...]", texts), float(seconds)


def _failed(error: BaseException, *, transient: bool) -> ServerUnavailableError:
    why = str(error) if isinstance(error, InterlockError) else f"{type(error).__name__}: {error}"
    return ServerUnavailableError(
        f"the credentials did not come: {why}", code="CREDENTIALS", transient=transient
    )
