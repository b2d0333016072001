"""What type checkers and readers of help() see: the same on both faces, and no internals."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import pytest

import interlock
import interlock.asyncio
from interlock.options import OptionChanges, Options

FACES = {"sync": interlock, "asyncio": interlock.asyncio}


def public(face: str) -> dict[str, object]:
    return {name: getattr(FACES[face], name) for name in FACES[face].__all__}


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
