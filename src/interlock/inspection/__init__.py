"""Read what servers know of locks, for operators: lists, descriptions, deadlocks.

Nothing here takes part in locking. It reads what is on the wire anyway, and the cards that clients
write about themselves. A card may be lost, late or forged: then a screen is wrong, and nothing
else.
"""

from interlock.inspection.deadlocks import Deadlock, DeadlockStep
from interlock.inspection.info import ClientInfo, HolderInfo, LockInfo, WaiterInfo
from interlock.inspection.reader import Reader

__all__ = [
    "ClientInfo",
    "Deadlock",
    "DeadlockStep",
    "HolderInfo",
    "LockInfo",
    "Reader",
    "WaiterInfo",
]
