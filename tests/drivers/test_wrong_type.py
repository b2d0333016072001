"""The error that names what was found in a key of another kind of object."""

from __future__ import annotations

import pytest

from interlock._drivers.wrong_type import describe, types_of
from interlock.errors import WrongTypeError


@pytest.fixture
def error() -> WrongTypeError:
    """Give the error for a lock with two keys."""
    return WrongTypeError("cannot lock", keys=("a", "b"))


def test_every_key_is_asked_about(error: WrongTypeError) -> None:
    """One script asks for the type of each key of the error."""
    assert types_of(error).keys == ("a", "b")


def test_the_type_and_the_time_are_named(error: WrongTypeError) -> None:
    """The message names each key that is there, its type and when it ends."""
    describe(error, [b"list", -1, b"none", -2])
    assert error.found == {"a": "list"}
    assert str(error) == "cannot lock (found: 'a' is a list)"


def test_a_string_that_ends_may_be_redis_pys(error: WrongTypeError) -> None:
    """A string with a TTL is told to be perhaps the lock of another library."""
    describe(error, [b"string", 1500, b"none", -2])
    assert "'a' is a string that ends in 1.5 s" in str(error)
    assert "redis-py's Lock" in str(error)


def test_a_key_that_has_gone_changes_nothing(error: WrongTypeError) -> None:
    """The message stays as it was if the keys have gone meanwhile."""
    describe(error, [b"none", -2, b"none", -2])
    assert error.found == {}
    assert str(error) == "cannot lock"
