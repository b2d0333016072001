"""Nobody elsewhere reads the console, nothing is changed by it, and no text acts on its pages."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from tests.monitoring.serving import ask
from tests.support.patience import GIVE_UP, wait_until

from interlock._core.insight.card import CARD
from interlock.cli import main

if TYPE_CHECKING:
    import redis

    from interlock import Client

PATHS = ("/", "/lock?name=a", "/graph", "/static/console.js", "/none")
HOSTILE = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>'& {{ 7777*7777 }}"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8700", "127.0.0.1:1", "[::1]:8700"])
def test_local_names_are_answered(console: str, host: str) -> None:
    """A forwarded port may have any number."""
    assert ask(console, Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8700", "localhost.evil.example"),
        *("localhost:8700.evil.example", "127.0.0.1.evil.example", "10.0.0.5:8700", "0x7f.1"),
        *("x/static/", ""),
    ],
)
def test_another_name_of_this_machine_is_refused(console: str, host: str) -> None:
    """No page elsewhere reads the console by a name that leads here (DNS rebinding)."""
    for path in PATHS:
        answer = ask(console, path, Host=host)
        assert answer.status in (400, 403)
        assert "<" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_nothing_can_be_sent(console: str, method: str) -> None:
    """The console only shows: there is no method by which anything could change."""
    for path in PATHS:
        answer = ask(console, path, method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_headers(console: str, path: str) -> None:
    """No answer may be framed or kept, and none runs a script that is not the console's file."""
    for headers in (ask(console, path).headers, ask(console, path, Host="evil.example").headers):
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert not {"server", "set-cookie", "access-control-allow-origin"} & headers.keys()


def test_names_are_escaped(console: str, client: Client) -> None:
    """A name is text on every page, whatever it is, and there is no inline script or style."""
    with client.lock(HOSTILE):
        for path in (
            "/",
            f"/?{urlencode({'q': HOSTILE})}",
            f"/lock?{urlencode({'name': HOSTILE})}",
        ):
            wait_until(
                lambda path=path: "alert(1)" in ask(console, path).text, GIVE_UP, "it is read"
            )
            text = ask(console, path).text
            assert "<script>alert" not in text
            assert "<img" not in text
            assert "60481729" not in text  # a name is no template
            scripts = re.findall(r"<script[^>]*>", text)
            assert scripts == ['<script src="/static/console.js" defer>']
            bare = re.sub(r'"[^"]*"', '""', text)
            assert not re.search(r"<[^>]*\s(on\w+|style)=", bare)
            assert not re.search(r'(src|href)="(https?:)?//', text)


def test_a_forged_card_breaks_no_page(console: str, redis_client: redis.Redis) -> None:
    """A card may tell what is not UTF-8, or markup: the pages show it as text."""
    holder, half = "00000000-0000-0000-0000-00000000f00d:1", "<b>caf\udce9.py"
    told = {"format": 1, "period": 10.0, "host": half, "program": half}
    entry = {"age": 5.0, "owner": 1, "lease": 30.0, "renewed": True, "thread": half}
    redis_client.hset("forged", holder, 1)
    card = {"client": json.dumps(told), "written": "1", f"h {holder} forged": json.dumps(entry)}
    redis_client.hset(CARD.format(holder.partition(":")[0]), mapping=card)
    shown = r"&lt;b&gt;caf\udce9.py"
    for path in ("/", "/lock?name=forged"):
        wait_until(lambda path=path: shown in ask(console, path).text, GIVE_UP, "it is shown")


@pytest.mark.parametrize("words", [["--host", "x"], ["--listen", ":1"], ["--port", "70000"]])
def test_no_other_address_can_be_asked_for(words: list[str]) -> None:
    """The console listens at the loopback address alone."""
    assert main(["console", *words], {}) == 64
