"""What the application asks of a server."""

from __future__ import annotations

import pytest

from interlock.check.requirements import Requirements
from interlock.errors import ConfigError
from interlock.options import Options


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
    options = Options(prefix="tenant:")
    assert " ~tenant:app:* " in Requirements(names="app:*", options=options).acl_line()


def test_what_finds_the_servers_is_asked_for_once() -> None:
    """Commands that find the servers are in the line, each once."""
    wanted = Requirements(finding=("cluster", "cluster"))
    assert wanted.acl_line().split().count("+cluster") == 1
