"""Servers for tests: a real one, and a fake one that needs no server program.

```python
with interlock.testing.fake() as client, client.lock("orders:42"):
    ...
```

pytest has them as the fixtures ``interlock_server`` and ``interlock_fake``.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from interlock._links.urls import open_url
from interlock.options import OptionChanges, options_of
from interlock.sync import Client

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["FakeClient", "fake", "server"]

_LINGER = 5.0
"""Seconds that a real server outlives a test process that was killed."""


@contextmanager
def server() -> Generator[str]:
    """Run a private, empty server that saves nothing, and yield its ``unix://`` URL.

    It needs a POSIX system, and a server program or the extra ``embedded``. It ends with the block,
    or a few seconds after the process was killed.

    Raises:
        ConfigError: there is no server program.
        ServerUnavailableError: the server did not start within 10 seconds.
    """
    from interlock._embedded import EmbeddedServer  # noqa: PLC0415 - needs a POSIX system

    # The temporary directories of test runners have paths too long for a socket.
    with tempfile.TemporaryDirectory(prefix="interlock-") as directory:
        embedded = EmbeddedServer(Path(directory))
        try:
            # While it is joined, its supervisor sends it nothing, so that tests can count commands.
            with embedded.joined(linger=_LINGER) as url:
                yield url
        finally:
            embedded.stop()


class FakeClient(Client):
    """A client of a fake server.

    Attributes:
        url: where the server is, for the code under test and for further clients, asyncio's too.
    """

    def __init__(self, url: str, **options: Unpack[OptionChanges]) -> None:
        super().__init__(*open_url(url, options_of(None, options)))
        self.url = url


@contextmanager
def fake(**options: Unpack[OptionChanges]) -> Generator[FakeClient]:
    """Run fakeredis, empty, in threads of this process, and yield a client of it.

    The client and its scripts are the real ones. The server listens on a free port of the loopback
    interface, and ends with the block.

    All objects work on it. The fake has no cluster, no replicas and no TLS.

    Args:
        **options: fields of `Options` for the client, such as ``lease=1``.

    Raises:
        ConfigError: an option that cannot work.
        ModuleNotFoundError: the extra ``testing`` is not installed.
    """
    try:
        from interlock.testing._fakeredis import serving  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}: the fake server needs it, pip install 'interlock[testing]'", name=error.name
        ) from None
    with serving() as url, FakeClient(url, **options) as client:
        yield client
