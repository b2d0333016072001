"""Read what servers know of locks, for operators: lists, descriptions, deadlocks.

Nothing here takes part in locking. A card may be lost, late or forged: then a screen is wrong.
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
