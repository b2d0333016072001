"""Names of locks that are taken from the arguments of a call."""

from __future__ import annotations

from enum import Enum
from functools import partial

import pytest

from interlock._naming import check_function, fixed_name, naming
from interlock.errors import ConfigError


def pay(order: dict[str, int], *, shop: str = "main") -> None:
    """Stand for a user's function."""


def test_a_name_is_made_of_arguments() -> None:
    """Fields stand for arguments by position, by keyword and by default, and for their items."""
    name_of = naming("pay:{shop}:{order[id]}", pay)
    assert name_of(({"id": 7},), {}) == "pay:main:7"
    assert name_of((), {"order": {"id": 8}, "shop": "north"}) == "pay:north:8"


class Shop(str, Enum):  # noqa: UP042 - a StrEnum would be its value for f-strings too
    """A text that has another `format` than its own characters."""

    NORTH = "north"


def test_a_field_is_the_text_of_an_enum() -> None:
    """A member of an enum of texts is its characters, as it is for a lock of that name."""
    name_of = naming("pay:{shop:>6}:{order[id]}", pay)
    assert name_of(({"id": Shop.NORTH},), {"shop": Shop.NORTH}) == "pay: north:north"


def test_a_template_without_fields_is_a_name() -> None:
    """Double braces belong to the name, as of a hash tag."""
    assert naming("{{orders}}:pay", pay)((), {}) == "{orders}:pay"
    assert fixed_name("{{orders}}:pay") == "{orders}:pay"


@pytest.mark.parametrize("template", ["{", "{0}", "{}", "{order.__class__}", "{order:{shop}}"])
def test_a_template_that_cannot_be_read(template: str) -> None:
    """Positions, private attributes and nested fields are refused."""
    with pytest.raises(ConfigError, match="no template"):
        naming(template, pay)


def test_a_field_that_is_no_parameter() -> None:
    """A misspelled field is refused when the function is decorated, not when it is called."""
    with pytest.raises(ConfigError, match="no parameter"):
        naming("{ordre}", pay)


def test_a_with_statement_has_no_call() -> None:
    """A name with fields is refused where no function is decorated."""
    with pytest.raises(ConfigError, match="from the call"):
        fixed_name("{order}")


async def _task() -> None: ...


def _generator() -> object:
    yield


def test_each_face_decorates_its_own_functions() -> None:
    """A coroutine function is for asyncio, a plain function is not, and a generator for neither."""
    check_function(pay)
    check_function(_task, is_async=True)
    for check, wrong in (
        (check_function, _task),
        (partial(check_function, is_async=True), pay),
        (check_function, _generator),
        (check_function, int),
    ):
        with pytest.raises(TypeError):
            check(wrong)
