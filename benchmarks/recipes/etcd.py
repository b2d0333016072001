"""etcd's own election, by the JSON interface of its server.

No client of etcd for Python knows elections: those that do speak this interface or gRPC.
"""

from __future__ import annotations

import base64
import http.client
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE = 30
"""Seconds after which a dead candidate counts no more: as much as interlock's."""


class Client:
    """One candidate's connection.

    Args:
        address: the server's host and port.
    """

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def run(self, name: str, lead: Callable[[], object]) -> None:
        """Wait until this candidate leads, call *lead*, and resign."""
        lease = self._ask("lease/grant", TTL=LEASE)["ID"]
        campaign = {"name": _encoded(name), "lease": lease, "value": _encoded("candidate")}
        leader = self._ask("election/campaign", **campaign)["leader"]
        try:
            lead()
        finally:
            _ = self._ask("election/resign", leader=leader)

    def _ask(self, call: str, **body: Any) -> Any:
        self._connection.request("POST", f"/v3/{call}", json.dumps(body))
        response = self._connection.getresponse()
        text = response.read()
        if response.status != http.client.OK:
            raise ConnectionError(f"{call}: {text.decode()}")
        return json.loads(text)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
