"""The errors of interlock: attributes first, messages second.

```text
InterlockError
├── AcquireTimeoutError (TimeoutError)      not got in time
├── NotHeldError (RuntimeError)             released or extended by somebody else
├── HoldLostError (RuntimeError)            it was ours and is no more
├── ReentryError (RuntimeError)             a non-reentrant lock taken again by its owner
├── UpgradeError (RuntimeError)             a reader asked for the write lock
├── QuorumError                             too few servers of a red lock agreed
├── ReplicationError                        too few replicas acknowledged
├── LatchDeletedError (RuntimeError)        the latch that was waited for will not open
├── BrokenBarrierError (threading's)        not all parties of a barrier will come
├── ServerUnavailableError (ConnectionError) no usable answer from the server
├── WrongTypeError                          the key is something else's
├── ClosedError (RuntimeError)              the client is closed
└── ConfigError (ValueError)                an argument, option or URL that cannot work
```

The first two name the present holder when it is known. Every error survives pickling: the message
is the only positional argument, and attributes are keywords. Errors of redis-py appear only as
``__cause__``. A `MisuseWarning` tells of a call that works but is probably not meant.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

LossReason = Literal["expired", "force-released", "server lost it", "unreachable past validity"]


class MisuseWarning(UserWarning):
    """Something works, but probably does not do what the caller meant."""


class InterlockError(Exception):
    """Everything that interlock raises on its own account.

    Attributes:
        sent: True when the command may have been executed all the same.
    """

    sent: bool = False


class AcquireTimeoutError(InterlockError, TimeoutError):
    """The lock was not acquired in time.

    Attributes:
        name: what was asked for.
        timeout: seconds that the caller was ready to wait.
        holder: ``"<client id>:<number>"`` of the present holder, when the server could be asked.
        host, pid, program: the holder's process, where its card tells that; else empty or None.
        place: the line that acquired the lock, as ``file:line``; empty where no card tells.
    """

    def __init__(
        self, message: str, *, name: str = "", timeout: float = 0.0, holder: str | None = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.timeout = timeout
        self.holder = holder
        self.host = self.program = self.place = ""
        self.pid: int | None = None


class NotHeldError(InterlockError, RuntimeError):
    """The caller does not hold what it wants to release or extend; nothing was changed.

    Attributes:
        name: what was asked for.
        owner: who asked.
        holder: ``"<client id>:<number>"`` of the present holder; None when nobody holds it, or the
            server could not be asked.
    """

    def __init__(
        self, message: str, *, name: str = "", owner: str | None = None, holder: str | None = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner
        self.holder = holder


class HoldLostError(InterlockError, RuntimeError):
    """A hold ended before its owner released it.

    Attributes:
        name: what was held.
        reason: how it ended, as far as can be told from here. ``"expired"``: its own lease ended,
            or its process was paused until the validity was over. ``"unreachable past validity"``:
            renewals had no answer until then. ``"force-released"``: somebody released it by force,
            and left a note. ``"server lost it"``: it was gone from the server, and no note says
            why. It was deleted or evicted, or the server lost its data (a restart, a failover).
        detail: the reason that an operator gave who released it by force. For ``"server lost it"``
            it may name what may have happened. For ``"unreachable past validity"`` it tells how the
            last renewal failed, as far as that is known. Else it is empty.
    """

    def __init__(
        self,
        message: str,
        *,
        name: str = "",
        reason: LossReason = "expired",
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.name = name
        self.reason = reason
        self.detail = detail


class ReentryError(InterlockError, RuntimeError):
    """The owner of a non-reentrant lock asked for it again.

    Or a signal handler asked for a lock that its own thread was acquiring.

    Attributes:
        name: the lock.
    """

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class UpgradeError(InterlockError, RuntimeError):
    """A reader asked for the write lock, which would wait for the reader itself.

    Attributes:
        name: the lock.
    """

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class QuorumError(InterlockError):
    """Too few servers of a red lock could be asked.

    Attributes:
        causes: what went wrong, server by server.
    """

    def __init__(self, message: str, *, causes: Mapping[str, BaseException] | None = None) -> None:
        super().__init__(message)
        self.causes: dict[str, BaseException] = dict(causes or {})


class ReplicationError(InterlockError):
    """Too few replicas acknowledged what was granted; it is given back.

    Attributes:
        wanted: replicas that had to acknowledge.
        acknowledged: replicas that did.
        sent: True: the primary did what it was asked for, before it is undone.
    """

    sent: bool = True

    def __init__(self, message: str, *, wanted: int = 0, acknowledged: int = 0) -> None:
        super().__init__(message)
        self.wanted = wanted
        self.acknowledged = acknowledged


class LatchDeletedError(InterlockError, RuntimeError):
    """A count-down latch was deleted while it was waited for.

    Attributes:
        name: the latch.
    """

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class BrokenBarrierError(InterlockError, threading.BrokenBarrierError):
    """A barrier is broken: it was aborted or reset, or a party's time was up, or a party died.

    Attributes:
        name: the barrier.
    """

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class ServerUnavailableError(InterlockError, ConnectionError):
    """The server gave no usable answer.

    Attributes:
        code: the server's own error code (``"OOM"``, ``"NOPERM"``, ...), ``"CREDENTIALS"`` when
            ``credentials=`` gave none, or None when the connection failed.
        sent: True when the command may have been executed although no reply was read.
        transient: True when the same command may succeed later (a restart, a failover, a load).
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        sent: bool = False,
        transient: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.sent = sent
        self.transient = transient


class WrongTypeError(InterlockError):
    """The key exists and belongs to another kind of object; it was not touched.

    Attributes:
        keys: the keys of the refused operation.
        found: the type of each of them that exists, as Redis calls it; empty when the server did
            not tell.
    """

    def __init__(
        self, message: str, *, keys: tuple[str, ...] = (), found: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.keys = keys
        self.found: dict[str, str] = dict(found or {})


class ClosedError(InterlockError, RuntimeError):
    """The client was closed, or belongs to another event loop."""


class ConfigError(InterlockError, ValueError):
    """An argument, an option or a URL that cannot work; the message says what would."""
