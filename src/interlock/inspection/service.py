"""Where a reader asks: the servers of one service, with a connection to each."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, cast

from interlock._core.model.effects import Script
from interlock._core.model.foreign_text import safe
from interlock._core.scripts.source import sent
from interlock._links.cluster import Cluster
from interlock._links.connection import Connection
from interlock._links.replies import error_code, understood
from interlock._links.resp import ReplyError, pack
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from interlock._links.endpoint import Endpoint
    from interlock.options import Options

TOGETHER = 50
"""Keys that one script looks at, on a server that is no cluster."""
GONE = -2
"""What PTTL returns for a key that does not exist."""
Call = tuple[tuple[str, ...], tuple[str | int, ...]]
"""The keys of one object, and the arguments of a script for that object."""
_LUA = resources.files("interlock.inspection").joinpath("lua")


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


class Service:
    """The servers of one service; close it.

    Args:
        servers: one server, what finds it, or a cluster.
        options: the client's.

    Attributes:
        nodes: the primaries; empty before `find_nodes`.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        self.servers = servers
        self.options = options
        self.nodes: Sequence[Endpoint] = ()
        self._timeout = servers.command_timeout or options.command_timeout
        self._connections: dict[Endpoint, Connection] = {}

    def close(self) -> None:
        """Close what is open; doing it twice changes nothing."""
        while self._connections:
            self._connections.popitem()[1].close()

    def understood(self) -> AbstractContextManager[None]:
        """Turn what Python raises meanwhile into errors of ours."""
        return understood(self.servers.where, self.close)

    def find_nodes(self) -> None:
        """Find the primaries, once."""
        if not self.nodes:
            self.nodes = self.servers.primaries(self._timeout)

    def owner(self, key: str) -> Endpoint:
        """Return the primary that has *key*.

        Raises:
            ServerUnavailableError: none has it.
        """
        if not isinstance(self.servers, Cluster):
            return self.nodes[0]
        node = self.servers.owner(key)
        if node is None:
            raise self.servers.nobody(key)
        return node

    def ask(self, node: Endpoint, commands: Sequence[Sequence[str | int]]) -> list[object]:
        """Return the replies of *node* to *commands*, sent in one write; errors are replies too."""
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = Connection(node, self._timeout)
        try:
            return connection.exchange([pack(command) for command in commands], self._timeout)
        except ServerUnavailableError:
            self._connections.pop(node).close()
            raise

    def run(
        self, node: Endpoint, script: Script[object], limit: int, calls: Sequence[Call]
    ) -> list[object]:
        """Return what *script* answers for each of *calls*, several of which go together.

        A key that the user may not read refuses all that go with it: these are asked one by one.
        Then the first key of a call stands for its others that the user may not read.
        """
        size = 1 if isinstance(self.servers, Cluster) else TOGETHER
        groups = [calls[start : start + size] for start in range(0, len(calls), size)]
        found: list[object] = []
        for group, reply in zip(groups, self._answers(node, script, limit, groups), strict=True):
            if not isinstance(reply, ReplyError):
                found += cast("list[object]", reply)
            elif len(group) == 1:
                found.append(self._answer(node, script, limit, group[0], reply))
            else:
                singly = [[call] for call in group]
                replies = self._answers(node, script, limit, singly)
                for call, answer in zip(group, replies, strict=True):
                    found.append(self._answer(node, script, limit, call, answer))
        return found

    def _answer(
        self, node: Endpoint, script: Script[object], limit: int, call: Call, reply: object
    ) -> object:
        """Return the answer of *script* to *call*, which was sent alone, or the error."""
        (first, *others), arguments = call
        if others and code_of(reply) in ("NOPERM", "TRYAGAIN"):
            # While their slot moves, missing keys refuse the call too.
            left = self.ask(node, [("PTTL", key) for key in others])
            found = [
                key if isinstance(each, int) and each != GONE else first
                for key, each in zip(others, left, strict=True)
            ]
            alone = ((first, *found), arguments)
            [reply] = self._answers(node, script, limit, [[alone]])
        return reply if isinstance(reply, ReplyError) else cast("list[object]", reply)[0]

    def _answers(
        self,
        node: Endpoint,
        script: Script[object],
        limit: int,
        groups: Sequence[Sequence[Call]],
    ) -> list[object]:
        """Return the replies of *node* to *script*, one for each of *groups*."""
        tails: list[tuple[str | int, ...]] = []
        for group in groups:
            keys = [key for keys, _ in group for key in keys]
            arguments = [argument for _, arguments in group for argument in arguments]
            tails.append((len(keys), *keys, limit, *arguments))
        replies = self.ask(node, [("EVALSHA", script.sha, *tail) for tail in tails])
        missing = [i for i, reply in enumerate(replies) if code_of(reply) == "NOSCRIPT"]
        if missing:
            # The text goes with the first one; the server knows it by its digest from then on.
            commands = [
                ("EVAL", script.text, *tails[i]) if n == 0 else ("EVALSHA", script.sha, *tails[i])
                for n, i in enumerate(missing)
            ]
            for i, reply in zip(missing, self.ask(node, commands), strict=True):
                replies[i] = reply
        return replies

    @property
    def sharded(self) -> bool:
        """Return whether messages go to the node of their channel."""
        wanted = self.options.pubsub in ("auto", "sharded")
        return isinstance(self.servers, Cluster) and wanted and bool(self.servers.sharded)
