"""A call that the server refused before its script began is sent again, and no other call."""

from __future__ import annotations

import pytest

from interlock._core.model.effects import Eval
from interlock._core.scripts.locks import RELEASE, lock_query, remember
from interlock._links.resp import (
    Attempt,
    ReplyError,
    pack_eval,
    pack_evalsha,
    without_spare,
)

QUEUE = "interlock_queue:{name}"
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


def release() -> Eval[object]:
    """Return a call that may do without its queue."""
    return Eval(RELEASE["PUBLISH"], ("name", QUEUE), ("me:1", 0, "channel"), spare_keys=1)


@pytest.mark.parametrize("error", [MOVING, *NO_RIGHT])
def test_the_spare_key_is_left_out(error: str) -> None:
    """A call whose queue is missing or forbidden goes again without it, once."""
    call = release()
    attempt, bare = Attempt(call, {}), without_spare(call)

    assert call.keys == ("name", QUEUE)
    assert bare.keys == ("name",)
    assert attempt.again(ReplyError(error)) == pack_evalsha(bare)
    assert attempt.again(ReplyError(error)) is None


@pytest.mark.parametrize("error", HALF_WAY)
def test_a_script_that_ran_half_way_is_not_sent_again(error: str) -> None:
    """It may have released the lock: a repetition would find nothing and report a loss."""
    call = release()
    assert Attempt(call, {}).again(ReplyError(error)) is None


def test_the_text_goes_without_the_spare_key_too() -> None:
    """A server that does not know the script either gets its text, with and without the key."""
    call = release()
    attempt = Attempt(call, {})

    assert attempt.again(ReplyError("NOSCRIPT No matching script")) == pack_eval(call)
    assert attempt.again(ReplyError(MOVING)) == pack_eval(without_spare(call))
    assert attempt.again(ReplyError("NOSCRIPT No matching script")) is None


def test_the_text_of_a_script_goes_once_in_a_write() -> None:
    """A second call of the same script goes without, until the server refuses that, too."""
    call = release()
    first, second, unknown = (
        Attempt(call, {}),
        Attempt(call, {}),
        ReplyError("NOSCRIPT No matching script"),
    )
    texts: set[str] = set()

    assert first.again(unknown, texts) == pack_eval(call)
    assert second.again(unknown, texts) == pack_evalsha(call)
    assert second.again(unknown, set()) == pack_eval(call)
    assert second.again(unknown, set()) is None


def test_what_goes_with_the_spare_key_is_left_out() -> None:
    """Arguments about the key go with it; a call without a spare key stays whole."""
    once, plain = release(), lock_query("name")
    args = once.args
    remember(once, "request:{name}", 30)

    assert without_spare(once).keys == ("name",)
    assert without_spare(once).args == args
    assert without_spare(plain) is plain
    assert Attempt(plain, {}).again(ReplyError(MOVING)) is None


def test_a_kept_call_remembers_that_the_user_lacks_the_right() -> None:
    """The next use of the call goes without the key at once."""
    call = release()
    again = Attempt(call, {}).again(ReplyError(NO_RIGHT[0]))
    assert pack_evalsha(call) == again
