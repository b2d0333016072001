"""The alphabet of effects: each yields itself, decodes its reply, and only `undoing` cleans up."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from interlock._core.model.effects import (
    Enqueue,
    Op,
    Script,
    Wait,
    ended,
    failing,
    undoing,
)

if TYPE_CHECKING:
    from tests.core.bench import Play


def _run(effect: Any) -> Op[Any]:
    return (yield from effect)


def test_script_is_named_by_the_digest_of_its_text() -> None:
    """A script's sha is what EVALSHA takes for its text."""
    double = Script("double", "return 2 * ARGV[1]", bool)
    assert double.sha == hashlib.sha1(b"return 2 * ARGV[1]").hexdigest()
    assert repr(double) == "<Script double>"


def test_operation_is_ended_when_it_has_returned_or_raised(play: type[Play]) -> None:
    """A driver can tell whether something may still be thrown into an operation."""
    returned, raised = _run(Wait(None, 1.0)), _run(Wait(None, 1.0))
    first, second = play(returned), play(raised)
    assert not ended(returned)
    first.answer(None)
    with pytest.raises(KeyboardInterrupt):
        second.answer(KeyboardInterrupt())

    assert ended(returned)
    assert ended(raised)


class TestUndoing:
    """What is undone, and when."""

    def _undo(self, what: str, error: BaseException) -> Op[None]:
        self.undone = (what, error)
        yield from Wait(None, 2.0)

    def test_success_is_not_undone(self, play: type[Play]) -> None:
        """An operation that returns is left as it is."""
        played = play(undoing(_run(Enqueue("c")), self._undo, "it"))

        assert played.answer("waiter").result == "waiter"
        assert not hasattr(self, "undone")

    @pytest.mark.parametrize("error", [ConnectionError(), KeyboardInterrupt()])
    def test_failure_is_undone_before_it_goes_on(
        self, play: type[Play], error: BaseException
    ) -> None:
        """Whatever ends an operation is raised when the clean-up is over, and not before."""
        played = play(undoing(_run(Enqueue("c")), self._undo, "it"))
        played.answer(error)

        assert played.effect == Wait(None, 2.0)
        assert self.undone == ("it", error)
        with pytest.raises(type(error)) as raised:
            played.answer(None)
        assert raised.value is error

    def test_abandoned_operation_is_not_undone(self, play: type[Play]) -> None:
        """Of an operation that nobody drives any more nothing is asked."""
        played = play(undoing(_run(Enqueue("c")), self._undo, "it"))
        played.abandon()

        assert not hasattr(self, "undone")


def _refused() -> Op[None]:
    yield from Wait(None, 1.0)
    raise ConnectionError


@pytest.mark.parametrize(
    ("struck", "raised"),
    [(KeyboardInterrupt, KeyboardInterrupt), (ValueError, ConnectionError)],
)
def test_a_ctrl_c_goes_before_an_error(
    play: type[Play], struck: type[BaseException], raised: type[BaseException]
) -> None:
    """An error of what is left to do hides no Ctrl-C; of two errors the later one is told."""
    played = play(failing(struck(), _refused()))

    with pytest.raises(raised):
        played.answer(None)
