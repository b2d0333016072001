"""Names of locks that are taken from the arguments of a call."""

from __future__ import annotations

import inspect
import re
import string
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.errors import ConfigError
from interlock.options import check_name, check_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

R = TypeVar("R")


class _Formatter(string.Formatter):
    """Takes a text for its characters, whatever it is for `format`: see `check_text`."""

    def format_field(self, value: object, format_spec: str) -> Any:
        if isinstance(value, str):
            value = check_text(value, "a part of a name")
        return format(value, format_spec)


_FORMATTER = _Formatter()

_FIELD = re.compile(r"([A-Za-z]\w*|_\w*)((?:\.[A-Za-z]\w*|\[[^\]]*\])*)")
"""A parameter, then public attributes and items of it."""


def fixed_name(template: str) -> str:
    """Return the name that *template* is without any call.

    Raises:
        ConfigError: it has fields, or is not a template.
    """
    fields = check_fields(template)
    if fields:
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
    named = _named(signature)
    for field in fields:
        if field not in named:
            raise ConfigError(
                f"{template!r} names {field!r}, "
                f"which is no parameter of {_called(function)}{signature}"
            )

    def name_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _FORMATTER.vformat(template, (), bound.arguments)

    return name_of


def _named(signature: inspect.Signature) -> set[str]:
    """Return the parameters that one argument of a call can be."""
    return {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def check_fields(template: str) -> list[str]:
    """Return the parameters that *template* names.

    Raises:
        TypeError: *template* is not a string.
        ConfigError: it is no template for a name.
    """
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


def check_function(function: object) -> None:
    """Raise TypeError unless *function* can be decorated by a sync client."""
    _check_callable(function)
    if _is_async(function):
        raise TypeError(
            f"{_called(function)} is a coroutine function: "
            "decorate it by a client of interlock.asyncio"
        )


def check_async_function(function: object) -> None:
    """Raise TypeError unless *function* can be decorated by an asyncio client."""
    _check_callable(function)
    if not _is_async(function):
        raise TypeError(
            f"{_called(function)} is not a coroutine function: make it one (`async def`), "
            "or decorate it by a client of interlock.connect()"
        )


def check_callback(callback: object) -> None:
    """Raise TypeError unless *callback* can be called."""
    if not callable(callback):
        raise TypeError(f"a callback must be callable, not {callback!r}")


def check_plain_callback(callback: object) -> None:
    """Raise TypeError unless *callback* can be called, and needs nobody to await its result."""
    check_callback(callback)
    if _is_async(callback):
        raise TypeError(
            f"{_called(callback)} is a coroutine function, which nobody would await here: "
            "give a plain function"
        )


def checked_awaitable(result: Awaitable[R], function: object) -> Awaitable[R]:
    """Return *result* of a call of *function*.

    Raises:
        TypeError: it cannot be awaited.
    """
    if not inspect.isawaitable(result):
        raise TypeError(
            f"{_called(function)} returned nothing to await: make it a coroutine function "
            "(`async def`)"
        )
    return result


def checked_result(result: R, function: object) -> R:
    """Return *result* of a call of *function*.

    Raises:
        TypeError: it is a coroutine, which would run after the lock was released.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            f"{_called(function)} returned a coroutine, which would run without the lock: "
            "a coroutine function needs a client of interlock.asyncio"
        )
    return result


def _check_callable(function: object) -> None:
    if inspect.isclass(function) or isinstance(function, staticmethod) or not callable(function):
        raise TypeError(
            f"only functions can be decorated, not {function!r}; "
            "put @classmethod, @staticmethod and @property above this decorator"
        )
    for part in _parts(function):
        if inspect.isgeneratorfunction(part) or inspect.isasyncgenfunction(part):
            raise TypeError(
                f"{_called(function)} is a generator function, "
                "and a call of it returns before it runs: use a with statement inside of it"
            )


def _is_async(function: object) -> bool:
    return any(inspect.iscoroutinefunction(part) for part in _parts(function))


def _parts(function: object) -> tuple[object, ...]:
    """Return the objects that may tell the kind of *function*; None for a missing one.

    They are *function* itself, the function inside a static method, and the ``__call__`` of an
    object.
    """
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
