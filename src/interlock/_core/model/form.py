"""Calls of one form: an object sends them again and again, each time with other ids.

The first such call is packed as a whole. In the packed bytes of the later ones only the ids differ,
and these are equally long. So they need not be packed: that takes 22,000 instructions for a
semaphore, and this takes 3,000 (callgrind, Python 3.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from interlock._core.model.effects import NEVER, Eval, R_co

if TYPE_CHECKING:
    from typing import TypeAlias

    Pieces: TypeAlias = tuple[str, str, str]
    Forms: TypeAlias = dict[tuple[object, ...], "Form[R_co] | None"]
    """The forms of one object, by what the calls of each have in common."""


_new: Any = object.__new__

MAX_FORMS = 8
"""Forms that an object keeps, at most."""


class Form(Generic[R_co]):
    """The calls that differ from *call* in nothing but their ids.

    Args:
        call: the first of them. It is sent, but not changed.
        ids: its ids, which follow each other in its keys or in its arguments. All ids have equally
            many bytes.
    """

    __slots__ = ("_after", "_before", "_call", "_ids", "_in_keys", "_pieces")

    def __init__(self, call: Eval[R_co], ids: tuple[str, ...]) -> None:
        self._call = call
        self._ids = ids
        self._in_keys = ids[0] in call.keys
        parts: tuple[str | int, ...] = call.keys if self._in_keys else call.args
        first = parts.index(ids[0])
        self._before, self._after = parts[:first], parts[first + len(ids) :]
        self._pieces: Pieces | None = None

    def anew(self, ids: tuple[str, ...], deadline: float = NEVER) -> Eval[R_co]:
        """Return such a call with *ids*, as many as the first call has."""
        model, parts = self._call, self._before + ids + self._after
        packed, pieces = None, self._pieces or self._cut()
        if pieces is not None:
            head, between, tail = pieces
            packed = f"{head}{between.join(ids)}{tail}".encode()
        # Made without `__init__`: a call of that costs twice as much as the object.
        call: Any = _new(Eval)
        call.script = model.script
        if self._in_keys:
            call.keys, call.args = parts, model.args
        else:
            call.keys, call.args = model.keys, parts
        call.deadline, call.packed = deadline, packed
        call.unknown = call.asks = 0
        call.replication = call.then = None
        call.spare_args, call.spare_keys = model.spare_args, model.spare_keys
        call.patient = model.patient
        call.readers = ""
        return call  # type: ignore[no-any-return]

    def _cut(self) -> Pieces | None:
        """Return what goes before, between and after the ids; None if nothing was packed yet."""
        packed, ids = self._call.packed, self._ids
        if packed is None:
            return None
        between = f"\r\n${len(ids[0].encode())}\r\n"
        head, _, tail = packed.decode().partition(between.join(ids))
        pieces = self._pieces = head, between, tail
        return pieces


def note_form(
    forms: Forms[R_co], common: tuple[object, ...], call: Eval[R_co], ids: tuple[str, ...]
) -> None:
    """Note in *forms* that *call* with *ids* is sent; its keys and arguments must not change.

    Many objects are used once. Only calls that come again are worth the memory of a form.

    Args:
        forms: those of the object.
        common: what the calls of that form have in common.
        call: one of them.
        ids: its ids.
    """
    if len(forms) >= MAX_FORMS:
        forms.clear()
    forms[common] = Form(call, ids) if common in forms else None
