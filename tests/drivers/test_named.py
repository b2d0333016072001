"""Owners that a word names."""

from __future__ import annotations

import gc
import threading

import pytest

from interlock._core.model.holds import Owner
from interlock._drivers.process.named import NamedOwners
from interlock.errors import ConfigError


class User(Owner):
    """A thread or task that ends when the test says so."""

    over = False

    def ended(self) -> bool:
        """Return whether it has ended."""
        return self.over


class Stage:
    """Says which user runs.

    Attributes:
        running: the user that calls.
        owners: the words of one client.
    """

    def __init__(self) -> None:
        self.running = User("one")
        self.owners = NamedOwners(lambda: self.running)


def test_one_word_is_one_owner() -> None:
    """Everybody who uses a word is the same owner, and another word is another."""
    stage = Stage()
    owner = stage.owners.get("word")
    assert stage.owners.get("other") is not owner
    stage.running = User("two")
    assert stage.owners.get("word") is owner


def test_an_owner_lives_as_long_as_one_user() -> None:
    """The owner has gone when the last thread or task that used the word has ended."""
    stage = Stage()
    first, second = stage.running, User("two")
    owner = stage.owners.get("word")
    stage.running = second
    stage.owners.get("word")
    first.over = True
    assert not owner.ended()
    second.over = True
    assert owner.ended()


def test_an_acquire_makes_a_user() -> None:
    """The thread or task that acquires is a user too, even if another one made the lock."""
    stage = Stage()
    maker, holder = stage.running, User("two")
    owner = stage.owners.get("word")
    stage.running = holder
    assert owner.reference() is owner
    maker.over = True
    assert not owner.ended()
    holder.over = True
    assert owner.ended()


def test_a_word_that_nobody_refers_to_is_forgotten() -> None:
    """A client keeps no word of an owner that nothing refers to."""
    stage = Stage()
    stage.owners.get("word")
    gc.collect()
    assert len(stage.owners) == 0


def test_a_forked_child_does_not_wait_for_a_thread_that_is_not_there() -> None:
    """After a fork the mutex is free, and each word is the owner that it was."""
    owners = Stage().owners
    owner = owners.get("word")
    parent = threading.Thread(target=owners._mutex.acquire)  # it ends, and never lets it go
    parent.start()
    parent.join()
    owners.after_fork()
    got: list[Owner] = []
    child = threading.Thread(target=lambda: got.append(owners.get("word")), daemon=True)
    child.start()
    child.join(5)
    assert got == [owner]


def test_a_word_must_not_be_empty() -> None:
    """An empty word is refused."""
    with pytest.raises(ConfigError, match="must not be empty"):
        Stage().owners.get("")
