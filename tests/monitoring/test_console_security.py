"""Each line of the security list of the console has a test."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from tests.monitoring.serving import ask, served
from tests.support.patience import GIVE_UP, wait_until

from interlock._core.insight.card import CARD
from interlock.cli import main
from interlock.console import THIS_MACHINE, Access

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis
    from tests.support.servers import RedisServer

    from interlock import Client

TOKEN = "0123456789abcdef-secret"


@pytest.fixture(scope="module")
def console(server: RedisServer) -> Iterator[str]:
    """Give the URL of a console that may break holds."""
    with served(server.url(), allow_release=True) as url:
        yield url


@pytest.mark.parametrize("listen", [":8700", "0.0.0.0:8700", "192.0.2.1:8700", "[::]:8700"])
def test_other_addresses_need_a_secret(listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything but loopback is refused before it listens, unless a secret is given."""
    assert main(["console", "--listen", listen], {}) == 64
    assert "can be reached from elsewhere: give a token" in capsys.readouterr().err


def test_a_short_token_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A token that can be guessed is a usage error."""
    assert main(["console"], {"INTERLOCK_CONSOLE_TOKEN": "short"}) == 64
    assert "can be guessed" in capsys.readouterr().err


def test_a_token_file_that_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not UTF-8 is a usage error, told in one line."""
    path = tmp_path / "token"
    path.write_bytes(b"\xff" * 20)
    assert main(["console", "--token-file", str(path)], {}) == 64
    err = capsys.readouterr().err
    assert err.startswith(f"interlock: --token-file: cannot read {path}: ")
    assert err.count("\n") == 1


def test_the_default_is_loopback() -> None:
    """Without --listen the console listens at 127.0.0.1."""
    ran = subprocess.run(
        [sys.executable, "-m", "interlock", "console", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "default: 127.0.0.1:8700" in ran.stdout


FOREIGN = ("evil.example", "evil.example:8700", "localhost.evil.example", "x/static/", "")


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("secret", ["nothing", "token", "header"])
def test_a_foreign_name_of_this_machine_is_refused(
    redis_url: str, console: str, host: str, secret: str
) -> None:
    """A request under another host name is refused, with a token or a user header too."""
    with ExitStack() as stack:
        if secret == "token":
            url = stack.enter_context(served(redis_url, token=TOKEN))
        elif secret == "header":
            url = stack.enter_context(served(redis_url, "--user-header", "X-Remote-User"))
        else:
            url = console
        shown = {"X_Remote_User": "ann", "Authorization": f"Bearer {TOKEN}"}
        assert ask(url, **shown).status == 200
        for path in ("/", "/lock?name=a", "/static/console.js"):
            assert ask(url, path, Host=host, **shown).status in (400, 403)
        assert ask(url, "/login", form={"token": TOKEN}, Host=host).status in (400, 403)


@pytest.mark.parametrize(
    ("host", "origin", "named"),
    [
        ("127.0.0.1:8700", "http://127.0.0.1:8700", True),
        ("LocalHost:8700", "http://localhost:8700", True),
        ("[::1]:8700", "http://[::1]:8700", True),
        ("10.0.0.5:8700", "http://10.0.0.5:8700", True),
        ("locks.example", "https://locks.example", True),
        ("127.0.0.1:8700", "https://locks.example", True),
        ("localhost:8700", "http://localhost:3000", False),
        ("localhost:8700", "http://127.0.0.1:8700", False),
        ("127.0.0.1:8700", "https://locks.example.evil.example", False),
        ("127.0.0.1:8700", "null", False),
        ("127.0.0.1:8700", "", False),
        ("0x7f.1:8700", "http://0x7f.1:8700", False),
    ],
)
def test_a_post_comes_from_a_page_of_the_console(host: str, origin: str, named: bool) -> None:
    """The Origin of a POST is the console's, under the name of the request or a given one."""
    access = Access(hosts=("locks.example",))
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    request = Request({"type": "http", "method": "POST", "headers": headers})
    assert access.is_named(request) is named


def test_the_token_is_needed_once(redis_url: str, tmp_path: Path) -> None:
    """With a token nothing is shown before it; then a cookie that no script reads stands for it."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with served(redis_url, "--token-file", str(file), listen="0.0.0.0") as url:
        refused = ask(url)
        assert refused.status == 401
        assert "by trouble" not in refused.text
        for path in ("/events", "/lock?name=a", "/graph", "/clients", "/timeline"):
            assert ask(url, path).status == 401
        assert ask(url, Cookie="interlock_console=forged.0000").status == 401
        assert ask(url, "/login", form={"token": "wrong"}).status == 401
        assert ask(url, "/login", form={"token": TOKEN}, Sec_Fetch_Site="cross-site").status == 403

        entered = ask(url, "/login", form={"token": TOKEN})
        assert entered.status == 303
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert "SameSite=strict" in entered.headers["set-cookie"]
        assert ask(url, Cookie=entered.cookie).status == 200
        assert ask(url, Authorization=f"Bearer {TOKEN}").status == 200
        assert TOKEN not in ask(url, Cookie=entered.cookie).text


def test_a_user_header_is_believed_only_when_named(redis_url: str, console: str) -> None:
    """The header of a reverse proxy lets in if it was named explicitly, and else does nothing."""
    with served(redis_url, "--user-header", "X-Remote-User", listen="0.0.0.0") as url:
        assert ask(url).status == 403
        assert ask(url, X_Forwarded_User="ann").status == 403
        assert ask(url, X_Remote_User="ann").status == 200
    assert ask(console, Host="evil.example", X_Remote_User="ann").status == 403


@pytest.mark.parametrize(
    ("peer", "proxies", "believed"),
    [
        ("127.0.0.1", (), True),
        ("::1", (), True),
        ("::ffff:127.0.0.1", (), True),
        ("10.0.0.9", (), False),
        ("2001:db8::1", (), False),
        ("10.0.0.2", ("10.0.0.2",), True),
        ("10.0.0.3", ("10.0.0.2",), False),
        ("127.0.0.1", ("10.0.0.2",), False),
        ("10.0.7.7", ("192.0.2.1", "10.0.0.0/16"), True),
        ("/run/console.sock", (), False),
    ],
)
def test_a_user_header_is_believed_from_the_proxy_only(
    peer: str, proxies: tuple[str, ...], believed: bool
) -> None:
    """Only this machine, or the proxies that were named, may name a user."""
    networks = [ipaddress.ip_network(each) for each in proxies] or THIS_MACHINE
    access = Access(user_header="X-Remote-User", proxies=networks)
    headers = [(b"x-remote-user", b"ann"), (b"x-forwarded-for", b"127.0.0.1")]
    request = Request({"type": "http", "client": (peer, 1), "headers": headers})
    assert access.admits(request) is believed


def test_a_proxy_is_named_by_its_address(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --proxy the header is not believed from elsewhere; a name is no address."""
    arguments = "--user-header", "X-Remote-User", "--proxy", "192.0.2.1"
    with served(redis_url, *arguments) as url:
        assert ask(url, X_Remote_User="ann").status == 403
    assert main(["console", "--user-header", "X-User", "--proxy", "web-1"], {}) == 64
    assert "'web-1' does not appear to be" in capsys.readouterr().err
    assert main(["console", "--proxy", "192.0.2.1"], {}) == 64
    assert "--proxy means nothing without --user-header" in capsys.readouterr().err


def test_nothing_changes_by_get(console: str, client: Client) -> None:
    """A GET of the release page asks, and breaks nothing."""
    with client.lock("kept") as hold:
        place = urlencode({"name": "kept", "holder": hold.holder, "reason": "no"})
        assert ask(console, f"/release?{place}").status == 200
        assert client.lock("kept").locked()


def test_a_form_must_be_the_consoles_own(console: str, client: Client) -> None:
    """A POST without the form's token, with another browser's, or from elsewhere is refused."""
    with client.lock("kept") as hold:
        holder = hold.holder
        assert holder is not None
        place = {"name": "kept", "holder": holder}
        first, other = (ask(console, f"/release?{urlencode(place)}") for _ in range(2))
        form = {**place, "reason": "a test", "form": first.form}
        for refused in (
            ask(console, "/release", form={**form, "form": ""}, Cookie=first.cookie),
            ask(console, "/release", form=form),
            ask(console, "/release", form=form, Cookie=other.cookie),
            ask(console, "/release", form=form, Cookie=first.cookie, Sec_Fetch_Site="cross-site"),
            ask(
                console, "/release", form=form, Cookie=first.cookie, Origin="http://localhost:3000"
            ),
            ask(console, "/release", form={**form, "x": "y" * 20_000}, Cookie=first.cookie),
        ):
            assert refused.status == 403
        empty = ask(console, "/release", form={**form, "reason": " "}, Cookie=first.cookie)
        assert empty.status == 400
        assert client.lock("kept").locked()
    done = ask(console, "/release", form=form, Cookie=first.cookie)
    assert done.status == 303
    assert done.headers["location"].endswith("done=changed")


def test_a_break_is_logged_with_its_user(redis_url: str, client: Client) -> None:
    """The console logs who broke whose hold of which lock, and why; line breaks are escaped."""
    breaks: list[str] = []
    user = ("--user-header", "X-User")
    with served(redis_url, *user, allow_release=True, breaks=breaks) as url:
        lock = client.fenced_lock("stuck")
        lock.acquire()
        hold = lock.hold
        assert hold is not None
        place = {"name": "stuck", "holder": hold.holder or ""}
        page = ask(url, f"/release?{urlencode(place)}", X_User="ada")
        form = {**place, "reason": "OPS-311\nforged", "form": page.form}
        done = ask(url, "/release", form=form, Cookie=page.cookie, X_User="ada")
        assert done.headers["location"].endswith("done=released")
        assert hold.lost.wait(60)
    [line] = breaks
    told = f"fenced_lock 'stuck', held by {place['holder']}, was released by force by ada: "
    assert line.endswith(f"{told}OPS-311\\nforged")


def test_release_needs_the_option(redis_url: str, client: Client) -> None:
    """Without --allow-release there is no button, no question and no release."""
    with served(redis_url) as url, client.lock("kept") as hold:
        place = {"name": "kept", "holder": hold.holder or ""}
        page = ask(url, "/lock?name=kept")
        assert "Break this hold" not in page.text
        assert ask(url, f"/release?{urlencode(place)}").status == 403
        assert ask(url, "/release", form=place, Cookie=page.cookie).status == 403
        assert client.lock("kept").locked()


@pytest.mark.parametrize("path", ["/", "/lock?name=a", "/events", "/static/console.js", "/none"])
def test_every_answer_has_the_headers(console: str, path: str) -> None:
    """Every answer forbids foreign and inline scripts, frames and guessing of types."""
    headers = ask(console, path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_no_page_has_an_inline_script(console: str, client: Client) -> None:
    """Pages bring their scripts and styles from the console alone, so it works offline."""
    with client.lock("orders:42"):
        for path in ("/", "/lock?name=orders:42", "/graph", "/clients", "/timeline?show=all"):
            text = ask(console, path).text
            assert re.findall(r"<script[^>]*>", text) == ['<script src="/static/console.js" defer>']
            assert not re.search(r"\s(on\w+|style)=", text)
            assert not re.search(r'(src|href)="(https?:)?//', text)


SUM = "{{ 7777*7777 }}"


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', SUM, "'&<"]
)
def test_names_are_escaped(console: str, client: Client, name: str) -> None:
    """A name is text on every page, whatever it is."""
    with client.lock(name) as hold:
        place = {"name": name, "holder": hold.holder or ""}
        for path in (
            f"/lock?{urlencode(place)}",
            f"/release?{urlencode(place)}",
            f"/?q={name[:1]}",
        ):
            text = ask(console, path.replace(" ", "+")).text
            assert "<script>alert" not in text
            assert "<img" not in text
            assert "60481729" not in text  # a name is no template


def test_a_card_with_half_a_character_breaks_no_page(
    console: str, redis_client: redis.Redis
) -> None:
    """A card may tell a name that is not UTF-8, of a file for one: the pages show the rest."""
    holder, half = "00000000-0000-0000-0000-00000000f00d:1", "caf\udce9.py"
    told = {"format": 1, "period": 10.0, "host": half, "program": half}
    entry = {"age": 5.0, "owner": 1, "lease": 30.0, "renewed": True, "thread": half}
    redis_client.hset("forged", holder, 1)
    redis_client.hset(
        CARD.format(holder.partition(":")[0]),
        mapping={
            "client": json.dumps(told),
            "written": "1",
            f"h {holder} forged": json.dumps(entry),
        },
    )
    for path in ("/", "/clients", "/lock?name=forged"):

        def shown(path: str = path) -> bool:
            answer = ask(console, path)
            assert answer.status == 200
            return r"caf\udce9.py" in answer.text

        wait_until(shown, GIVE_UP, "the page shows the forged card")


def test_a_name_turns_no_text_around(console: str, client: Client) -> None:
    """Control characters of a name are shown as escapes, and the name can still be broken."""
    name = "pay\N{RIGHT-TO-LEFT OVERRIDE}\x1b\tevil"
    hold = client.try_lock(name)
    place = {"name": name, "holder": hold.holder or ""}
    page = ask(console, f"/release?{urlencode(place)}")
    assert r"pay\u202e\x1b\tevil" in page.text
    lines = [line for line in page.text.splitlines() if not line.isprintable()]
    assert len(lines) == 1
    assert 'type="hidden" name="name"' in lines[0]
    form = {**place, "reason": "a test", "form": page.form}
    done = ask(console, "/release", form=form, Cookie=page.cookie)
    assert done.headers["location"].endswith("done=released")


@pytest.mark.parametrize(
    "path",
    [
        "/?from=-1",
        "/?from=9999999999999",
        "/?show=none",
        "/lock",
        "/lock?name=",
        "/timeline?show=%00",
    ],
)
def test_bad_queries_are_harmless(console: str, path: str) -> None:
    """A query that makes no sense gives a page."""
    assert ask(console, path).status == 200


def test_a_forged_host_opens_no_page(redis_url: str) -> None:
    """The path that the router serves decides what is free, whatever the Host header says."""
    with served(redis_url, token=TOKEN) as url:
        for host in ("x/static/", "x/static/?", "127.0.0.1/static/x"):
            assert ask(url, Host=host).status in (400, 403), host


def test_a_token_is_asked_for_beside_a_user_header(redis_url: str) -> None:
    """With a token and a user header a request needs both."""
    with served(redis_url, "--user-header", "X-Remote-User", token=TOKEN) as url:
        assert ask(url, X_Remote_User="ann").status == 401
        assert ask(url, Authorization=f"Bearer {TOKEN}").status == 401
        assert ask(url, X_Remote_User="ann", Authorization=f"Bearer {TOKEN}").status == 200
