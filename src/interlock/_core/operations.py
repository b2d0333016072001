"""What a face asks of a lock, be it one (`lock_like`) or several held as one (`multi_lock`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Owner, Possession
    from interlock._core.scripts.lock import LockStatus


class Operations(Protocol):
    """The operations of a lock; see `LockLike` for what each does, costs and raises."""

    name: str

    def acquire(
        self, owner: Owner, deadline: float, lease: float | None
    ) -> Op[Possession | None]: ...
    def acquire_or_raise(
        self, owner: Owner, deadline: float, timeout: float, lease: float | None
    ) -> Op[Possession]: ...
    def release(self, owner: Owner) -> Op[None]: ...
    def extend(self, owner: Owner, lease: float) -> Op[None]: ...
    def force_release(self) -> Op[bool]: ...
    def status(self) -> Op[LockStatus]: ...
    def depth_of(self, owner: Owner) -> Op[int]: ...
    def hold_of(self, owner: Owner) -> Possession | None: ...
