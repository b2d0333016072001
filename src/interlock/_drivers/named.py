"""Owners that ``owner=`` names.

Everything under one word is one owner, whatever thread or task uses it.

A word is kept while a lock object or a hold of it is there. Its holds are renewed while a thread
or task lives that has made a lock with the word: those who have all ended cannot release, and a
lease that is renewed for them would never end.
"""

from __future__ import annotations

import threading
import weakref

from interlock._core.holds import Owner
from interlock.errors import ConfigError
from interlock.options import check_text


class NamedOwner(Owner):
    """The owner that one word names."""

    shared = True
    __slots__ = ("_users",)

    def __init__(self, word: str) -> None:
        super().__init__(f"owner {word!r}")
        self.reference = None  # the word is kept by what is held under it
        self._users: dict[int, weakref.ref[Owner]] = {}

    def used_by(self, user: Owner) -> None:
        """Note that the thread or task of *user* uses the word."""
        number, users = user.identity, self._users
        if number not in users:
            users[number] = weakref.ref(user, lambda _: users.pop(number, None))

    def gone(self) -> bool:
        """Return whether everybody who used the word has ended."""
        living = [user() for user in list(self._users.values())]
        return all(user is None or user.gone() for user in living)


class NamedOwners:
    """The words of one client."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._owners: weakref.WeakValueDictionary[str, NamedOwner] = weakref.WeakValueDictionary()

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
                owner = self._owners[word] = NamedOwner(word)
            owner.used_by(user)
            return owner
