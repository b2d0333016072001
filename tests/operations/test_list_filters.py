"""The filters of `interlock list`: each keeps just what it names."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from interlock._core.insight.card import CARD, INDEX
from interlock.cli import main

if TYPE_CHECKING:
    import redis

OTHER = "00000000-0000-0000-0000-00000000beef"


@pytest.fixture
def url(redis_client: redis.Redis, redis_url: str) -> str:
    """Give a server with an old awaited lock, a new one, and a read/write lock of unknown age."""
    told: dict[str, str] = {
        "client": json.dumps({"format": 1, "number": 1, "period": 60.0, "waits": 1}),
        "written": str(int(time.time() * 1000)),
    }
    for mark, holder, name, age in (
        ("h", 1, "old", 400.0),
        ("h", 2, "new", 5.0),
        ("w", 3, "old", 90.0),
    ):
        entry = {"age": age, "owner": holder, "lease": 30.0, "renewed": True}
        told[f"{mark} {OTHER}:{holder} {name}"] = json.dumps(entry)
    for name, holder in {"old": 1, "new": 2}.items():
        redis_client.hset(name, f"{OTHER}:{holder}", "1")
        redis_client.pexpire(name, 29_000)
    redis_client.hset("shared", mapping={"mode": "write", f"{OTHER}:4:write": "1"})
    redis_client.pexpire("shared", 29_000)
    redis_client.hset(CARD.format(OTHER), mapping=told)
    redis_client.zadd(INDEX, {OTHER: 1e13})
    return redis_url


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ((), {"old", "new", "shared"}),
        (("--waiting",), {"old"}),
        (("--older-than", "5m"), {"old", "shared"}),
        (("--older-than", "1s"), {"old", "new", "shared"}),
        (("--older-than", "10m"), {"shared"}),
        (("--kind", "lock"), {"old", "new"}),
        (("--kind", "read_write_lock"), {"shared"}),
        (("--kind", "lock", "--older-than", "5m", "--waiting"), {"old"}),
        (("--late",), set()),
    ],
)
def test_a_filter_keeps_what_it_names(
    filters: tuple[str, ...], wanted: set[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`list` prints the locks that pass all filters; one of unknown age may be an old one."""
    assert main(["list", *filters, "--url", url]) == 0
    shown = capsys.readouterr()
    assert {line.split()[0] for line in shown.out.splitlines()[1:]} == wanted
    nothing = f"interlock: no lock is held or awaited that passes {' '.join(filters)}\n"
    assert shown.err == ("" if wanted else nothing)


def test_a_list_of_nothing_says_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is no reason to doubt the command: it says that it found nothing."""
    assert main(["list", "no-such-*", "--url", url]) == 0
    shown = capsys.readouterr()
    told = "interlock: no lock is held or awaited under 'no-such-*'\n"
    assert (shown.out, shown.err) == ("", told)
