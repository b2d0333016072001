"""Certificates for one test bed: an authority of its own, a server and a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files that trust each other and nothing else.

    Attributes:
        ca: The authority's certificate.
        server_cert: For ``localhost``, 127.0.0.1 and ::1.
        server_key: Its key.
        client_cert: For the client named ``interlock-test-client``.
        client_key: Its key.
    """

    ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path

    @classmethod
    def create(cls, directory: Path) -> Certificates:
        """Generate all five files in *directory*, which must exist.

        Raises:
            ModuleNotFoundError: `cryptography` is missing; the extra ``dev`` brings it.
        """
        from tests.support._authority import Authority

        authority = Authority()
        server_cert, server_key = authority.issue("localhost", server=True)
        client_cert, client_key = authority.issue("interlock-test-client", server=False)
        certificates = cls(
            ca=directory / "ca.pem",
            server_cert=directory / "server.pem",
            server_key=directory / "server.key",
            client_cert=directory / "client.pem",
            client_key=directory / "client.key",
        )
        certificates.ca.write_bytes(authority.pem)
        certificates.server_cert.write_bytes(server_cert)
        certificates.client_cert.write_bytes(client_cert)
        for path, key in (
            (certificates.server_key, server_key),
            (certificates.client_key, client_key),
        ):
            path.touch(mode=0o600)
            path.write_bytes(key)
        return certificates
