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
        """Generate all five files in *directory*, which must exist."""
        import trustme  # here, for servers without TLS run where it is not installed

        authority = trustme.CA()
        server = authority.issue_cert("localhost", "127.0.0.1", "::1")
        client = authority.issue_cert("localhost", common_name="interlock-test-client")
        certificates = cls(
            ca=directory / "ca.pem",
            server_cert=directory / "server.pem",
            server_key=directory / "server.key",
            client_cert=directory / "client.pem",
            client_key=directory / "client.key",
        )
        authority.cert_pem.write_to_path(certificates.ca)
        for issued, cert, key in (
            (server, certificates.server_cert, certificates.server_key),
            (client, certificates.client_cert, certificates.client_key),
        ):
            issued.cert_chain_pems[0].write_to_path(cert)
            key.touch(mode=0o600)
            issued.private_key_pem.write_to_path(key)
        return certificates
