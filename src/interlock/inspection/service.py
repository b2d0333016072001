"""Where a reader asks: the servers of one service, with a connection to each."""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from interlock._core.model.effects import Script
from interlock._core.model.foreign_text import safe
from interlock._core.scripts.source import sent
from interlock._links.connection import Connection
from interlock._links.replies import error_code, understood
from interlock._links.resp import ReplyError, pack
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import Options

STEP = 500
"""Keys that one SCAN looks at."""
Call = tuple[str | int, ...]
"""The number of the keys of a script, these keys, and its arguments."""
_LUA = resources.files("interlock.inspection").joinpath("lua")
_UPTIME = re.compile(rb"uptime_in_seconds:(\d+)")


def load(stem: str) -> Script[object]:
    """Return the script *stem* of this package; its replies come as they are."""
    text = _LUA.joinpath(f"{stem}.lua").read_text(encoding="utf-8")
    return Script(stem, sent(text), lambda reply: reply)


def text_of(value: object) -> str:
    """Return the text of a reply; bytes that are none become question marks."""
    return safe(cast("bytes", value).decode("utf-8", "replace"))


def code_of(reply: object) -> str:
    """Return the code of an error; an empty text if *reply* is none."""
    return error_code(str(reply)) if isinstance(reply, ReplyError) else ""


def _no_right(node: Endpoint, refusal: object, options: Options) -> ServerUnavailableError:
    from interlock.check import Requirements  # noqa: PLC0415 - only this error needs it

    line = Requirements(("operator",), options=options).acl_line()
    text = f"the user lacks a right at {node.where}: {refusal}; this line of an ACL file gives it: "
    return ServerUnavailableError(text + line, code="NOPERM")


class Service:
    """The servers of one service, whose primaries are its nodes; close it."""

    def __init__(self, servers: Topology, options: Options) -> None:
        self.servers = servers
        self.options = options
        self.nodes: Sequence[Endpoint] = ()
        self._timeout = servers.command_timeout or options.command_timeout
        self._connections: dict[Endpoint, Connection] = {}

    def close(self) -> None:
        """Close what is open."""
        while self._connections:
            self._connections.popitem()[1].close()

    @contextmanager
    def asked(self) -> Generator[None]:
        """Find the primaries, once; turn what Python raises meanwhile into errors of ours."""
        with understood(self.servers.where, self.close):
            self.nodes = self.nodes or self.servers.primaries(self._timeout)
            yield

    @property
    def sharded(self) -> bool:
        """Return whether messages go to the node of their channel."""
        wanted = self.options.pubsub in ("auto", "sharded")
        return wanted and bool(self.servers.sharded)

    def owner(self, key: str) -> Endpoint:
        """Return the primary that has *key*."""
        if not self.servers.clustered:
            return self.nodes[0]
        node = self.servers.owner(key)
        if node is None:
            raise self.servers.nobody(key)
        return node

    def uptime(self) -> int | None:
        """Return the seconds since the last start of a primary; None if none of them says."""
        told = [self.ask(node, [("INFO", "server")], may_lack=True)[0] for node in self.nodes]
        texts = [each for each in told if isinstance(each, bytes)]
        return min([int(found) for text in texts for found in _UPTIME.findall(text)], default=None)

    def ask(
        self, node: Endpoint, commands: Sequence[Sequence[str | int]], *, may_lack: bool = False
    ) -> list[object]:
        """Return the replies of *node* to *commands*, sent in one write; errors are replies too.

        A right that the user lacks is raised, unless it *may_lack* that.
        """
        if not commands:
            return []
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = Connection(node, self._timeout)
        try:
            replies = connection.exchange([pack(command) for command in commands], self._timeout)
        except ServerUnavailableError:
            self._connections.pop(node).close()
            raise
        for reply in replies:
            if code_of(reply) == "NOPERM" and not may_lack:
                raise _no_right(node, reply, self.options)
        return replies

    def one(self, node: Endpoint, *command: str | int) -> Any:
        """Return the reply of *node* to *command*; a refusal is raised."""
        [reply] = self.ask(node, [command])
        if isinstance(reply, ReplyError):
            text = f"{node.where} refused {command[0]}: {reply}"
            raise ServerUnavailableError(text, code=code_of(reply))
        return reply

    def scan(self, node: Endpoint, kind: str, pattern: str) -> Iterator[list[str]]:
        """Yield the keys of type *kind* that match *pattern* and are text, some at a time."""
        cursor = "0"
        while True:
            words = ("SCAN", cursor, "MATCH", pattern, "COUNT", STEP, "TYPE", kind)
            told, keys = self.one(node, *words)
            # A lock's name is UTF-8.
            texts = [(key, key.decode("utf-8", "ignore")) for key in keys]
            yield [text for key, text in texts if text and text.encode() == key]
            if (cursor := told.decode()) == "0":
                return

    def run(self, node: Endpoint, script: Script[object], calls: Sequence[Call]) -> list[object]:
        """Return what *script* answers to each of *calls*."""
        replies = self.ask(node, [("EVALSHA", script.sha, *call) for call in calls])
        missing = [i for i, reply in enumerate(replies) if code_of(reply) == "NOSCRIPT"]
        # The text goes with the first one; the server knows it by its digest from then on.
        again = [
            ("EVALSHA", script.sha, *calls[i]) if n else ("EVAL", script.text, *calls[i])
            for n, i in enumerate(missing)
        ]
        for i, reply in zip(missing, self.ask(node, again), strict=True):
            replies[i] = reply
        return replies
