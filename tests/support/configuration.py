"""What stands in a test server's configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.address import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.certificates import Certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The part of a configuration that does not depend on port and directory.

    Attributes:
        password: Of the default user.
        users: ACL rules, each as after the word ``user``.
        extra: Directives that win over all others.
        appendonly: Whether to log every write.
        primary: Port and password of the server to follow.
    """

    password: str | None = None
    users: Sequence[str] = ()
    extra: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    appendonly: bool = False
    primary: tuple[int, str | None] | None = None

    def render(
        self, *, port: int, unix_path: Path, data: Path, certificates: Certificates | None
    ) -> str:
        """Return the text of the file."""
        directives: dict[str, str | int] = {
            "port": port,
            "bind": LOOPBACK,
            "unixsocket": quoted(unix_path),
            "dir": quoted(data),
            "save": '""',
            "appendonly": "yes" if self.appendonly else "no",
            # Replicas are in step within a fraction of a second, and without a disk.
            "repl-diskless-sync": "yes",
            "repl-diskless-sync-delay": 0,
        }
        if certificates is not None:
            directives |= {
                "port": 0,
                "tls-port": port,
                "tls-ca-cert-file": quoted(certificates.ca),
                "tls-cert-file": quoted(certificates.server_cert),
                "tls-key-file": quoted(certificates.server_key),
                "tls-auth-clients": "yes",
                "tls-replication": "yes",
            }
        if self.password is not None:
            # Also as a follower's password: after a failover the old primary follows the new one.
            directives["requirepass"] = directives["masterauth"] = quoted(self.password)
        if self.primary is not None:
            primary_port, primary_password = self.primary
            directives["replicaof"] = f"{LOOPBACK} {primary_port}"
            if primary_password is not None:
                directives["masterauth"] = quoted(primary_password)
        directives |= self.extra
        lines = [f"{name} {value}" for name, value in directives.items()]
        lines += [f"user {rules}" for rules in self.users]
        return "".join(f"{line}\n" for line in lines)


def quoted(value: str | Path) -> str:
    """Return *value* as one argument of a directive."""
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
