"""Names of locks that are taken from the arguments of a call, and checks of what is called."""

from __future__ import annotations

import contextlib
import inspect
import re
import string
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.errors import ConfigError
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

R = TypeVar("R")
_FIELD = re.compile(r"([A-Za-z]\w*|_\w*)((?:\.[A-Za-z]\w*|\[[^\]]*\])*)")
"""A parameter, then public attributes and items of it."""


class _Formatter(string.Formatter):
    """Takes a text for its characters, whatever it is for `format`: see `check_text`."""

    def format_field(self, value: object, format_spec: str) -> Any:
        if isinstance(value, str):
            value = check_text(value, "a part of a name")
        return format(value, format_spec)


def fixed_name(template: str) -> str:
    """Return the name that *template* is without any call; ConfigError if it has fields."""
    if fields := check_fields(template):
        raise ConfigError(
            f"{template!r} takes {fields[0]!r} from the call of a function that it decorates; "
            "in a with statement, give the name itself (and double braces that belong to it)"
        )
    return check_name(template.format())


def naming(
    template: str, function: Callable[..., Any]
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], str]:
    """Return a function from the arguments of a call of *function* to the name of its lock.

    Raises:
        ConfigError: *template* cannot be read, or names a parameter that *function* lacks.
    """
    fields = check_fields(template)
    if not fields:
        name = check_name(template.format())
        return lambda _args, _kwargs: name
    # A decorator below may call the function that it wraps with other arguments.
    signature = inspect.signature(function, follow_wrapped=False)
    if not _named(signature).issuperset(fields):
        signature = inspect.signature(function)
    for field in fields:
        if field not in _named(signature):
            raise ConfigError(
                f"{template!r} names {field!r}, "
                f"which is no parameter of {_called(function)}{signature}"
            )

    def name_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _Formatter().vformat(template, (), bound.arguments)

    return name_of


def _named(signature: inspect.Signature) -> set[str]:
    """Return the parameters that one argument of a call can be."""
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return {name for name, each in signature.parameters.items() if each.kind not in several}


def check_fields(template: str) -> list[str]:
    """Return the parameters that *template* names; ConfigError if it is no template."""
    check_name(template)
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"{template!r} is no template for a name: {error}") from error
    found: list[str] = []
    for _, field, spec, _ in parts:
        if field is None:
            continue
        match = _FIELD.fullmatch(field)
        if match is None or "{" in (spec or ""):
            raise ConfigError(
                f"{template!r} is no template for a name: a field is a parameter's name, "
                f"with public attributes or items, not {{{field}}}"
            )
        found.append(match[1])
    return found


def check_function(function: object, *, is_async: bool = False) -> None:
    """Raise TypeError unless *function* can be decorated by a client of its colour."""
    if inspect.isclass(function) or isinstance(function, staticmethod) or not callable(function):
        raise TypeError(
            f"only functions can be decorated, not {function!r}; "
            "put @classmethod, @staticmethod and @property above this decorator"
        )
    generates = inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if any(check(part) for part in _parts(function) for check in generates):
        raise TypeError(
            f"{_called(function)} is a generator function, "
            "and a call of it returns before it runs: use a with statement inside of it"
        )
    if is_async and not _is_async(function):
        raise TypeError(
            f"{_called(function)} is not a coroutine function: make it one (`async def`), "
            "or decorate it by a client of interlock.connect()"
        )
    if not is_async and _is_async(function):
        raise TypeError(
            f"{_called(function)} is a coroutine function: "
            "decorate it by a client of interlock.asyncio"
        )


def check_unreachable(choice: object) -> None:
    """Raise ConfigError unless *choice* says what to do when no server answers."""
    if choice not in ("raise", "run", "skip"):
        raise ConfigError(f'if_unreachable must be "raise", "run" or "skip", not {choice!r}')


def check_callback(callback: object, *, plain: bool = False) -> None:
    """Raise TypeError unless *callback* can be called; a *plain* one needs nobody to await it."""
    if not callable(callback):
        raise TypeError(f"a callback must be callable, not {callback!r}")
    if plain and _is_async(callback):
        raise TypeError(
            f"{_called(callback)} is a coroutine function, which nobody would await here: "
            "give a plain function"
        )


def checked_awaitable(result: Awaitable[R], function: object) -> Awaitable[R]:
    """Return *result* of a call of *function*; TypeError if it cannot be awaited."""
    if not inspect.isawaitable(result):
        raise TypeError(
            f"{_called(function)} returned nothing to await: make it a coroutine function "
            "(`async def`)"
        )
    return result


def checked_result(result: R, function: object) -> R:
    """Return *result* of a call of *function*; TypeError for what would run only after the call.

    That is a coroutine, a generator, or a block made of one by contextlib.
    """
    if isinstance(result, _LATE):
        raise TypeError(
            f"{_called(function)} returned a {type(result).__name__.strip('_')}, which would run "
            "without the lock: use a with statement inside of it"
        )
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            f"{_called(function)} returned a coroutine, which would run without the lock: "
            "a coroutine function needs a client of interlock.asyncio"
        )
    return result


_LATE: tuple[type[object], ...] = (
    GeneratorType,
    AsyncGeneratorType,
    contextlib._GeneratorContextManager,  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    contextlib._AsyncGeneratorContextManager,  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
)
"""The types of generators, and of the blocks that contextlib makes of them."""


def _is_async(function: object) -> bool:
    return any(inspect.iscoroutinefunction(part) for part in _parts(function))


def _parts(function: object) -> tuple[object, ...]:
    """Return what may tell the kind of *function*: itself, a static method's, or a ``__call__``."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return function, getattr(function, "__func__", None), call


def _called(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def takes_argument(function: Callable[..., object]) -> bool:
    """Return whether *function* can be called with one argument."""
    try:
        _ = inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function of C's that tells nothing
        return True
    return True
