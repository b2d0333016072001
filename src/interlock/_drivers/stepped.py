"""A class whose objects stand for coroutines, in C: to await one runs no code in Python."""

from __future__ import annotations

from contextlib import suppress
from types import GenericAlias
from typing import Any

_in_c: Any = None
with suppress(ImportError):  # there was no compiler, or the C part is older than its source
    from interlock._links._exchange import Unawaited as UnawaitedInC

    _in_c = UnawaitedInC


def in_c(python: type) -> type:
    """Return the type in C that does what the class *python* does; without it, that class.

    It keeps what it has itself, and gets all other methods.
    """
    if _in_c is None:
        return python
    made: type = _in_c
    for name, value in vars(python).items():
        given = callable(value) or isinstance(value, property)
        if given and name != "__init__" and name not in vars(made):
            setattr(made, name, value)
    made.__doc__ = python.__doc__
    setattr(made, "__class_getitem__", classmethod(GenericAlias))  # noqa: B010
    return made
