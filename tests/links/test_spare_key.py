"""A call that the server refused before its script began is sent again, and no other call."""

from __future__ import annotations

import pytest

from interlock._core.scripts.lock import lock_acquire, lock_hand_over, lock_release
from interlock._links.resp import Attempt, ReplyError, pack_eval, pack_evalsha, without_spare

CHANNEL = "redisson_lock__channel:{name}"
MOVING = "TRYAGAIN Multiple keys request during rehashing of slot"
NO_RIGHT = (
    "NOPERM No permissions to access a key",
    "NOPERM this user has no permissions to access one of the keys used as arguments",
)
HALF_WAY = (
    "ERR Error running script: Script attempted to access a non local key in a cluster node",
    "ERR Script attempted to access a non local key in a cluster node script: 0, on @user_script:7",
    "NOPERM ACL failure in script: No permissions to access a key script: 0, on @user_script:7",
)


@pytest.mark.parametrize("error", [MOVING, *NO_RIGHT])
def test_the_spare_key_is_left_out(error: str) -> None:
    """A call whose queue is missing or forbidden goes again without it, once."""
    call = lock_release("name", "me:1", 0, "PUBLISH", CHANNEL)
    attempt, bare = Attempt(call), without_spare(call)

    assert call.keys == ("name", "interlock_queue:{name}")
    assert bare.keys == ("name",)
    assert attempt.again(ReplyError(error)) == pack_evalsha(bare)
    assert attempt.again(ReplyError(error)) is None


@pytest.mark.parametrize("error", HALF_WAY)
def test_a_script_that_ran_half_way_is_not_sent_again(error: str) -> None:
    """It may have released the lock: a repetition would find nothing and report a loss."""
    call = lock_release("name", "me:1", 0, "PUBLISH", CHANNEL)
    assert Attempt(call).again(ReplyError(error)) is None


def test_the_text_goes_without_the_spare_key_too() -> None:
    """A server that does not know the script either gets its text, with and without the key."""
    call = lock_release("name", "me:1", 0, "PUBLISH", CHANNEL)
    attempt = Attempt(call)

    assert attempt.again(ReplyError("NOSCRIPT No matching script")) == pack_eval(call)
    assert attempt.again(ReplyError(MOVING)) == pack_eval(without_spare(call))
    assert attempt.again(ReplyError("NOSCRIPT No matching script")) is None


def test_what_goes_with_the_spare_key_is_left_out() -> None:
    """Arguments about the queue go with its key; a call without a spare key stays whole."""
    leaving = lock_hand_over("name", "me:1", "me:2", 30, leaving=("interlock_queue:{name}", "me"))
    plain = lock_acquire("name", 30, "me:1", 1)

    assert without_spare(leaving).args == ("me:1", "me:2", 30_000)
    assert without_spare(plain) is plain
    assert Attempt(plain).again(ReplyError(MOVING)) is None


def test_a_kept_call_remembers_that_the_user_lacks_the_right() -> None:
    """The next use of the call goes without the key at once."""
    call = lock_release("name", "me:1", 0, "PUBLISH", CHANNEL)
    again = Attempt(call).again(ReplyError(NO_RIGHT[0]))
    assert pack_evalsha(call) == again
