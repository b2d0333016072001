"""What type checkers and readers of help() see: the same on both faces, and no internals."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
import typing
from pathlib import Path

import pytest

import interlock
import interlock.asyncio
from interlock.options import OptionChanges, Options

TYPING = Path(__file__).parent.parent / "typing"
FACES = {"sync": interlock, "asyncio": interlock.asyncio}
INTERNAL = re.compile(
    r"interlock\.(_|sync\b|asyncio\.)|_core|Driver|AnyHold|LockBase|LockLike|Endpoint|"
    r"CoreLock|Topology|CompositeLock"
)
"""What is no business of a user's."""

ONE_FACE = {"cancel_on_lost"}
"""What one face alone has."""


def public(face: str) -> dict[str, object]:
    """Return what a face has for users, by name."""
    return {name: getattr(FACES[face], name) for name in FACES[face].__all__}


def made_by_users(face: str) -> list[object]:
    """Return one of each kind of object that a client of *face* makes, without a server."""
    client, *others = (FACES[face].connect(f"redis://localhost:{port}") for port in (1, 2, 3))
    plain = [client.lock("a"), *(other.lock("a") for other in others)]
    locks = [
        *(*plain, client.fair_lock("a"), client.fenced_lock("a"), client.spin_lock("a")),
        *(client.group_lock("a", ["b"]), client.election("a")),
        *(client.multi_lock(*plain), client.red_lock(*plain)),
        *(client.read_write_lock("a").read, client.read_write_lock("a").write),
    ]
    semaphores = [client.semaphore("a"), client.leased_semaphore("a")]
    return [
        *(client, *locks, *semaphores, *(each.trying() for each in (*locks, *semaphores))),
        *(client.read_write_lock("a"), client.count_down_latch("a"), client.event("a")),
        *(client.condition("a"), client.barrier("a", 2), client.limited("a", 1)),
        *(client.locked("a"), client.single("a")),
    ]


def test_options_can_be_changed_by_their_names() -> None:
    """`OptionChanges` has exactly the fields of `Options`, and takes what they take."""
    changes = typing.get_type_hints(OptionChanges)
    fields = {field.name: field.type for field in dataclasses.fields(Options)}
    assert list(changes) == list(fields)
    assert OptionChanges.__required_keys__ == frozenset()
    for name, kind in OptionChanges.__annotations__.items():
        assert kind.__forward_arg__ in (fields[name], "Duration", "Duration | None")


@pytest.mark.parametrize("face", FACES)
def test_public_things_are_where_users_find_them(face: str) -> None:
    """The module of each public class and function is the one that users import it from."""
    for name, thing in public(face).items():
        if inspect.isclass(thing) or inspect.isfunction(thing):
            module = thing.__module__
            assert "._" not in f".{module}.", name
            assert not module.startswith("interlock.sync"), name
            if module == FACES[face].__name__:
                assert getattr(FACES[face], name) is thing
            if inspect.isclass(thing):
                assert "._" not in repr(thing)


@pytest.mark.parametrize("face", FACES)
def test_help_shows_nothing_of_what_is_inside(face: str) -> None:
    """help() of a public thing shows no private module, type or constructor parameter."""
    for name, thing in public(face).items():
        if name in ("__version__", "asyncio", "check", "errors", "fencing", "observe"):
            continue
        text = pydoc.plain(pydoc.render_doc(thing))
        assert not INTERNAL.search(text), (name, INTERNAL.search(text))


def test_every_public_method_is_checked() -> None:
    """The typed module uses each public method and property of each public class."""
    text = (TYPING / "public_asyncio.py").read_text()
    for name, thing in public("asyncio").items():
        if inspect.isclass(thing):
            for method in set(vars(thing)) & set(dir(thing)):  # without other libraries' names
                if not method.startswith("_") and method not in ONE_FACE:
                    assert re.search(rf"\.{method}\b", text), f"{name}.{method}"


@pytest.mark.parametrize("face", FACES)
def test_every_object_shows_what_users_may_use(face: str) -> None:
    """dir() of what the client makes, and of what that gives, shows only what the module uses."""
    text = (TYPING / "public_asyncio.py").read_text()
    for thing in made_by_users(face):
        for name in dir(thing):
            if not name.startswith("_") and name not in ONE_FACE:
                assert re.search(rf"\.{name}\b", text), f"{type(thing).__name__}.{name}"
