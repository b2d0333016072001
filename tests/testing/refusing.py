"""A fake server that refuses what services refuse: docs/reference/services.md.

No service was asked: each refuses what its own documents say.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from fakeredis._helpers import SimpleError
from fakeredis._socket._base import BaseFakeSocket
from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin

from interlock.testing import fake

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES = frozenset({"PUBLISH", "SPUBLISH", "PUBSUB"})
MODES = {
    "bare": (MESSAGES | {"TIME", "CLUSTER"}, frozenset({"CONFIG", "WAIT", "ACL", "COMMAND"})),
    "silent": (MESSAGES, frozenset({"PUBLISH", "SPUBLISH"})),
}
"""What scripts may not call, and what clients may not send.

The first one refuses everything that some service refuses and locks can do without, the second one
has no messages at all.
"""


@contextmanager
def refusing(mode: str) -> Iterator[str]:
    """Run a fake server that refuses what *mode* says, and give its URL."""
    in_scripts, of_clients = MODES[mode]
    call, find = ScriptingCommandsMixin._lua_redis_call, BaseFakeSocket._name_to_func

    def checked_call(self: Any, lua: Any, known: Any, op: bytes, *args: Any) -> Any:
        if op.decode().upper() in in_scripts:
            raise SimpleError("ERR This Redis command is not allowed from script")
        return call(self, lua, known, op, *args)

    def checked_find(self: Any, name: str) -> Any:
        if name.partition(" ")[0].upper() in of_clients:
            raise SimpleError(f"ERR unknown command '{name}'")
        return find(self, name)

    with pytest.MonkeyPatch.context() as patched, fake() as server:
        patched.setattr(ScriptingCommandsMixin, "_lua_redis_call", checked_call)
        patched.setattr(BaseFakeSocket, "_name_to_func", checked_find)
        yield server.url
