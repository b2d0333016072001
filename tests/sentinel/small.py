"""The smallest service: one server and one Sentinel, for all that needs no failover."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.servers import RedisServer, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.support.certificates import Certificates

SERVICE = "mymaster"


@contextmanager
def sentinel_of(
    primary: RedisServer,
    *,
    login: str = "",
    users: Sequence[str] = (),
    tls: Certificates | bool = False,
    config: Mapping[str, str | int] | None = None,
) -> Iterator[RedisServer]:
    """Give a Sentinel that watches *primary*.

    Args:
        primary: what it watches.
        login: the directives for its login there, without the service: ``auth-pass secret``.
        users: its own ACL rules.
        tls: with what certificates it speaks TLS.
        config: further directives.
    """
    directives: dict[str, str | int] = {
        f"sentinel monitor {SERVICE}": f"127.0.0.1 {primary.port} 1",
        f"sentinel down-after-milliseconds {SERVICE}": 5000,
    }
    for line in login.split(";") if login else ():
        name, _, value = line.strip().partition(" ")
        directives[f"sentinel {name} {SERVICE}"] = value
    directives |= config or {}
    binary = primary.binary
    with RedisServer(binary, sentinel=True, users=users, tls=tls, config=directives) as sentinel:
        yield sentinel


def knows(sentinel: RedisServer, username: str | None = None, password: str | None = None) -> None:
    def is_up() -> bool:
        with sentinel.client(0, username, password) as client:
            reply = client.execute_command("SENTINEL", "MASTER", SERVICE)
        state = dict(zip(reply[::2], reply[1::2], strict=True))
        return state[b"flags"] == b"master"

    wait_until(is_up, 30, "the Sentinel reaches its primary")
