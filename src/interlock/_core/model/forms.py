"""Commands that differ in nothing but their hold.

A `Form` packs its command once. Then a call costs the concatenation of three texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import Eval
from interlock._core.model.names import packed_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock._core.model.effects import Script
    from interlock._core.model.hold import Hold

HOLE = "\ud800"
"""Stands for a holder id among the arguments of a `Form`; those of several holds stand in a row.

It is no valid text, so nothing of a user's is taken for it.
"""
MORE = "\ud801"
"""Stands for what else differs from call to call, in the forms of some kinds."""

MOST = 8
"""Forms that one lock or counter keeps, at most: callers may give it many leases or numbers."""


class Form:
    """The calls of *script* that differ only in their hold.

    Args:
        script: the script.
        keys: its keys.
        args: its arguments, with a `HOLE` among them.
        spare: how many of the last keys may be left out: see `Eval`.

    Attributes:
        head, middle, tail: the packed command before, between and behind the holes.
    """

    __slots__ = ("args", "head", "keys", "middle", "script", "spare", "tail")

    def __init__(
        self,
        script: Script[Any],
        keys: tuple[str, ...],
        args: tuple[str | int, ...],
        spare: int = 0,
    ) -> None:
        self.script, self.keys, self.args, self.spare = script, keys, args, spare
        texts = ["EVALSHA", script.sha, len(keys), *keys, *args]
        pieces = [f"*{len(texts)}\r\n"]
        for each in texts:
            if each is HOLE or each is MORE:
                pieces.append("")
            else:
                pieces[-1] += packed_text(f"{each}")
        self.head, self.middle, self.tail = pieces[0], "".join(pieces[1:-1]), pieces[-1]

    def of(self, hold: Hold) -> Eval[Any]:
        """Return the call for *hold*."""
        call: Any = Spliced()
        call.script, call.form, call.hold = self.script, self, hold
        call.packed = f"{self.head}{hold.packed}{self.tail}".encode()
        return call  # type: ignore[no-any-return]


class Forms(dict[tuple[object, ...], Form]):
    """The forms of one lock or counter, by what they do and their numbers; only a few are kept."""

    __slots__ = ()

    def keep(self, which: tuple[object, ...], form: Form) -> Form:
        """Keep *form*, which was made just now, with a few others."""
        if len(self) >= MOST:
            self.clear()
        self[which] = form
        return form


class Made:
    """In place of a `Form`: *of* makes each call, because what that has is known only then."""

    __slots__ = ("of",)

    def __init__(self, of: Callable[[Hold], Eval[Any]]) -> None:
        self.of = of


class Spliced:
    """A call of a `Form`: an `Eval` to those who send it, but made without its constructor.

    Its parts are needed only if the server does not know the script yet.
    """

    __slots__ = ("form", "hold", "more", "packed", "script")
    form: Form
    hold: Hold
    more: str | int
    packed: bytes | None
    script: Script[Any]
    # Of the class, where an `Eval` has them in each object: what no call here has.
    deadline = float("inf")
    replication, spare_args = None, 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The form's keys, with the holes filled."""
        return tuple([f"{self.more}" if each is MORE else each for each in self.form.keys])

    @property
    def args(self) -> tuple[str | int, ...]:
        """The form's arguments, with the holes filled."""
        members = iter([part.member for part in self.hold.parts or (self.hold,)])
        args = [self.more if each is MORE else each for each in self.form.args]
        return tuple([next(members) if each is HOLE else each for each in args])

    @property
    def spare_keys(self) -> int:
        """How many of the last keys may be left out."""
        return self.form.spare

    def anew(self) -> Eval[Any]:
        """Return an unsent copy of this call, which need not be one of a form."""
        return Eval(self.script, self.keys, self.args, spare_keys=self.spare_keys)

    def __iter__(self) -> Generator[Any, Any, Any]:  # noqa: PYI058 - it returns the answer
        return self.script.decode((yield self))
