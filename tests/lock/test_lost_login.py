"""A hold that is lost because the server refuses the client's login tells so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.holding import held
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

from interlock import Options, connect
from interlock._links.urls import open_url
from interlock.errors import HoldLostError
from interlock.inspection import Reader

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

CAUSE = "the last renewal failed: "


def set_password(server: redis.Redis, password: str) -> None:
    """Give the user of the program another password, and end its connections."""
    server.execute_command(
        *("ACL", "SETUSER", "app", "on", "resetpass", f">{password}"),
        *("allkeys", "allchannels", "+@all"),
    )
    server.client_kill_filter(user="app")


def test_a_refused_login_is_named_as_the_cause_of_a_loss(fresh_server: RedisServer) -> None:
    """After a change of the password, the error and the card tell how the renewal failed."""
    url = fresh_server.url()
    with fresh_server.client() as server:
        set_password(server, "old")
        with renews_soon(connect(url.replace("redis://", "redis://app:old@"), lease=8)) as client:
            hold = held(client.lock("stuck"))
            wait_until(lambda: server.keys("interlock_client:*"), GIVE_UP, "a card tells of it")
            set_password(server, "new")
            assert hold.lost.wait(GIVE_UP)
            with pytest.raises(HoldLostError, match="WRONGPASS") as caught:
                hold.ensure()
            assert caught.value.reason == "unreachable past validity"
            assert caught.value.detail.startswith(CAUSE)
            set_password(server, "old")

            def told() -> str:
                with Reader(*open_url(url, Options())) as reader:
                    end = reader.last_end("stuck")
                return "" if end is None else end.why

            wait_until(lambda: "WRONGPASS" in told(), GIVE_UP, "its card tells how it ended")
            assert told().startswith("unreachable past validity: ")
