"""A server that cannot keep this user's locks: the error says what to do."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.support.servers import RedisServer, binaries, main_binary

from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from tests.objects.awaited import Face


async def _refused(face: Face, url: str, code: str) -> str:
    client, owner = face.module.connect(url), face.owner()
    with pytest.raises(ServerUnavailableError) as caught:
        await owner.do(client.lock("name").acquire, timeout=60)
    assert caught.value.code == code
    assert not caught.value.transient
    await owner.do(client.close)
    await owner.end()
    return str(caught.value)


async def test_a_sentinel(face: Face) -> None:
    """The address of a Sentinel is no address of a server: the error has the URL's form."""
    with RedisServer(main_binary(), sentinel=True) as sentinel:
        told = await _refused(face, f"redis://127.0.0.1:{sentinel.port}", "NOLUA")
    assert "redis+sentinel://HOST:26379/SERVICE" in told


@pytest.mark.parametrize("version", ["valkey-9.1"])
async def test_a_server_without_its_module_for_scripts(face: Face, version: str) -> None:
    """Since Valkey 9.1 scripts are a module, which may be missing."""
    config = {"enable-module-command": "yes"}
    with RedisServer(binaries()[version], config=config) as server:
        server.execute("MODULE", "UNLOAD", "lua")
        assert "the module lua" in await _refused(face, server.url(), "NOLUA")


@pytest.mark.parametrize("version", ["valkey-9.1"])
@pytest.mark.parametrize("database", [0, 2])
async def test_a_database_that_the_user_may_not_use(
    face: Face, version: str, database: int
) -> None:
    """Since Valkey 9.1 rights may be for single databases, which no line of commands gives."""
    with RedisServer(binaries()[version], users=["app on >secret ~* &* +@all db=1"]) as server:
        told = await _refused(face, server.url(database, "app", "secret"), "DATABASE")
        assert "`db=`" in told
        assert "doctor" not in told
        with closing(server.client()) as client:
            assert client.dbsize() == 0
