"""The names of connections in CLIENT LIST, by which operators find a client's process."""

from __future__ import annotations

import re

PREFIX = "interlock"
_REFUSED = re.compile(r"[^!-9;-~]")
_NAME = re.compile(rb"(?:^| )name=interlock:([^: ]+):", re.MULTILINE)


def connection_name(client_id: str, host: str, pid: object, program: str) -> str:
    """Return the name of a connection; the server accepts neither spaces nor non-ASCII."""
    parts = (PREFIX, client_id, host, str(pid), program)
    return ":".join(client_part(part) for part in parts)


def client_part(text: str) -> str:
    """Return *text* as it stands in a name."""
    return _REFUSED.sub("_", text)


def client_in_names(listed: bytes) -> set[str]:
    """Return the clients whose names stand in *listed*, the reply to CLIENT LIST."""
    return {found.decode() for found in _NAME.findall(listed)}
