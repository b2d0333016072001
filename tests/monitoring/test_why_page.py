"""The console's page of a lock begins with the paragraph of `interlock why`."""

from __future__ import annotations

import html
import json
import os
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.monitoring.serving import ask, served
from tests.support.patience import GIVE_UP, wait_until

from interlock import ClosedError, connect
from interlock.cli import main

if TYPE_CHECKING:
    import pytest
    import redis

    from interlock import Client


def test_the_command_and_the_console_say_the_same(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A held and awaited lock: the place in the code, the waiters, and one text for both."""

    def wait(client: Client) -> None:
        with suppress(ClosedError):
            client.lock("orders").acquire()

    with connect(redis_url, lease=12) as client, connect(redis_url, lease=12) as other:
        assert client.lock("orders").acquire()
        threads = [threading.Thread(target=wait, args=[other]) for _ in range(8)]
        for thread in threads:
            thread.start()
        told: dict[str, object] = {}

        def eight() -> bool:
            assert main(["why", "orders", "--json", "--url", redis_url]) == 0
            told.update(json.loads(capsys.readouterr().out))
            text = str(told["text"])
            return "8 wait for it, in 1 client." in text and "It is renewed." in text

        wait_until(eight, GIVE_UP, "eight threads count as eight")
        assert told["state"] == "held"
        assert f"(pid {os.getpid()} on" in str(told["text"])
        with served(redis_url) as console:

            def same() -> bool:
                page = html.unescape(ask(console, "/lock?name=orders").text)
                shown = re.search(r'class="why">(.*?) <span', page)
                if shown is None:
                    return False  # the advice comes after the facts
                # Ages go on.
                return eight() and _ageless(shown[1]) == _ageless(str(told["text"]))

            # A renewal may come between the two.
            wait_until(same, GIVE_UP, "both say the same")
        other.close()
        for thread in threads:
            thread.join(GIVE_UP)


def _ageless(text: str) -> str:
    """Return *text* without times and without the place in the code."""
    text = re.sub(r"It is at .*? in \S+\. ", "", text)
    return re.sub(r"[\d.]+ (s|min|h)\b( \d+ s)?", "N", text)


def test_a_number_is_not_said_to_be_held_by_nobody(client: Client, redis_url: str) -> None:
    """The server shows no holders of a semaphore: its pages tell what is free instead."""
    semaphore = client.semaphore("slots")
    assert semaphore.try_set_permits(1)
    semaphore.acquire()
    waiter = threading.Thread(target=semaphore.acquire, kwargs={"timeout": GIVE_UP})
    waiter.start()
    with served(redis_url) as console:
        wait_until(lambda: "free: 0" in ask(console, "/").text, GIVE_UP, "the list has it")
        page = ask(console, "/lock?name=slots").text
    semaphore.release()
    waiter.join(GIVE_UP)
    assert "The server does not show holders of a number." in page
    assert "Nobody holds it." not in page
    assert "never" not in page


def test_the_age_of_a_hold_without_a_card_is_not_guessed(
    redis_client: redis.Redis, redis_url: str
) -> None:
    """A Java program may have held it for hours."""
    redis_client.hset("orders", "00000000-0000-0000-0000-00000000cafe:1", 1)
    with served(redis_url) as console:
        page = ask(console, "/lock?name=orders").text
    assert "<dt>Since</dt><dd>not known</dd>" in page
