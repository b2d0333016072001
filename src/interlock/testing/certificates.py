"""Certificates for one test bed: an authority of its own, a server and a client."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

_LIFETIME = dt.timedelta(days=2)


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
        authority = _Issuer()
        server_cert, server_key = authority.issue("localhost", ExtendedKeyUsageOID.SERVER_AUTH)
        client_cert, client_key = authority.issue(
            "interlock-test-client", ExtendedKeyUsageOID.CLIENT_AUTH
        )
        certificates = cls(
            ca=directory / "ca.pem",
            server_cert=directory / "server.pem",
            server_key=directory / "server.key",
            client_cert=directory / "client.pem",
            client_key=directory / "client.key",
        )
        certificates.ca.write_bytes(_pem(authority.certificate))
        certificates.server_cert.write_bytes(_pem(server_cert))
        certificates.client_cert.write_bytes(_pem(client_cert))
        for path, key in (
            (certificates.server_key, server_key),
            (certificates.client_key, client_key),
        ):
            path.touch(mode=0o600)
            path.write_bytes(_key_pem(key))
        return certificates


class _Issuer:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("interlock test authority")
        self.certificate = (
            _unsigned(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    def issue(
        self, common_name: str, purpose: x509.ObjectIdentifier
    ) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName(
            [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                x509.IPAddress(ipaddress.ip_address("::1")),
            ]
        )
        # Servers use their certificate as clients too, towards a primary or a cluster peer.
        purposes = {purpose, ExtendedKeyUsageOID.CLIENT_AUTH}
        certificate = (
            _unsigned(_name(common_name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(alternatives, critical=False)
            # Python 3.13 verifies strictly (RFC 5280) and wants the two key identifiers.
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        return certificate, key


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFETIME)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
