"""A prefix: a tenant of a server reaches its own locks and no others, and sees them alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.operations.on_call import find_a_deadlock, operate
from tests.support.cards import own_keys
from tests.support.holding import held
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon
from tests.support.tenant import LOGIN, PREFIX, RIGHTS, admit, do_everything, refusals

import interlock
from interlock import ConfigError, connect
from interlock._core.insight.card import CARD, INDEX
from interlock.cli import main

if TYPE_CHECKING:
    from tests.objects.awaited import Face
    from tests.support.servers import RedisServer

WRONG = ["", "{acme}:", "acme{", "a b", "acme*", "a[b]", "a\\b", "a\n", b"acme:", 7, True, "\ud800"]


@pytest.mark.parametrize("prefix", [*WRONG, "interlock_a:", "redisson_lock__channel:"], ids=repr)
def test_a_prefix_that_cannot_be_is_refused(face: Face, prefix: Any) -> None:
    """Braces, blanks, wildcards, nothing, what is no text, and what all keys of ours begin with."""
    with pytest.raises(ConfigError, match="prefix"):
        face.module.connect("redis://localhost", prefix=prefix)


@pytest.mark.parametrize(
    "url",
    [
        *("redis://localhost?prefix=acme:", "redis://localhost/0?prefix=acme%3A&socket_timeout=3"),
        "rediss://localhost?ssl_cert_reqs=none&prefix=acme:",
        "unix:///tmp/it?db=1&prefix=acme:&socket_timeout=3",
        *("redis+sentinel://a,b/mymaster?prefix=acme:", "valkey+cluster://a,b?prefix=acme:"),
        *("embedded://test?prefix=acme:", "embedded://?prefix=acme:"),
    ],
)
def test_a_url_may_give_the_prefix(face: Face, url: str) -> None:
    """Every form of a URL takes it, and the rest of the URL counts as before."""
    client = face.module.connect(url)
    assert client.lock("x")._core.key == "acme:x"
    bare = url.replace("&prefix=acme:", "").replace("prefix=acme%3A&", "")
    assert client._where == face.module.connect(bare.replace("?prefix=acme:", ""))._where


def test_a_tenant_can_do_everything(any_server: RedisServer) -> None:
    """With the rights of a tenant, each object does all that it can: nothing is refused."""
    any_server.execute("SCRIPT", "FLUSH")
    admit([any_server])
    do_everything(any_server.url(0, *LOGIN))
    assert refusals([any_server]) == []


def test_a_tenant_can_operate(
    fresh_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands find and break a hold, and a deadlock is found: nothing is refused."""
    admit([fresh_server])
    url = f"{fresh_server.url(0, *LOGIN)}?prefix={PREFIX}"
    operate(url, capsys)
    find_a_deadlock(url)
    assert refusals([fresh_server]) == []


def test_doctor_prints_the_line(
    fresh_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line for a tenant has just these rights, and a server takes it; so does the narrow one."""
    assert main(["doctor", "--url", fresh_server.url(), "--prefix", PREFIX]) == 0
    [line] = [each for each in capsys.readouterr().out.split("\n") if "+@all" in each]
    assert line.endswith(RIGHTS)
    fresh_server.execute("ACL", "SETUSER", "app", *line.split()[2:])
    url = fresh_server.url(0, "app", "secret")
    with connect(url, prefix=PREFIX) as client, client.lock("x"):
        pass
    words = ("doctor", "--url", url, "--prefix", PREFIX, "--try", "--json")
    assert main([*words, "--for", "lock", "--for", "operator"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tenant"] == line
    fresh_server.execute("ACL", "SETUSER", "narrow", *told["acl"].split()[2:])
    with connect(fresh_server.url(0, "narrow", "secret"), prefix=PREFIX) as client:
        held(client.lock("x"))
        assert [info.name for info in client.locks()] == ["x"]
    assert refusals([fresh_server]) == []


def test_other_names_are_out_of_reach(fresh_server: RedisServer) -> None:
    """The keys of other tenants, and those without a prefix, are refused to a tenant."""
    admit([fresh_server])
    url = fresh_server.url(0, *LOGIN)
    for prefix in (None, "other:", "acm"):
        with (
            connect(url, prefix=prefix, card=False) as client,
            pytest.raises(interlock.ServerUnavailableError) as refused,
        ):
            client.lock("x").acquire(timeout=0)
        assert refused.value.code == "NOPERM"


def test_names_are_told_without_the_prefix(
    redis_url: str, redis_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists, accounts, errors, events and notes have the names that the user gave."""
    told: list[Any] = []

    class Listening(interlock.observe.Observer):
        def acquired(self, event: Any) -> None:
            told.append(event.name)

    def run(*words: str) -> str:
        _ = main([*words, "--url", redis_url, "--prefix", PREFIX])
        return capsys.readouterr().out

    with (
        renews_soon(connect(redis_url, prefix=PREFIX)) as client,
        connect(redis_url, prefix=PREFIX) as other,
    ):
        client.observe(Listening())
        holds = [held(client.lock("x")), held(client.fair_lock("orders:fair"))]
        elected = client.election("e")
        assert elected.acquire()
        assert client.leased_semaphore("s", 2).acquire()
        wait_until(lambda: redis_client.keys("interlock_client:*"), GIVE_UP, "the card is written")
        assert redis_client.zrange(f"{INDEX}:{{{PREFIX}}}", 0, -1) == [client.client_id.encode()]
        assert redis_client.exists(CARD.format(PREFIX + client.client_id))

        names = {"x": "lock", "orders:fair": "lock", "e": "election", "s": "leased_semaphore"}
        assert {info.name: info.kind for info in other.locks()} == names
        assert {info.name for info in other.locks("[xe]")} == {"x", "e"}
        for name in names:
            info = other.describe(name)
            assert info is not None
            assert (info.name, info.holders[0].client.pid is not None) == (name, True)
        assert other.describe("acme:x") is None
        assert [hold.name for hold in client.holds()] == ["x", "orders:fair", "e"]
        with pytest.raises(interlock.AcquireTimeoutError) as late, other.lock("x", timeout=0.1):
            pass
        assert "lock 'x'" in str(late.value)
        told_by_commands = run("list") + run("why", "x") + run("why", "e")
        assert PREFIX not in told_by_commands.replace(f"--prefix {PREFIX}", "")
        assert f"interlock break --url {redis_url} --prefix {PREFIX} x" in told_by_commands
        assert run("break", "x", "--reason", "stuck").startswith("broke the hold")
        wait_until(holds[0].lost.is_set, GIVE_UP, "the holder is told")
        wait_until(lambda: len(told) == 4, GIVE_UP, "the observer is told")
        assert sorted(told) == ["e", "orders:fair", "s", "x"]
        for name in ("y", "fair"):
            redis_client.set(f"{PREFIX}{name}", "no lock", ex=60)
        for make, name in ((client.lock, "y"), (client.fair_lock, "fair")):
            with pytest.raises(interlock.WrongTypeError) as wrong:
                make(name).acquire()
            assert f"found: {name!r} is a string" in str(wrong.value)
            assert PREFIX not in str(wrong.value)
            assert wrong.value.keys[0] == f"{PREFIX}{name}"
        assert "the key" not in run("why", "y")


def test_tenants_share_nothing(redis_url: str, redis_client: Any) -> None:
    """Locks of one name under two prefixes, and without one, are three; so are their lists."""
    options = [{}, {"prefix": "acme:"}, {"prefix": "other:"}]
    clients = [connect(redis_url, **each) for each in options]
    for client in clients:
        held(client.lock("x"))
    assert own_keys(redis_client) == {"x", "acme:x", "other:x"}
    listed = [sorted(info.name for info in client.locks()) for client in clients]
    assert listed == [["acme:x", "other:x", "x"], ["x"], ["x"]]
    for client in clients:
        client.close()
