"""Renewals that need no interpreter lock (`renew_in="process"`): nobody can hold them up.

Each holder is a process of its own. `hog` and `stay` keep the interpreter lock in C, so no other
thread of that process runs any code in Python. `stay` ends when the test has seen a renewal.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import grows
from tests.sentinel.small import SERVICE, knows, sentinel_of
from tests.support.certificates import Certificates
from tests.support.renewal import renews_soon
from tests.support.servers import RedisServer, wait_until

import interlock
from interlock._drivers.background import native_renewal, native_tls
from interlock._links.sentinel_endpoint import SentinelEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import redis

pytestmark = pytest.mark.needs("gcc")

HOLDER = """
import ctypes, re
LEASE = 8.0
in_c = ctypes.PyDLL(None)
def hog(seconds):
    in_c.sleep(int(seconds))  # in C, with the interpreter lock: nothing else runs
byte = ctypes.create_string_buffer(1)
def stay():
    in_c.read(0, byte, 1)
client = interlock.connect(url, renew_in="process", lease=LEASE)
due = client._driver.session.watchdog.due
# As if it had no turn before the call either.
client._driver.session.watchdog.due = lambda *_: []
"""

BODIES = {
    "a call in C": """
        stay()
    """,
    "a regular expression": """
        try:
            re.match(r"(a+)+$", "a" * 100 + "b")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """,
    "busy threads": """
        sys.setswitchinterval(100)  # who has the interpreter lock keeps it
        os.set_blocking(0, False)
        def work():
            while in_c.read(0, byte, 1) < 0:
                pass
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(0.005)
    """,
}


def seen(child: Child, server: redis.Redis, key: str = "name") -> None:
    """Wait for a renewal of *key*, and tell *child* to go on."""
    assert child.hear(90) == "in"
    wait_until(grows(server, key), 10, "a renewal in C")
    child.tell("go")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_thread_that_keeps_the_interpreter_lock_loses_nothing(
    body: str, redis_url: str, redis_client: redis.Redis
) -> None:
    """A hold is renewed while a call keeps the interpreter lock, and valid after it."""
    program = (
        HOLDER
        + f"""
with client.lock("name") as hold:
    say("in")
    if True: {body}
    assert hold.valid and not hold.lost.is_set(), hold.lost.reason
    hold.ensure()
    say(hold.valid, client.lock("name").locked())
client.close()
"""
    )
    with Child(program, redis_url) as child:
        seen(child, redis_client)
        if body == BODIES["a regular expression"]:
            child.signal(signal.SIGINT)
            assert child.hear(90) == "interrupted"
        assert child.hear(90) == "True True"
        assert child.end() == (0, "")


def test_a_hold_that_began_with_a_claim(redis_url: str, redis_client: redis.Redis) -> None:
    """A release made it the holder, and its call in C begins before anybody has asked."""
    program = (
        HOLDER
        + """
while True:
    with client.lock("name") as hold:
        if hold._hold.asked_by:
            say("in")
            stay()
            assert hold.valid and not hold.lost.is_set(), hold.lost.reason
            say(hold.valid)
            break
client.close()
"""
    )
    over = threading.Event()

    def contend() -> None:
        with interlock.connect(redis_url) as other:
            while not over.is_set():
                with other.lock("name"):
                    _ = over.wait(0.01)

    contender = threading.Thread(target=contend)
    with Child(program, redis_url) as child:
        contender.start()
        try:
            assert child.hear(90) == "in"
        finally:
            over.set()
        wait_until(lambda: redis_client.pttl("name") > 1000, 10, "it is kept for a lease")
        wait_until(grows(redis_client, "name"), 20, "a renewal in C")
        child.tell("go")
        assert child.hear(90) == "True"
        assert child.end() == (0, "")
    contender.join()


KINDS = {
    "fair": 'client.fair_lock("a")',
    "fenced": 'client.fenced_lock("b")',
    "group": 'client.group_lock("g", ["1", "2"])',
    "multi": 'client.multi_lock(client.lock("c"), client.lock("d"))',
    "permit": "permits.acquire()",
    "read": 'client.read_write_lock("e").read',
    "write": 'client.read_write_lock("f").write',
}


def test_every_kind_of_lock_is_renewed(redis_url: str) -> None:
    """Holds of every kind outlast the call, and a shorter lease of one's own is left as it is."""
    program = (
        HOLDER
        + f"""
permits = client.leased_semaphore("permits")
permits.try_set_permits(2)
from contextlib import ExitStack
with ExitStack() as stack:
    holds = [stack.enter_context(each) for each in [{", ".join(KINDS.values())}]]
    own = client.lock("own").__enter__()
    own.set_lease(1.2 * LEASE)
    hog(1.5 * LEASE)
    print([hold for hold in holds if not hold.valid], own.valid, flush=True)
"""
    )
    with Child(program, redis_url) as child:
        assert child.hear(90) == "[] False"


def test_asyncio_holds_are_renewed(redis_url: str, redis_client: redis.Redis) -> None:
    """A task that keeps the interpreter lock does not lose its lock either."""
    program = (
        HOLDER
        + """
async def main():
    async with interlock.asyncio.connect(url, renew_in="process", lease=LEASE) as client:
        async with client.lock("name") as hold:
            say("in")
            stay()
            say(hold.valid)
asyncio.run(main())
client.close()
"""
    )
    with Child(program, redis_url) as child:
        seen(child, redis_client)
        assert child.hear(90) == "True"
        assert child.end() == (0, "")


def test_a_stopped_process_does_not_renew(redis_url: str) -> None:
    """A holder that is stopped loses the lock after the lease, and knows it when it goes on."""
    program = (
        HOLDER
        + """
try:
    with client.lock("name") as hold:
        say("in")
        sys.stdin.readline()
        assert not hold.valid
except interlock.HoldLostError:
    say("lost")
"""
    )
    with (
        Child(program, redis_url) as child,
        interlock.connect(redis_url) as other,
    ):
        assert child.hear() == "in"
        child.signal(signal.SIGSTOP)
        with other.lock("name", timeout=30):
            child.signal(signal.SIGCONT)
            child.tell()
            assert child.hear() == "lost"


def test_a_killed_process_does_not_renew(redis_url: str, redis_client: redis.Redis) -> None:
    """The lock of a holder that was killed in such a call is free after the lease."""
    program = (
        HOLDER
        + """
client.lock("name").acquire()
say("in")
hog(100)
"""
    )
    with Child(program, redis_url) as child, interlock.connect(redis_url) as other:
        seen(child, redis_client)
        child.kill()
        with other.lock("name", timeout=30):
            pass


def test_a_forked_child_does_not_renew_for_its_parent(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """When the parent is killed, its lock ends, although its child lives and uses the client."""
    program = (
        HOLDER
        + """
lock = client.lock("name")
lock.acquire()
if os.fork() == 0:
    with client.lock("of the child") as hold:
        say("in")
        stay()
        say("child", hold.valid)
        sys.stdin.readline()
    os._exit(0)
hog(100)
"""
    )
    with Child(program, redis_url) as child, interlock.connect(redis_url) as other:
        seen(child, redis_client, "of the child")
        assert child.hear(90) == "child True"
        assert not other.try_lock("name")
        child.kill()
        with other.lock("name", timeout=30):
            pass  # the end of its standard input ends the child of the child


def test_a_hold_that_is_gone_is_not_made_again(redis_url: str) -> None:
    """A hold that an operator released during the call is lost, and no renewal makes it again."""
    program = (
        HOLDER
        + """
client._driver.session.watchdog.due = due
hold = client.lock("name").__enter__()
say("in")
hog(0.75 * LEASE)
say(hold.lost.wait(30))
"""
    )
    with Child(program, redis_url) as child, interlock.connect(redis_url) as other:
        assert child.hear() == "in"
        assert other.lock("name").force_release()
        with other.lock("name", timeout=30):
            assert child.hear(90) == "True"


def test_a_released_lock_is_not_renewed(redis_client: redis.Redis, redis_url: str) -> None:
    """Nothing is kept of released holds, and the next hold of the owner may end sooner."""
    client = interlock.connect(redis_url, renew_in="process", lease=6)
    with client:
        for _ in range(100):
            with client.lock("name"):
                pass
        backup = client._driver.session.backup
        assert isinstance(backup, native_renewal.NativeRenewal)
        assert not backup._kept
        with client.lock("name") as hold:
            assert backup._kept
            hold._end_within(100)
            assert not backup._kept  # the watchdog alone knows how to end it
        assert client.lock("name", lease=3).acquire()
        wait_until(lambda: not redis_client.exists("name"), 20, "the end of the lease")


def test_two_threads_forget_and_keep_a_hold_at_once() -> None:
    """A thread that forgets a hold leaves alone what another one keeps of it just then."""
    native = native_renewal.native
    line = native.line(b"127.0.0.1", "1", 1e9, 1e9, 1.0)

    class Kept(dict[str, Any]):
        def pop(self, hold: str, *rest: object) -> Any:
            record = super().pop(hold)
            native.keep(self, hold, line, b"", 1e12)  # the other thread's turn
            return record

    kept = Kept()
    native.keep(kept, "hold", line, b"", 1e12)
    first = kept["hold"]
    assert not native.forget(kept, "hold")
    assert kept["hold"] != first
    assert native.extend(kept, "hold", 1e12)


def test_a_hold_without_an_owner_is_not_renewed(redis_url: str) -> None:
    """A hold of a name that nobody uses any more ends with its lease, as the warning says."""
    with renews_soon(interlock.connect(redis_url, renew_in="process")) as client:
        session = client._driver.session
        backup = session.backup
        assert isinstance(backup, native_renewal.NativeRenewal)

        def use() -> None:
            assert client.lock("name", owner="somebody").acquire()

        def abandon() -> None:
            user = threading.Thread(target=use)
            user.start()
            user.join()
            [hold] = session.holds
            wait_until(lambda: not backup._kept, 20, "the end of the renewal")
            assert hold.state == "held"
            wait_until(lambda: told.list, 20, "a thread has warned")

        with pytest.warns(interlock.MisuseWarning, match="is not renewed any more") as told:
            abandon()


def test_the_thread_in_c_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the password, the user, the database, and Unix sockets; no thread of ours helps."""
    users = ("app on >secret ~* &* +@all", "open on nopass ~* &* +@all")
    with RedisServer(password="secret", users=users) as server:
        assert all(
            _renew(
                [
                    server.url(db=3),
                    server.url(2, "app", "secret"),
                    server.unix_url(db=1),
                    f"redis://open@127.0.0.1:{server.port}",
                ],
                monkeypatch,
            )
        )


def test_the_thread_in_c_of_a_forked_child_logs_in() -> None:
    """A forked child logs in as its parent did, and to the same database."""
    program = (
        HOLDER
        + """
with client.lock("of the parent"):
    pass
if os.fork() == 0:
    with client.lock("name") as hold:
        say("in")
        stay()
        say(hold.valid)
    os._exit(0)
os.wait()
client.close()
"""
    )
    with (
        RedisServer(password="secret") as server,
        server.client(db=3) as looks,
        Child(program, server.url(db=3)) as child,
    ):
        seen(child, looks)
        assert child.hear(90) == "True"


@pytest.fixture(scope="module")
def tls_server() -> Iterator[RedisServer]:
    """Give a server that wants TLS and a certificate of the client."""
    with RedisServer(password="secret", tls=True) as server:
        yield server


def test_tls_holds_are_renewed(tls_server: RedisServer) -> None:
    """The thread in C encrypts, shows its certificate, and logs in."""
    program = (
        HOLDER
        + """
with client.lock("name") as hold:
    say("in")
    stay()
    say(hold.valid)
client.close()
"""
    )
    for url in (tls_server.url(), tls_server.url().replace("127.0.0.1", "localhost")):
        with Child(program, url) as child, tls_server.client() as looks:
            seen(child, looks)
            assert child.hear(90) == "True"
            assert child.end() == (0, "")


KEYS = """
import datetime, sys
from cryptography.hazmat.primitives import serialization
source, target = sys.argv[1:]
key = serialization.load_pem_private_key(open(source, "rb").read(), None)
locked = key.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.BestAvailableEncryption(b"of the key"),
)
open(target, "wb").write(locked)
"""


def test_tls_settings_of_redis_py_are_those_of_the_thread_in_c(
    tls_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password of the key, versions, ciphers and flags: what Python may do, it may do too."""
    certificates = tls_server.certificates
    assert certificates is not None
    key = tmp_path / "locked.key"
    subprocess.run([sys.executable, "-c", KEYS, certificates.client_key, key], check=True)
    plain = tls_server.url().replace(str(certificates.client_key), str(key))
    more = (
        "&ssl_password=of+the+key",
        "&ssl_password=of+the+key&ssl_min_version=771&ssl_ciphers=ECDHE%2BAESGCM",
        "&ssl_password=of+the+key&ssl_cert_reqs=none",
        f"&ssl_password=of+the+key&ssl_ca_path={tmp_path}",
    )
    assert all(_renew([plain + each for each in more], monkeypatch))


def last_renewal(backup: native_renewal.NativeRenewal) -> float:
    """Return when the thread in C has sent its last renewal of a hold; 0 if it has sent none."""
    kept = backup._kept
    return max((native_renewal.native.look(kept, hold) for hold in list(kept)), default=0.0)


def _renew(urls: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each of *urls* whether the thread in C renews a lock; nothing else does."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(interlock.connect(url, renew_in="process", lease=6)) for url in urls
        ]
        locks = [client.lock(f"name {number}") for number, client in enumerate(clients)]
        for client, lock in zip(clients, locks, strict=True):
            monkeypatch.setattr(client._driver.session.watchdog, "due", lambda *_: [])
            assert lock.acquire()
        backups = [client._driver.session.backup for client in clients]
        holds: list[Any] = [lock.hold for lock in locks]

        def renewed() -> list[bool]:
            return [
                isinstance(backup, native_renewal.NativeRenewal) and last_renewal(backup) > 0
                for backup in backups
            ]

        wait_until(
            lambda: all(
                each or not hold.valid for each, hold in zip(renewed(), holds, strict=True)
            ),
            30,
            "answers, or the end",
        )
        found = renewed()
        for lock, hold in zip(locks, holds, strict=True):
            if hold.valid:
                lock.release()
        return found


@pytest.mark.parametrize("wrong", ["another authority", "another name", "no certificate"])
@pytest.mark.filterwarnings("ignore:.* was never released")
def test_a_server_that_is_not_trusted_gets_no_renewal(
    wrong: str, tls_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread in C trusts what it was told to, and says nothing to any other server."""
    url, use_tls = tls_server.url(), native_tls.use_tls

    def use_other(line: Any, settings: dict[str, Any]) -> None:
        if wrong == "another authority":
            settings["ssl_ca_certs"] = str(Certificates.create(tmp_path).ca)
        if wrong == "no certificate":
            settings["ssl_certfile"] = settings["ssl_keyfile"] = None
        use_tls(line, settings)

    monkeypatch.setattr(native_tls, "use_tls", use_other)
    if wrong == "another name":
        # It leads to the same address, and the certificate does not have it.
        make = native_renewal.native.line
        monkeypatch.setattr(native_renewal.native, "line", lambda _, *rest: make(b"127.1", *rest))
    assert _renew([url], monkeypatch) == [False]


def test_a_former_primary_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """When Sentinel names another primary, renewals of the former one make nothing valid.

    The former primary may not know yet that it is none, and the new one may give the lock away.
    """
    with RedisServer() as former, RedisServer() as new, sentinel_of(former) as sentinel:
        knows(sentinel)
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}"
        with interlock.connect(url, renew_in="process", lease=6) as client:
            session = client._driver.session
            monkeypatch.setattr(session.watchdog, "due", lambda *_: [])
            backup, servers = session.backup, client._driver._renewer._topology.only
            assert isinstance(backup, native_renewal.NativeRenewal)
            assert isinstance(servers, SentinelEndpoint)
            assert client.lock("name").acquire()
            hold = client.lock("name").hold
            wait_until(lambda: last_renewal(backup) > 0, 30, "a renewal in C")
            assert hold is not None
            assert hold.valid
            servers.moved(("127.0.0.1", new.port))
            # Another thread may be looking through the holds just now.
            wait_until(lambda: not backup._kept, 20, "the former primary is asked no more")
            wait_until(lambda: not hold.valid, 20, "the end of the lease")


def test_the_thread_in_c_outlives_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It connects again after an outage, and renews a hold that the server still has."""
    with RedisServer(config={"appendonly": "yes", "appendfsync": "always"}) as server:
        client = interlock.connect(server.url(), renew_in="process", lease=16)
        monkeypatch.setattr(client._driver.session.watchdog, "due", lambda *_: [])
        backup = client._driver.session.backup
        assert isinstance(backup, native_renewal.NativeRenewal)
        with client.lock("name") as hold:
            server.restart(empty=False)
            wait_until(lambda: last_renewal(backup) > 0, 60, "a renewal in C")
            assert hold.valid
        client.close()


def test_what_is_not_possible_is_refused(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """What the part in C cannot do, a missing one and an unknown word raise ConfigError."""
    with pytest.raises(interlock.ConfigError, match="cannot do ssl_validate_ocsp"):
        interlock.connect("rediss://127.0.0.1:1?ssl_validate_ocsp=True", renew_in="process")
    with monkeypatch.context() as patched:
        patched.setattr(native_tls, "FUNCTIONS", ("no_such_function",))
        native_tls.functions.cache_clear()
        with pytest.raises(interlock.ConfigError, match="does not show its OpenSSL"):
            interlock.connect("rediss://127.0.0.1:1", renew_in="process")
    with pytest.raises(interlock.ConfigError, match="thread or process"):
        interlock.connect(redis_url, renew_in="task")  # type: ignore[arg-type]
    monkeypatch.setattr(native_renewal.native, "now", lambda: 0.0)  # another clock
    with pytest.raises(interlock.ConfigError, match="needs the part in C"):
        interlock.connect(redis_url, renew_in="process")
