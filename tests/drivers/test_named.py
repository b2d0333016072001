"""Owners that a word names."""

from __future__ import annotations

import gc
import threading
from threading import get_ident

import pytest

from interlock._core.holds import Owner
from interlock._drivers.named import NamedOwners
from interlock.errors import ConfigError


class User(Owner):
    """A thread or task that ends when the test says so."""

    ended = False

    def gone(self) -> bool:
        """Return whether it has ended."""
        return self.ended


def test_one_word_is_one_owner() -> None:
    """Everybody who uses a word is the same owner, and another word is another."""
    owners, first, second = NamedOwners(get_ident), User("one"), User("two")
    owner = owners.get("word", first)

    assert owners.get("word", second) is owner
    assert owners.get("other", first) is not owner


def test_an_owner_lives_as_long_as_one_user() -> None:
    """The owner has gone when the last thread or task that used the word has ended."""
    owners, first, second = NamedOwners(get_ident), User("one"), User("two")
    owner = owners.get("word", first)
    owners.get("word", second)
    first.ended = True
    assert not owner.gone()
    second.ended = True
    assert owner.gone()


def test_a_word_that_nobody_refers_to_is_forgotten() -> None:
    """A client keeps no word of an owner that nothing refers to."""
    owners = NamedOwners(get_ident)
    owners.get("word", User("one"))
    gc.collect()
    assert len(owners) == 0


def test_a_forked_child_does_not_wait_for_a_thread_that_is_not_there() -> None:
    """After a fork the mutex is free, and each word is the owner that it was."""
    owners, user = NamedOwners(get_ident), User("one")
    owner = owners.get("word", user)
    parent = threading.Thread(target=owners._mutex.acquire)  # it ends, and never lets it go
    parent.start()
    parent.join()
    owners.after_fork()
    got: list[Owner] = []
    child = threading.Thread(target=lambda: got.append(owners.get("word", user)), daemon=True)
    child.start()
    child.join(5)
    assert got == [owner]


def test_a_word_must_not_be_empty() -> None:
    """An empty word is refused."""
    with pytest.raises(ConfigError, match="must not be empty"):
        NamedOwners(get_ident).get("", User("one"))
