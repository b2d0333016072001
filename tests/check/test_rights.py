"""The rights that a check names: they suffice for every object."""

from __future__ import annotations

import logging
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.needs import IN_OTHER_WORDS
from tests.support.doings import DOINGS, do_everything

import interlock
from interlock.check import Requirements
from interlock.check.requirements import OPERATIONS
from interlock.check.requirements import objects as kinds
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

    from interlock.options import ReplicaPolicy

ACL_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "acl.md"


def test_the_reference_shows_the_lines_that_are_printed() -> None:
    """The lines in docs/reference/acl.md are the printed ones under ``locks:*``."""
    shown = re.findall(r"^user \S+ (on .*)$", ACL_PAGE.read_text(), re.MULTILINE)
    printed = [Requirements((kind,), "locks:*").acl_line().split()[2:] for kind in kinds()]
    for kind in OPERATIONS:
        known = kind == "cards"
        wanted = Requirements(("lock", kind), "locks:*", library=known)
        printed.append(wanted.acl_line().split()[2:])
    tenant = Requirements(options=interlock.Options(prefix="acme:")).tenant_line()
    printed.append(tenant.split()[2:])
    assert sorted(sorted(line.split()) for line in shown) == sorted(map(sorted, printed))


@pytest.mark.parametrize(
    ("kind", "names", "rules"),
    [
        ("lock", "*", "~* resetchannels &interlock_*{* &redisson_*{*"),
        (
            *("lock", "a"),
            (
                "~a ~{a}:* ~interlock_*{a}* ~redisson_*{a}*"
                " resetchannels &interlock_*{a}* &redisson_*{a}*"
            ),
        ),
        (
            *("semaphore", "app:{x}:*"),
            (
                "~app:{x}:* ~interlock_*app:{x}:* ~redisson_*app:{x}:*"
                " resetchannels &interlock_*app:{x}:* &redisson_*app:{x}:*"
            ),
        ),
        (*("spin_lock", "a*"), "~a* ~{a* ~interlock_*{a* ~redisson_*{a* resetchannels"),
    ],
)
def test_keys_and_channels_follow_the_names(kind: str, names: str, rules: str) -> None:
    """A beginning of names covers what is derived from them; one name covers only its own."""
    line = Requirements((kind,), names).acl_line()
    assert f" resetkeys {rules} -@all " in line


@pytest.mark.parametrize(
    ("policy", "commands"),
    [
        (interlock.required(2), "+wait"),
        (interlock.best_effort("all"), "+wait +info"),
        (interlock.required(1, fsync=True), "+waitaof"),
    ],
)
def test_replicas_that_must_acknowledge_need_rights_too(
    policy: ReplicaPolicy, commands: str
) -> None:
    """The commands that ask the replicas are in the line."""
    requirements = Requirements(options=interlock.Options(replicas=policy))
    assert requirements.acl_line().endswith(f"+ping +pubsub|numsub {commands}")


def url_of(server: RedisServer, lacking: list[str], kind: str) -> str:
    """Return the URL of a user with the rights of the line for *kind*, but for *lacking*."""
    _, user, *rules = Requirements((kind,), "locks:*").acl_line().split()
    user = f"{user}-{len(lacking)}-{kind}"
    server.execute("ACL", "SETUSER", user, "reset", *rules, *lacking)
    return server.url(0, user, "secret")


def test_the_printed_line_permits_all_that_its_object_does(any_server: RedisServer) -> None:
    """With only the rights of its line, each object can do everything: the server denies nothing."""
    any_server.execute("SCRIPT", "FLUSH")
    any_server.execute("ACL", "LOG", "RESET")
    do_everything(partial(url_of, any_server, []), card=False)
    assert any_server.execute("ACL", "LOG") == []


@pytest.mark.parametrize(
    ("lacking", "event"),
    [
        (["-publish"], "messages.refused"),
        (["resetchannels"], "messages.refused"),
        (
            ["resetkeys", "~locks:*", "~{locks:*", "~redisson_*", "~interlock_[^oq]*"],
            "keys.refused",
        ),
    ],
    ids=["publish", "channels", "queue"],
)
@pytest.mark.promise("rights")
@pytest.mark.parametrize("any_server", IN_OTHER_WORDS, indirect=True)
def test_what_was_acquired_is_released_without_messages_or_the_queue(
    any_server: RedisServer, lacking: list[str], event: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each object does all the same; each client logs the line that gives the right, once."""
    any_server.execute("SCRIPT", "FLUSH")
    caplog.set_level(logging.WARNING, "interlock")
    do_everything(partial(url_of, any_server, lacking), card=False)
    told = [each for each in caplog.records if getattr(each, "event", "") == event]
    assert told
    assert len(told) <= 2 * len(DOINGS)
    assert all("user app on >secret " in each.getMessage() for each in told)


@pytest.mark.parametrize("names", ["", "a*b", "*a", "a?", "[a]", "a b"])
def test_a_pattern_has_one_star_at_its_end(names: str) -> None:
    """Names are one name, or the beginning of names and a star; all else is refused."""
    with pytest.raises(ConfigError):
        Requirements(names=names)


@pytest.mark.parametrize("objects", [(), ("lock", "lokc")])
def test_unknown_objects_are_refused(objects: tuple[str, ...]) -> None:
    """A kind that does not exist is refused, and so is none at all."""
    with pytest.raises(ConfigError, match="wanted objects of"):
        Requirements(objects=objects)


def test_the_clients_prefix_is_in_the_pattern() -> None:
    """The server sees the names behind the client's prefix."""
    options = interlock.Options(prefix="tenant:")
    assert " ~tenant:app:* " in Requirements(names="app:*", options=options).acl_line()


def test_what_finds_the_servers_is_asked_for_once() -> None:
    """Commands that find the servers are in the line, each once."""
    wanted = Requirements(finding=("cluster", "cluster"))
    assert wanted.acl_line().split().count("+cluster") == 1
