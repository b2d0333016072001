"""Calls of one form: only their ids are put into the packed bytes anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.model.form import MAX_FORMS, Form, note_form
from interlock._core.scripts.leased_semaphore import leased_semaphore_acquire
from interlock._core.scripts.script import Request
from interlock._core.scripts.semaphore import semaphore_acquire, semaphore_release
from interlock._links.resp import pack_evalsha

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval
    from interlock._core.model.form import Forms

NAME = "n\N{LATIN SMALL LETTER E WITH ACUTE}me"


def ids(digit: str) -> tuple[str, str]:
    """Return a request and the latch that it removes, as long as any others."""
    return f"latch:{{{NAME}}}:{digit * 32}", f"latch:{{{NAME}}}:{'0' * 32}"


def acquire(digit: str) -> Eval[int]:
    """Return an acquire with these ids."""
    return semaphore_acquire(NAME, Request(*ids(digit), 30), 1, "PUBLISH", "c:x")


def release(digit: str) -> Eval[bool]:
    """Return a release with these ids."""
    return semaphore_release(NAME, Request(*ids(digit), 30), 1, 0, 0, "PUBLISH", "c:x")


@pytest.mark.parametrize("call", [acquire, release])
def test_a_call_of_a_form_is_sent_as_if_it_was_packed(call: Callable[[str], Eval[Any]]) -> None:
    """Its bytes, keys and arguments are those of a call that was made for its ids."""
    first = call("a")
    form = Form(first, ids("a"))
    unsent = form.anew(ids("b"))
    assert unsent.packed is None, "the first one was not packed yet"
    pack_evalsha(first)
    later, expected = form.anew(ids("c"), 5.0), call("c")
    assert later.packed == pack_evalsha(expected)
    assert (later.keys, later.args) == (expected.keys, expected.args)
    assert later.spare_keys == expected.spare_keys
    assert later.deadline == 5


def test_ids_may_be_among_the_arguments() -> None:
    """The ids of permits are an argument."""
    first = leased_semaphore_acquire("name", 30, "a" * 32, "PUBLISH", "c:x")
    form = Form(first, ("a" * 32,))
    pack_evalsha(first)
    expected = leased_semaphore_acquire("name", 30, "b" * 32, "PUBLISH", "c:x")
    later = form.anew(("b" * 32,))
    assert later.args == expected.args
    assert later.packed == pack_evalsha(expected)


def test_only_calls_that_come_again_have_a_form() -> None:
    """An object that is used once keeps no command, and none keeps many."""
    forms: Forms[Any] = {}
    call = leased_semaphore_acquire("name", 30, "a" * 32, "PUBLISH", "c:x")
    note_form(forms, ("one",), call, ("a" * 32,))
    assert forms == {("one",): None}
    note_form(forms, ("one",), call, ("a" * 32,))
    assert forms["one",] is not None
    for number in range(3 * MAX_FORMS):
        note_form(forms, (number,), call, ("a" * 32,))
    assert len(forms) <= MAX_FORMS
