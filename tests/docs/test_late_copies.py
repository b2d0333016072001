"""The table of late copies names each script, with a rule that its text obeys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.scripts import STEMS, TEXTS

from interlock.check.rights import commands_of, objects, operations
from interlock.inspection.kinds import Uses

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "late-copies.md"
RULES = dict(re.findall(r"^\| `(\w+)` \| (\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
WRITES = {
    *("decr", "decrby", "del", "hdel", "hset", "incrby", "lpop", "lrem", "pexpire", "rpush"),
    *("set", "zadd", "zrem", "zremrangebyrank", "zremrangebyscore"),
}
NAMES = {"holder", "party", "candidate", "ids", "me", "mark", "waiter", "client"}
EXPIRED_ONLY = {"leased_semaphore_query"}
"""It takes back what the server's clock says is over, and nothing else."""


def parameters(stem: str) -> set[str]:
    """Return the names of the keys and arguments of a script, as its header declares them."""
    return set(re.findall(r"^-- (?:KEYS|ARGV)\[[^\]]+\] +(\S+)", TEXTS[stem], re.MULTILINE))


def test_each_script_is_there() -> None:
    """The table has all scripts of the core, and no others."""
    assert sorted(RULES) == STEMS


@pytest.mark.parametrize("stem", STEMS)
def test_its_rule_is_obeyed(stem: str) -> None:
    """A script that reads writes nothing; others name a holder, or the request of the call."""
    rule, named = RULES[stem], parameters(stem)
    if rule == "read":
        assert not commands_of(Uses((stem,))) & WRITES
    elif rule == "answer":
        assert "request" in named
    elif rule == "longer":
        assert named & {*NAMES, "holders", "values", "field"} or stem.endswith(
            ("_renew", "_expire")
        )
    elif rule == "holder":
        assert named & NAMES or stem in EXPIRED_ONLY
    else:
        assert rule == "note"
        assert not any(stem in uses.scripts for uses in objects().values())
        assert any(stem in uses.scripts for uses in operations().values())
