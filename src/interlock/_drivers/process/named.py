"""Owners that ``owner=`` names.

Everything under one word is one owner, whichever thread or task uses it.

A word is kept as long as a lock object or a hold with the word exists. Its holds are renewed while
at least one thread or task that made or acquired a lock with the word is alive. Once all of these
have ended, nobody can release the holds, and a renewed lease would never end.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from interlock._core.model.holds import Owner
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.holds import Hold


class _Reference:
    """The reference of a hold to its named owner, which it keeps alive.

    Attributes:
        caller: the identity of the thread or task that made the hold.
    """

    __slots__ = ("_owner", "caller")

    def __init__(self, owner: NamedOwner, caller: int) -> None:
        self._owner = owner
        self.caller = caller

    def __call__(self) -> Owner:
        return self._owner


class NamedOwner(Owner):
    """The owner that one word names.

    Args:
        word: the word.
        caller: returns the running thread or task, as an `Owner`.
    """

    shared = True
    __slots__ = ("_caller", "_users")

    def __init__(self, word: str, caller: Callable[[], Owner]) -> None:
        super().__init__(f"owner {word!r}")
        self._caller = caller
        self._users: dict[int, weakref.ref[Owner]] = {}

    # Other owners have one reference for all holds. Here each hold gets a new one.
    @property
    def reference(self) -> Callable[[], Owner | None]:
        """A new reference for each hold, which the running thread or task acquires."""
        user = self._caller()
        self.used_by(user)
        return _Reference(self, user.identity)

    @reference.setter
    def reference(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, weak: Callable[[], Owner | None]
    ) -> None:
        """Ignore the weak reference that `Owner` sets."""

    def may_await(self, pending: Hold) -> bool:
        """Return whether another thread or task acquires *pending*."""
        made_by = pending.owner
        return isinstance(made_by, _Reference) and made_by.caller != self._caller().identity

    def used_by(self, user: Owner) -> None:
        """Note that the thread or task of *user* uses the word."""
        number, users = user.identity, self._users
        if number not in users:
            users[number] = weakref.ref(user, lambda _: users.pop(number, None))

    def ended(self) -> bool:
        """Return whether all threads and tasks that used the word have ended."""
        return not self.users()

    def users(self) -> list[Owner]:
        """Return the living threads and tasks that use the word."""
        known = [user() for user in list(self._users.values())]
        return [user for user in known if user is not None and not user.ended()]


class NamedOwners:
    """The words of one client.

    Args:
        caller: as for `NamedOwner`.
    """

    def __init__(self, caller: Callable[[], Owner]) -> None:
        self._caller = caller
        self._mutex = threading.RLock()
        self._owners: weakref.WeakValueDictionary[str, NamedOwner] = weakref.WeakValueDictionary()

    def after_fork(self) -> None:
        """Make a new mutex in a forked child: a thread of the parent may hold the old one."""
        self._mutex = threading.RLock()

    def __len__(self) -> int:
        return len(self._owners)

    def get(self, word: str) -> Owner:
        """Return the owner that *word* stands for; note that the caller uses it.

        Raises:
            TypeError: *word* is not a string.
            ConfigError: it is empty, or cannot be written as UTF-8.
        """
        word = check_name(word, "an owner")
        with self._mutex:
            owner = self._owners.get(word)
            if owner is None:
                owner = self._owners[word] = NamedOwner(word, self._caller)
            owner.used_by(self._caller())
            return owner
