"""Owners that ``owner=`` names.

Everything under one word is one owner, whatever thread or task uses it.

A word is kept while a lock object or a hold of it is there. Its holds are renewed while a thread
or task lives that has made a lock with the word: those who have all ended cannot release, and a
lease that is renewed for them would never end.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from interlock._core.holds import Owner
from interlock.errors import ConfigError
from interlock.options import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.holds import Hold


class _Reference:
    """What a hold knows a named owner by: it keeps the word, and knows who acquires the hold.

    Attributes:
        caller: the thread or task that made the hold.
    """

    __slots__ = ("_owner", "caller")

    def __init__(self, owner: NamedOwner, caller: object) -> None:
        self._owner = owner
        self.caller = caller

    def __call__(self) -> Owner:
        return self._owner


class NamedOwner(Owner):
    """The owner that one word names.

    Args:
        word: the word.
        caller: tells the thread or task that runs from all others that live.
    """

    shared = True
    __slots__ = ("_caller", "_users")

    def __init__(self, word: str, caller: Callable[[], object]) -> None:
        super().__init__(f"owner {word!r}")
        self._caller = caller
        self._users: dict[int, weakref.ref[Owner]] = {}

    # An attribute of other owners; drawn anew here each time.
    @property
    def reference(self) -> Callable[[], Owner | None]:
        """A new reference for each hold."""
        return _Reference(self, self._caller())

    @reference.setter
    def reference(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, weak: Callable[[], Owner | None]
    ) -> None:
        """Ignore the weak one."""

    def may_await(self, pending: Hold) -> bool:
        """Return whether another thread or task acquires *pending*."""
        made_by = pending.owner
        return isinstance(made_by, _Reference) and made_by.caller != self._caller()

    @staticmethod
    def caller_of(hold: Hold) -> object:
        """Return what *caller* said when *hold* was acquired."""
        made_by = hold.owner
        return made_by.caller if isinstance(made_by, _Reference) else None

    def used_by(self, user: Owner) -> None:
        """Note that the thread or task of *user* uses the word."""
        number, users = user.identity, self._users
        if number not in users:
            users[number] = weakref.ref(user, lambda _: users.pop(number, None))

    def gone(self) -> bool:
        """Return whether everybody who used the word has ended."""
        return not self.users()

    def users(self) -> list[Owner]:
        """Return the living threads and tasks that use the word."""
        known = [user() for user in list(self._users.values())]
        return [user for user in known if user is not None and not user.gone()]


class NamedOwners:
    """The words of one client.

    Args:
        caller: as of `NamedOwner`.
    """

    def __init__(self, caller: Callable[[], object]) -> None:
        self._caller = caller
        self._mutex = threading.RLock()
        self._owners: weakref.WeakValueDictionary[str, NamedOwner] = weakref.WeakValueDictionary()

    def after_fork(self) -> None:
        """Go on in a forked child: a thread that is not there may have the mutex."""
        self._mutex = threading.RLock()

    def __len__(self) -> int:
        return len(self._owners)

    def get(self, word: str, user: Owner) -> Owner:
        """Return the owner that everything under *word* is, which *user* is going to use.

        Raises:
            TypeError: *word* is not a string.
            ConfigError: it is empty, or cannot be written as UTF-8.
        """
        if not check_text(word, "an owner"):
            raise ConfigError("an owner must not be empty")
        with self._mutex:
            owner = self._owners.get(word)
            if owner is None:
                owner = self._owners[word] = NamedOwner(word, self._caller)
            owner.used_by(user)
            return owner
