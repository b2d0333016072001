"""Every error survives a pickle."""

from __future__ import annotations

import inspect
import pickle

import pytest

from interlock import errors
from interlock.errors import InterlockError

ALL = [
    found
    for found in vars(errors).values()
    if inspect.isclass(found) and issubclass(found, InterlockError)
]


@pytest.mark.parametrize("kind", ALL)
def test_an_error_survives_a_pickle(kind: type[InterlockError]) -> None:
    """The message and all attributes of an error reach another process."""
    error = kind("what happened")
    for name, value in vars(error).items():
        setattr(error, name, f"some {name}" if value == "" else value)
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is kind
    assert again.args == ("what happened",)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.AcquireTimeoutError, TimeoutError),
        (errors.NotHeldError, RuntimeError),
        (errors.HoldLostError, RuntimeError),
        (errors.ServerUnavailableError, ConnectionError),
        (errors.ConfigError, ValueError),
    ],
)
def test_an_error_is_also_a_builtin_one(kind: type[Exception], builtin: type[Exception]) -> None:
    """Code that knows only the built-in errors catches ours."""
    assert issubclass(kind, builtin)
