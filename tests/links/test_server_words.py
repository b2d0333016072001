"""Servers tell one thing in many words, and callers get one code for it."""

from __future__ import annotations

import pytest

from interlock import ServerUnavailableError
from interlock._links.replies import refusal

STOPPED = "attempted to access a non local key in a cluster node"
MOVING = (
    # Redis 6.2
    f"ERR Error running script (call to f_7a0a): @user_script:1: @user_script: 1: Lua script {STOPPED}",
    # Redis 7.0 to 8.2, Valkey 7.2 to 9.0
    f"ERR Script {STOPPED} script: 7a0a, on @user_script:1.",
    # Valkey 9.1
    f"ERR {STOPPED.capitalize()} script: on @user_script:1.",
)
OTHERS = (
    ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN"),
    ("ERR max number of clients reached", "MAXCLIENTS"),
    ("ERR max number of clients + cluster connections reached", "MAXCLIENTS"),
    ("ERR Unknown Redis command called from script script: 1, on @user_script:1.", "FORBIDDEN"),
    ("ERR Unknown command called from script script: on @user_script:1.", "FORBIDDEN"),
    ("ERR This Redis command is not allowed from scripts", "FORBIDDEN"),
    ("ERR This Valkey command is not allowed from script script: on @user_script:1.", "FORBIDDEN"),
    ("ERR The user executing the script can't run this command or subcommand", "NOPERM"),
    ("NOPERM ACL failure in script: User a has no permissions to run 'get'", "NOPERM"),
)


@pytest.mark.parametrize("text", MOVING)
def test_a_script_that_a_moving_slot_stopped_is_sent_again(text: str) -> None:
    """Every server's words for it mean: try again, and what came before may have been done."""
    error = refusal(text, None, "here:1")
    assert isinstance(error, ServerUnavailableError)
    assert (error.code, error.sent, error.transient) == ("TRYAGAIN", True, True)


@pytest.mark.parametrize(("text", "code"), OTHERS)
def test_each_servers_words_have_one_code(text: str, code: str) -> None:
    """Redis 6.2 to 8.2 and Valkey 7.2 to 9.1 are understood alike."""
    error = refusal(text, None, "here:1")
    assert isinstance(error, ServerUnavailableError)
    assert error.code == code
