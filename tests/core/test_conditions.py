"""The conditions of locks at the server, where no face can see a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.core import scripts_at

from interlock._core.model.names import (
    condition_key,
    fence_token,
    lock_channel,
    read_write_channel,
    reader_coming,
    waiting_queue,
)
from interlock._core.scripts import condition as scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "the name"
KEY = condition_key(NAME, "news")
HOLDER, NEXT = "a:000000000001", "a:000000000002"
KINDS = ["lock", "fenced", "write"]


class Server(scripts_at.Server):
    """What clients' scripts do at the server, one by one, with a lock of *kind*."""

    def __init__(self, client: redis.Redis, kind: str = "lock") -> None:
        self.kind, self.side = kind, ":write" if kind == "write" else ""
        channel = (read_write_channel if kind == "write" else lock_channel)(NAME)
        super().__init__(client, waiting_queue(channel), channel)

    def hold(self, holder: str = HOLDER, depth: int = 1) -> str:
        """Let *holder* hold the lock; return its id there."""
        fields: dict[str, Any] = {holder + self.side: depth}
        if self.kind == "write":
            fields["mode"] = self.kind
        self.client.hset(NAME, mapping=fields)
        self.client.pexpire(NAME, 60_000)
        return holder + self.side

    def wait(self, holder: str = HOLDER, member: str = NEXT, how: str = "") -> Any:
        """Let *holder* wait for the condition, as *member*, which may end with a question mark."""
        name, deaf = member.rstrip("?"), member[len(member.rstrip("?")) :]
        keys = [NAME, KEY]
        keys += [fence_token(NAME)] if self.kind == "fenced" else []
        keys += [reader_coming(NAME)] if self.kind == "write" else []
        args: list[Any] = [holder + self.side, self.channel, how, name + self.side + deaf]
        args += [0, 0] if self.kind == "fenced" else []
        return self.run(scripts.WAITS[f"{self.kind}_release"], [*keys, self.queue_key], *args)

    def notify(self, holder: str = HOLDER, count: int = 1, *, everyone: bool = False) -> Any:
        args = [holder and holder + self.side, count, self.channel, *(["all"] if everyone else [])]
        return self.run(scripts.NOTIFY, [NAME, KEY, self.queue_key], *args)

    def leave(self, member: str = NEXT, how: str = "leave") -> Any:
        args = [member + self.side, 1, self.channel, how]
        return self.run(scripts.NOTIFY, [NAME, KEY, self.queue_key], *args)

    def look(self, *members: str) -> Any:
        text = scripts.LOOK_AT.text
        return self.client.eval(text, 1, KEY, *[each + self.side for each in members])

    def stand(self, *members: str) -> None:
        self.client.zadd(KEY, {each + self.side: at for at, each in enumerate(members, 1)})

    def row(self) -> list[str]:
        return [each.decode() for each in self.client.zrange(KEY, 0, -1)]

    def holders(self) -> set[str]:
        return {each.decode() for each in self.client.hkeys(NAME)} - {"mode"}


@pytest.fixture
def make(redis_client: redis.Redis) -> Iterator[Callable[[str], Server]]:
    made = list[Server]()

    def new(kind: str) -> Server:
        redis_client.flushall()
        made.append(Server(redis_client, kind))
        return made[-1]

    yield new
    for each in made:
        each.listening.close()


@pytest.fixture
def at(make: Callable[[str], Server]) -> Server:
    return make("lock")


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_stands_and_hands_the_lock_on(make: Callable[[str], Server], kind: str) -> None:
    """In one step the next hold stands in the condition, and the first of the queue has the lock."""
    at = make(kind)
    at.listen("b")
    at.hold(depth=3)
    other = f"b:000000000003{':write' if kind == 'write' else ''}"
    at.client.zadd(at.queue_key, {other: 5})
    [now] = at.wait()
    assert at.row() == [NEXT + at.side]
    assert at.client.zscore(KEY, NEXT + at.side) == int(now)
    assert 59_000 < at.client.pttl(KEY) <= 60_000
    assert at.holders() == {other}
    assert at.queue() == [f"-{other}"]
    [(who, told)] = at.heard()
    assert who == "b"
    number, _, token, open_ = told.split("|")
    assert (number, open_) == (other.partition(":")[2], "1")
    assert bool(token) is (kind == "fenced")


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_tells_its_own_client_who_is_next(make: Callable[[str], Server], kind: str) -> None:
    """The reply has the news, as a release's; without a queue the lock is free."""
    at = make(kind)
    at.listen("a")
    at.hold()
    other = f"a:000000000003{at.side}"
    at.client.zadd(at.queue_key, {other: 5})
    _, number, news = at.wait()
    assert number.decode() == other.partition(":")[2]
    assert news.count(b"|") == 2
    at = make(kind)
    at.listen()
    at.hold()
    assert len(at.wait()) == 1
    assert not at.client.exists(NAME)
    assert at.heard() == [("java", "1" if kind == "write" else "0")]


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_wait_change_nothing(make: Callable[[str], Server], kind: str) -> None:
    """A copy finds the waiter in the condition, the queue or the lock; else the lock was lost."""
    at = make(kind)
    at.listen("a")
    at.hold()
    assert at.wait()
    score = at.client.zscore(KEY, NEXT + at.side)
    assert len(at.wait()) == 1
    assert at.client.zscore(KEY, NEXT + at.side) == score
    at.hold("b:000000000009")
    assert at.notify("b:000000000009") == 1
    assert len(at.wait()) == 1
    assert at.row() == []
    at.client.delete(at.queue_key, NAME)
    at.hold(NEXT)
    assert len(at.wait()) == 1
    assert at.row() == []
    at.client.delete(NAME)
    assert at.wait() is None
    assert at.row() == []


def test_each_waiter_comes_behind_the_last_one(at: Server) -> None:
    """Also if the server's clock went back."""
    at.client.zadd(KEY, {"b:000000000001": 9e15})
    at.hold()
    at.wait()
    assert at.row() == ["b:000000000001", NEXT]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_who_listen_move_to_the_queue(make: Callable[[str], Server], kind: str) -> None:
    """They come behind those who wait for the lock; who does not listen loses its place."""
    at = make(kind)
    at.listen("a", "c")
    holder = at.hold()
    at.client.zadd(at.queue_key, {"z": 9e15})
    at.stand("b:1", "a:2", "b:3", "c:4", "a:5", "c:6")
    assert at.notify(count=2) == 2
    assert at.queue() == ["z", f"a:2{at.side}", f"c:4{at.side}"]
    assert at.row() == [f"{each}{at.side}" for each in ("a:5", "c:6")]
    assert 8_000 < at.client.pttl(at.queue_key) <= 10_000
    assert at.holders() == {holder}
    assert at.heard() == []  # the grant has a message


def test_who_cannot_listen_moves_too(at: Server) -> None:
    """Its mark says so, and its look finds it."""
    at.hold()
    at.stand("b:1?", "b:2")
    assert at.notify() == 1
    assert at.queue() == ["b:1?"]
    assert at.row() == ["b:2"]


def test_if_too_few_listen_all_are_woken(at: Server) -> None:
    """Nobody is left in the condition, so that each finds that by its look."""
    at.listen("a")
    at.hold()
    at.stand("b:1", "a:2", "b:3")
    assert at.notify(count=2) == 1
    assert at.queue() == ["a:2"]
    assert not at.client.exists(KEY)
    at.stand(*[f"b:{number}" for number in range(1200)], "a:9")
    assert at.notify() == 0
    assert not at.client.exists(KEY), "it asks about a thousand at most"


def test_all_are_notified(at: Server) -> None:
    """The first thousand move, and the rest is woken by a look."""
    at.listen("a")
    at.hold()
    at.stand(*[f"a:{number:04}" for number in range(1003)])
    assert at.notify(count=1000, everyone=True) == 1000
    assert len(at.queue()) == 1000
    assert not at.client.exists(KEY)


def test_only_a_holder_notifies(at: Server) -> None:
    """Else nothing changes; what is carried through in its name need not hold the lock any more."""
    at.listen("a")
    at.stand("a:1", "a:2")
    assert at.notify() is None
    assert at.row() == ["a:1", "a:2"]
    assert at.notify("") == 1
    assert at.queue() == ["a:1"]
    assert at.heard() == [("a", "")], "nobody will release the lock to it: it looks"


def test_a_waiter_leaves(at: Server) -> None:
    """The answer tells whether it was notified, and nobody else is."""
    at.listen("a")
    at.hold()
    at.stand(NEXT, "a:3")
    assert at.leave() == -1
    assert at.leave() == 0
    assert at.row() == ["a:3"]


def test_who_was_notified_passes_that_on(at: Server) -> None:
    """The next one moves; a copy passes nothing on unless the leaver still stands or holds."""
    at.listen("a")
    at.hold()
    at.stand(NEXT, "a:3", "a:4")
    at.notify()
    assert at.leave(how="pass on") == 1
    assert at.queue() == [NEXT, "a:3"]
    at.client.zrem(at.queue_key, NEXT)
    assert at.leave(how="pass on") == 0
    assert at.row() == ["a:4"]
    at.stand(NEXT)
    assert at.leave(how="pass on") == -1, "it was not notified"


def test_a_look_tells_who_is_gone_and_keeps_the_rest(at: Server) -> None:
    """It names any number of waiters."""
    at.stand("a:1", "a:3")
    assert at.client.pttl(KEY) == -1
    assert at.look("a:1", "a:2", "a:3", "a:4") == [1, 3]
    assert 59_000 < at.client.pttl(KEY) <= 60_000
    at.client.delete(KEY)
    assert at.look("a:1") == [0]


def test_without_a_queue_who_is_notified_is_woken(at: Server) -> None:
    """Its user may have no right to the queue, or it is a spin lock."""
    at.listen("a")
    at.hold()
    at.stand("a:1", "a:2")
    script = scripts.NOTIFY["PUBLISH"].text
    assert at.client.eval(script, 2, NAME, KEY, HOLDER, 1, at.channel) == 1
    assert at.row() == ["a:2"]
    assert at.heard() == [("a", "")]
    assert not at.client.exists(at.queue_key)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_server_refuses_the_wait_alone(make: Callable[[str], Server], kind: str) -> None:
    """A refused wait leaves the lock as it was; notifying and leaving go on."""
    at = make(kind)
    at.listen("a")
    holder = at.hold()
    at.stand("a:1", "a:2", "a:3")
    at.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.ResponseError, match=r"OOM|command not allowed"):
            at.wait()
        assert at.holders() == {holder}
        assert at.notify() == 1
        assert at.leave("a:1", "pass on") == 1
        assert at.queue() == [f"a:1{at.side}", f"a:2{at.side}"]
    finally:
        at.client.config_set("maxmemory", 0)


def test_where_it_may_not_ask_who_listens_all_are_woken(at: Server, redis_url: str) -> None:
    """A notification is never lost for want of a right."""
    at.client.execute_command(
        "ACL", "SETUSER", "mute", "on", "nopass", "~*", "&*", "+@all", "-pubsub|numsub"
    )
    at.listen("a")
    at.hold()
    at.stand("a:1", "a:2")
    with redis.Redis.from_url(redis_url, username="mute", password="x") as mute:
        other = Server(mute)
        assert other.notify() == 0
        other.listening.close()
    at.client.execute_command("ACL", "DELUSER", "mute")
    assert not at.client.exists(KEY)


def test_names_do_not_meet() -> None:
    """A colon in the name of a condition or a lock makes no other condition of it."""
    names = [("a", "b:c"), ("a:b", "c"), ("a", "b%3Ac"), ("a{t}", "b:c"), ("a{t}:b", "c")]
    assert len({condition_key(*each) for each in names}) == len(names)
    assert condition_key("a{t}", "b:c") == "interlock_condition:a{t}:b%3Ac"
