"""The web console: who holds and awaits what, for people; needs the extra ``console``.

`watch` reads the servers, once for all readers. `history` remembers the last hour. `app` answers
requests. `access` decides who may see it. Pages are made by the server; one small script keeps them
up to date.
"""

from interlock.console.access import THIS_MACHINE, Access, Network
from interlock.console.app import Server, make_app
from interlock.console.connections import Connection
from interlock.console.history import History
from interlock.console.watch import Watch

__all__ = [
    "THIS_MACHINE",
    "Access",
    "Connection",
    "History",
    "Network",
    "Server",
    "Watch",
    "make_app",
]
