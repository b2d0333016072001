"""Locks in Django: one client per process, from the setting ``INTERLOCK``.

```python
INTERLOCK = "redis://localhost:6379/0"  # or {"URL": ..., "OPTIONS": {"lease": 10}}
```

Without the setting, ``INTERLOCK_URL`` and ``REDIS_URL`` count, as for `interlock.connect`.
"""

# Django has no types.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.core.signals import setting_changed

from interlock.errors import ConfigError
from interlock.sync import connect

if TYPE_CHECKING:
    from interlock import Client, Lock

__all__ = ["client", "lock"]

_made: dict[str, Client] = {}


def lock(
    name: str, *, timeout: float | None = None, lease: float | None = None, reentrant: bool = True
) -> Lock:
    """Return the lock *name*; arguments as for `interlock.Client.lock`. No round trip.

    Take it outside of ``transaction.atomic()``: a lock that is released before the commit lets the
    next holder read what the database was before.
    """
    return client().lock(name, timeout=timeout, lease=lease, reentrant=reentrant)


def client() -> Client:
    """Return this process's client, for every other kind of lock; no round trip.

    Raises:
        ConfigError: the setting ``INTERLOCK`` cannot work.
    """
    # Threads that come together share the first one's.
    return _made.get("client") or _made.setdefault("client", _connect())


def _connect() -> Client:
    given = cast("object", getattr(settings, "INTERLOCK", None))
    if given is None or isinstance(given, str):
        return connect(given)
    parts = cast("dict[str, Any]", given)
    if not isinstance(given, dict) or parts.keys() - {"URL", "OPTIONS"}:
        raise ConfigError(
            f"the setting INTERLOCK must be a URL or a dict of URL and OPTIONS, not {given!r}"
        )
    url, options = parts.get("URL"), parts.get("OPTIONS", {})
    if url is not None and not isinstance(url, str):
        raise ConfigError(f"URL of the setting INTERLOCK must be a str, not {type(url).__name__}")
    if not isinstance(options, dict):
        raise ConfigError(f"OPTIONS of the setting INTERLOCK must be a dict, not {options!r}")
    return connect(url, **cast("dict[str, Any]", options))


def _forget(*, setting: str, **_: object) -> None:
    """Close the client when a test overrides the setting."""
    if setting == "INTERLOCK" and (closing := _made.pop("client", None)) is not None:
        closing.close()


setting_changed.connect(_forget)
