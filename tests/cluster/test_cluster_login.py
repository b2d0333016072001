"""Users with few rights, and TLS: as on one server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cluster.seen import route
from tests.objects.awaited import KINDS, Stage, renewed
from tests.support.servers import ClusterServers, main_binary

from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from tests.objects.awaited import Face

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "acl.md"
RULE = re.search(r"^user app (.*)$", DOCUMENT.read_text(), re.MULTILINE)
assert RULE is not None
SECTION = DOCUMENT.read_text().partition("### In a cluster")[2].partition("###")[0]
TABLE = "".join(line for line in SECTION.splitlines() if line.startswith("|"))
ON_TOP = re.findall(r"`\+([^`]+)`", TABLE)
OF_CLUSTERS = [right.replace("\\|", "|") for right in ON_TOP]
RIGHTS = [right for right in RULE[1].split() if not right.endswith(("publish", "subscribe"))] + [
    f"+{right}" for right in OF_CLUSTERS
]
NAME = "locks:a"
PASSWORD = "p@ss/w:rd"


async def test_the_documented_user_can_do_everything(plain: Stage, cluster: ClusterServers) -> None:
    """With only the documented rights a plain lock is acquired, renewed, waited for and released.

    Its slot moves meanwhile.
    """
    for node in cluster.nodes:
        node.execute("ACL", "SETUSER", "app", "reset", *RIGHTS)
    url = cluster.url("app", "secret")
    ours, theirs = plain.client(url, lease=4).lock(NAME), plain.client(url).lock(NAME)
    holder, waiter = plain.owner(), plain.owner()
    with cluster.migrate_slot(*route(cluster, NAME)) as move:
        assert await holder.do(ours.acquire, timeout=5)
        move(10)
        assert await holder.do(ours.hold_count) == 1
    await renewed(await holder.do(lambda: ours.hold))
    assert await holder.do(ours.owned)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=20))
    await plain.waits()
    await holder.do(ours.release)
    assert await waiting
    await waiter.do(theirs.release)
    assert plain.left_behind() == set()


async def test_a_slot_moves_without_the_right_to_ask(plain: Stage, cluster: ClusterServers) -> None:
    """The error tells what is missing, and not that the nodes do not agree."""
    rights = [right for right in RIGHTS if right != "+asking"]
    for node in cluster.nodes:
        node.execute("ACL", "SETUSER", "app", "reset", *rights)
    lock, owner = plain.client(cluster.url("app", "secret")).lock(NAME), plain.owner()
    with cluster.migrate_slot(*route(cluster, NAME)):
        with pytest.raises(ServerUnavailableError) as caught:
            await owner.do(lock.acquire, timeout=5)
        assert caught.value.code == "NOPERM"


@pytest.mark.needs("tls")
async def test_tls_and_passwords(face: Face) -> None:
    """Every node gets TLS and the URL's certificates and credentials, even an unnamed one.

    The credentials may come from a provider, too.
    """
    with ClusterServers(binary=main_binary(), tls=True, password=PASSWORD) as cluster:
        first = cluster.nodes[0]
        url = first.url().replace("rediss://", "rediss+cluster://")
        with first.client() as seen:
            stage = Stage(face, KINDS[0], url, seen)
            # The client connects to three nodes. A busy machine takes its time for each handshake.
            named, owner = stage.client(command_timeout=15), stage.owner()
            scheme, _, rest = url.partition("://")
            bare = f"{scheme}://{rest.rpartition('@')[2]}"
            given = stage.client(bare, command_timeout=15, credentials=lambda: (PASSWORD,))
            for number in range(12):
                for client in (named, given):
                    lock = client.lock(f"name {number}")
                    assert await owner.do(lock.acquire, timeout=30)
                    await owner.do(lock.release)
            plain_client = stage.client(f"redis+cluster://127.0.0.1:{first.port}")
            with pytest.raises(ServerUnavailableError):
                await owner.do(plain_client.lock("name").acquire, timeout=10)
            await stage.end()
