"""A kind of lock that nobody needs, to show what a new kind takes: a module, a script, a row.

It is a plain lock under a key of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.kinds import KeyPattern, Kind, Sight, Uses
from interlock._core.locks import forced
from interlock._core.locks.lock import Lock
from interlock._core.model import names
from interlock._core.model.effects import Eval
from interlock._core.scripts.script import Grant, grant_or_left, load, milliseconds
from interlock.sync import Lock as Face

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock import Client
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session

LUA = """\
local room, lease, holder, depth = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('hlen', room) > 0 and redis.call('hexists', room, holder) == 0 then
  return redis.call('pttl', room)
end
redis.call('hset', room, holder, depth)
redis.call('pexpire', room, lease)
return nil
"""


def room_key(name: str) -> str:
    """Return the key of the room lock *name*."""
    return names.prefix_name("interlock_room", name)


def room_channel(name: str) -> str:
    """Return the channel of the room lock *name*."""
    return names.prefix_name("interlock_room__channel", name)


def own_request(name: str) -> str:
    """Return how the keys begin that remember answers about the room lock *name*."""
    return names.own_request(room_key(name), "")


class RoomLock(Lock):
    """A plain lock under a key of its own."""

    kind = "room lock"
    passes_locally = False

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self.channel = self.queue = room_channel(self.key)
        self.key = self.hold_key = room_key(self.key)
        self._script = load("room_lock_acquire", grant_or_left)

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*."""
        args = (milliseconds(lease), hold.holder, depth)
        return Eval(self._script, (self.key,), args, deadline)


ROW = Kind(
    cores=(RoomLock,),
    page="reference/lock.md",
    uses=Uses(
        ("room_lock_acquire", "lock_release", "lock_renew", "lock_force_release", "lock_query"),
        keys=(KeyPattern(room_key), KeyPattern(own_request, varied=True)),
        channels=(KeyPattern(room_channel),),
        named=False,
    ),
    key=room_key,
    sight=Sight(key=room_key, short="room"),
    breaks=forced.by_its_class(RoomLock),
    by_ticket=RoomLock,
)


def room_lock(client: Client, name: str, *, reentrant: bool = True) -> Face:
    """Return the room lock *name*: the factory on the client."""
    driver = client._driver
    return Face(driver, RoomLock(driver.session, name, reentrant=reentrant))


def reader_beside(read: Callable[[str], str]) -> Callable[[str], str]:
    """Return what reads the Lua file of this kind, and all others as *read* does."""
    return lambda path: LUA if path == "room_lock_acquire.lua" else read(path)
