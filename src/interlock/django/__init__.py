"""Locks in Django: one client per process, from the setting ``INTERLOCK``.

```python
INSTALLED_APPS = [..., "interlock.django"]  # for `manage.py interlock_run`
INTERLOCK = "redis://localhost:6379/0"  # or {"URL": ..., "OPTIONS": {"lease": 10}}
```

Without the setting, ``INTERLOCK_URL`` and ``REDIS_URL`` count, as for `interlock.connect`.
"""

# Django has no types.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.core.signals import setting_changed

from interlock.errors import ConfigError
from interlock.sync import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock import Client, Hold, Lock

__all__ = ["client", "lock", "read_settings", "try_lock"]

_making = threading.Lock()
_client: Client | None = None


def _after_fork() -> None:
    """Unlock the lock in the child: a thread of the parent may have it."""
    global _making  # noqa: PLW0603 - no thread of this process has it
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)


def lock(
    name: str,
    *,
    timeout: float | None = None,
    lease: float | None = None,
    reentrant: bool = True,
    owner: str | None = None,
) -> Lock:
    """Return the lock *name*; arguments as for `interlock.Client.lock`. No round trip.

    Take it outside of ``transaction.atomic()``: a lock that is released before the commit lets the
    next holder read what the database was before.
    """
    return client().lock(name, timeout=timeout, lease=lease, reentrant=reentrant, owner=owner)


def try_lock(name: str, *, timeout: float = 0, lease: float | None = None) -> Hold:
    """Return a hold of the lock *name*, or an empty one: ``with`` it, and ask ``if hold``.

    Arguments, errors and cost as for `interlock.Client.try_lock`.
    """
    return client().try_lock(name, timeout=timeout, lease=lease)


def client() -> Client:
    """Return this process's client, for every other kind of lock; no round trip.

    Raises:
        ConfigError: the setting ``INTERLOCK`` cannot work.
    """
    global _client  # noqa: PLW0603 - one for each process, as the settings are
    with _making:
        if _client is None:
            url, options = read_settings()
            _client = connect(url, **options)
        return _client


def read_settings() -> tuple[str | None, Mapping[str, Any]]:
    """Return the URL and the options of the setting ``INTERLOCK``.

    Raises:
        ConfigError: it is neither a URL nor a dict of ``URL`` (a str) and ``OPTIONS`` (a dict).
    """
    given = cast("object", getattr(settings, "INTERLOCK", None))
    if given is None or isinstance(given, str):
        return given, {}
    if not isinstance(given, dict) or set(cast("dict[str, Any]", given)) - {"URL", "OPTIONS"}:
        raise ConfigError(
            f"the setting INTERLOCK must be a URL or a dict of URL and OPTIONS, not {given!r}"
        )
    parts = cast("dict[str, Any]", given)
    url, options = parts.get("URL"), parts.get("OPTIONS", {})
    if url is not None and not isinstance(url, str):
        raise ConfigError(f"URL of the setting INTERLOCK must be a str, not {type(url).__name__}")
    if not isinstance(options, dict):
        raise ConfigError(f"OPTIONS of the setting INTERLOCK must be a dict, not {options!r}")
    return url, cast("dict[str, Any]", options)


def _forget(*, setting: str, **_: object) -> None:
    """Close the client when a test overrides the setting."""
    global _client
    if setting == "INTERLOCK":
        with _making:
            closing, _client = _client, None
        if closing is not None:
            closing.close()


setting_changed.connect(_forget)
