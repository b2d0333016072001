"""The credentials of a client: who asks for them, when, and which connections hear of new ones.

Rules:

* The user's provider may raise, hang or call ``sys.exit``. It runs in a thread of its own, for all
  callers that ask at the same time, and a caller waits a limited time.
* `version` grows with each other answer. A connection notes the version that it logged in with.
* While there are connections, a thread asks again before the answer ends. After a change it lets
  every follower log in anew, several times: a connection may be busy, or just logging in.
* No mutex: a signal handler or ``__del__`` may strike anywhere, and open a connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, Protocol, cast

import redis

from interlock._links.resp import pack
from interlock.credentials import CredentialProvider
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 3.0
"""Seconds after which a provider that does not answer hangs."""
EVERY = 60.0
"""Seconds after which a provider is asked again that does not say how long its answer works."""
EARLY = 0.8
"""The part of its life after which an answer is asked for anew."""
SETTLE = 5.0
"""Seconds for which followers are told of a change: no connection is busy for longer."""
TICK = 0.05
LOOK = 5.0
"""Seconds after which the thread looks whether a client that was never closed is gone."""
_LOGGER = logging.getLogger("interlock")


class Follower(Protocol):
    """One or more connections that log in anew."""

    def log_in_anew(self) -> None:
        """Log in on each connection that has an older version; called in the login's thread."""
        ...


class Login(redis.CredentialProvider):
    """The credentials that a provider gives; redis-py asks it when it connects.

    Args:
        provider: an object with `get_credentials`, or a function that returns the same.

    Attributes:
        limit: seconds after which a provider that does not answer hangs.
        version: grows with each other answer; 0 before the first.
    """

    def __init__(self, provider: Any) -> None:
        given = isinstance(provider, CredentialProvider)
        self._provider: Callable[[], object] = provider.get_credentials if given else provider
        self.limit = LIMIT
        self.version = 0
        self._answer: tuple[str, ...] = ()
        self._until = 0.0
        # At most one entry: `setdefault` lets one caller in, wherever a signal strikes. The key is
        # the process: a forked child has none of its parent's threads.
        self._asked: dict[int, Future[tuple[str, ...]]] = {}
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        self._bell = threading.Event()
        self._keeper: tuple[int, threading.Thread] | None = None

    def get_credentials(self) -> Any:
        """Return what the provider answers now.

        Raises:
            ServerUnavailableError: it raised, hangs, or answered with something else.
        """
        try:
            return self._ask().result(self.limit)
        except NotYet:
            raise self._hangs() from None

    async def get_credentials_async(self) -> Any:
        """Do the same as `get_credentials`, without blocking the event loop."""
        asked = asyncio.wrap_future(self._ask())
        # Read its error: this caller may have gone when it comes.
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.wait_for(asyncio.shield(asked), self.limit)
        except TimeoutError:
            raise self._hangs() from None

    def follow(self, follower: Follower) -> None:
        """Tell *follower* of new credentials until `leave`, or for as long as it lives."""
        self._followers.add(follower)
        if self._kept():
            return
        self._bell = threading.Event()  # a forked child may have inherited one in use
        keeper = threading.Thread(
            target=_keep, args=(weakref.ref(self),), name="interlock-credentials", daemon=True
        )
        self._keeper = os.getpid(), keeper
        try:
            keeper.start()
        except RuntimeError:  # no thread can start: credentials come with each connection
            self._keeper = None

    def leave(self, follower: Follower) -> None:
        """Forget *follower*; it may have gone already."""
        self._followers.discard(follower)
        if self._kept():
            self._bell.set()

    def _kept(self) -> bool:
        """Return whether the thread runs that asks again; a fork ends it."""
        keeper = self._keeper
        return keeper is not None and keeper[0] == os.getpid() and keeper[1].is_alive()

    def command(self) -> bytes:
        """Return the packed command that logs in with the newest answer."""
        return pack(("AUTH", *self._answer))

    def _hangs(self) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"the credentials did not come within {self.limit:g} s: the provider hangs",
            code="CREDENTIALS",
            transient=self.version > 0,
        )

    def _ask(self) -> Future[tuple[str, ...]]:
        process, fresh = os.getpid(), Future[tuple[str, ...]]()
        asked = self._asked.setdefault(process, fresh)
        if asked is fresh:
            thread = threading.Thread(
                target=self._answer_to, args=(process, fresh), name="interlock-ask", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                _ = self._asked.pop(process, None)
                fresh.set_exception(_failed(error, transient=self.version > 0))
        return asked

    def _answer_to(self, process: int, asked: Future[tuple[str, ...]]) -> None:
        try:
            answer, seconds = _read(self._provider())
        except BaseException as error:  # noqa: BLE001 - the user's code, in a thread of ours
            _ = self._asked.pop(process, None)
            asked.set_exception(_failed(error, transient=self.version > 0))
            return
        self._until = time.monotonic() + seconds * EARLY
        if answer != self._answer:
            self._answer = answer
            self.version += 1
            self._bell.set()
        _ = self._asked.pop(process, None)
        asked.set_result(answer)

    def rest(self, until: float) -> bool:
        """Wait for the next `turn`, a change or a leave; return whether a follower is left."""
        now = time.monotonic()
        seconds = TICK if now < until else max(self._until - now, TICK)
        _ = self._bell.wait(min(seconds, LOOK))
        self._bell.clear()
        return len(self._followers) > 0

    def turn(self, told: int, until: float) -> tuple[int, float, str]:
        """Ask if it is time, and tell the followers of a change.

        Args:
            told: the version that they were told of last.
            until: the end of their time to log in with it.

        Returns:
            Both as they are now, and why the provider gave no answer (empty if it did).
        """
        failure = ""
        if time.monotonic() >= self._until:
            try:
                _ = self.get_credentials()
            except ServerUnavailableError as error:
                failure = str(error)
                self._until = time.monotonic() + 1.0
        if told != self.version:
            told, until = self.version, time.monotonic() + SETTLE
        if time.monotonic() < until:
            for follower in list(self._followers):
                follower.log_in_anew()
        return told, until, failure


def _keep(ref: weakref.ref[Login]) -> None:
    """Ask again and again, while the login and a follower of it live."""
    told, until, failing = 0, 0.0, ""
    while (login := ref()) is not None and login.rest(until):
        told, until, failure = login.turn(told or login.version, until)
        if failure and not failing:
            extra = {"event": "credentials.failing", "detail": failure}
            _LOGGER.warning("%s; open connections keep the former ones", failure, extra=extra)
        failing = failure
        del login


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
    failure = ServerUnavailableError(
        f"the credentials did not come: {why}", code="CREDENTIALS", transient=transient
    )
    failure.__cause__ = error
    return failure
