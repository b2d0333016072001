"""The page of troubleshooting has the messages as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import GIVE_UP, wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
SOURCE = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/interlock").rglob("*.py"))
)
JOINED = re.sub(r"\"\s*\n\s*f?\"", "", SOURCE)
"""The sources, with each text that stands in several lines made one."""
OF_THE_SYSTEM = ("Name or service not known",)


def _rows(heading: str) -> list[str]:
    """Return the first cells of the table below *heading*."""
    section = re.split(
        r"^##+ ", TEXT.partition(f"### {heading}")[2], maxsplit=1, flags=re.MULTILINE
    )
    return re.findall(r"^\| (.+?) \|", section[0], re.MULTILINE)[1:]


def _parts(row: str) -> list[str]:
    """Return what of *row* the library writes: without a host, and without the server's code."""
    plain = re.sub(r" \([A-Z]+\)$", "", row.replace("...: Connection refused", ""))
    return [re.sub(r" \([A-Z`a-z ]+\)", "", part).strip() for part in plain.split(", ")]


ROWS = [
    *_rows("HoldLostError"),
    *_rows("ServerUnavailableError"),
    *_rows("MisuseWarning and EmbeddedWarning"),
]


def test_there_are_rows() -> None:
    """The tables of errors are found."""
    assert len(ROWS) >= 20


@pytest.mark.parametrize("row", [row for row in ROWS if row not in OF_THE_SYSTEM])
def test_a_message_is_in_the_source(row: str) -> None:
    """Each part of a message that the page quotes is written by the library."""
    for part in _parts(row):
        assert part in JOINED, part


@pytest.mark.parametrize("name", re.findall(r"^### (\w+Error)\b", TEXT, re.MULTILINE))
def test_an_error_is_there(name: str) -> None:
    """Each error with a section is an error of the library."""
    assert issubclass(getattr(interlock, name), interlock.InterlockError)


HEADINGS = dict(re.findall(r"^### (\w+Error): (.+)$", TEXT, re.MULTILINE))


def _timeout(mine: interlock.Client, other: interlock.Client) -> None:
    with other.lock("x"), mine.lock("x", timeout=0.05):
        pass


def _not_held(mine: interlock.Client, _other: interlock.Client) -> None:
    mine.lock("x").release()


def _lost(mine: interlock.Client, _other: interlock.Client) -> None:
    with mine.lock("x", lease=0.05) as hold:
        wait_until(lambda: not hold.valid, GIVE_UP, "the lease ends")
        hold.ensure()


def _broken(mine: interlock.Client, _other: interlock.Client) -> None:
    barrier = mine.barrier("x", 2)
    barrier.abort()
    barrier.wait()


def _wrong_type(mine: interlock.Client, _other: interlock.Client) -> None:
    mine.semaphore("x").try_set_permits(1)
    mine.lock("x").acquire()


@pytest.mark.parametrize(
    ("name", "provoke"),
    [
        ("AcquireTimeoutError", _timeout),
        ("NotHeldError", _not_held),
        ("HoldLostError", _lost),
        ("BrokenBarrierError", _broken),
        ("WrongTypeError", _wrong_type),
    ],
)
def test_a_heading_is_the_message(
    name: str, provoke: Callable[[interlock.Client, interlock.Client], None], redis_url: str
) -> None:
    """A heading begins as the message of a real error does: people search for its words."""
    pattern = re.escape(HEADINGS[name]).replace(r"\.\.\.", ".*").replace(r"5\ s", r"\S+ s")
    pattern = pattern.replace(r"'x'\ is", r"'x'(?: at \S+)? is")
    with (
        interlock.connect(redis_url) as mine,
        interlock.connect(redis_url) as other,
        pytest.raises(getattr(interlock, name)) as caught,
    ):
        provoke(mine, other)
    assert re.match(pattern, str(caught.value))
