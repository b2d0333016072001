"""TLS for the thread in C that renews: the OpenSSL of Python's own `ssl`, and the same settings.

The part in C is not linked with OpenSSL. It gets the addresses of the functions that Python itself
uses, so there is one OpenSSL in the process. The settings are read from a context of
Python that is made as redis-py makes its own. So that thread trusts what Python trusts.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from interlock._links import _renewal as native

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from interlock._links._renewal import Line

FUNCTIONS = (
    "TLS_client_method",
    "SSL_CTX_new",
    "SSL_CTX_free",
    "SSL_CTX_ctrl",
    "SSL_CTX_set_options",
    "SSL_CTX_set_verify",
    "SSL_CTX_set_default_verify_paths",
    "SSL_CTX_load_verify_locations",
    "SSL_CTX_set_cipher_list",
    "SSL_CTX_set_default_passwd_cb",
    "SSL_CTX_set_default_passwd_cb_userdata",
    "SSL_CTX_use_certificate_chain_file",
    "SSL_CTX_use_PrivateKey_file",
    "SSL_CTX_get0_param",
    "X509_VERIFY_PARAM_set_flags",
    "X509_VERIFY_PARAM_set_hostflags",
    "SSL_new",
    "SSL_free",
    "SSL_set_fd",
    "SSL_ctrl",
    "SSL_get0_param",
    "X509_VERIFY_PARAM_set1_host",
    "X509_VERIFY_PARAM_set1_ip_asc",
    "SSL_connect",
    "SSL_read",
    "SSL_write",
    "ERR_clear_error",
)
"""In the order of `struct openssl` in _renewal.c."""

UNKNOWN = (
    "ssl_ca_data",
    "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled",
    "ssl_ocsp_context",
    "ssl_ocsp_expected_cert",
)
"""Settings of redis-py that the thread in C does not know."""


@cache
def functions() -> bytes:
    """Return the addresses of `FUNCTIONS`, as the part in C takes them.

    Raises:
        ImportError: this Python does not show its OpenSSL.
    """
    import _ssl  # noqa: PLC0415 - only for TLS
    import ctypes  # noqa: PLC0415

    # The handle of `_ssl` finds its libraries, too. Some builds have `_ssl` in the interpreter.
    library = ctypes.CDLL(getattr(_ssl, "__file__", None))
    try:
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in FUNCTIONS]
    except AttributeError as error:
        raise ImportError(f"this Python does not show its OpenSSL ({error})") from error
    return struct.pack(f"{len(found)}P", *found)


def unknown(settings: Mapping[str, Any]) -> str | None:
    """Return a setting that the thread in C does not know; None without one."""
    return next((name for name in UNKNOWN if settings.get(name)), None)


def use_tls(line: Line, settings: Mapping[str, Any]) -> None:
    """Make *line* encrypt as redis-py does with *settings*.

    Raises:
        ValueError: OpenSSL refuses them.
    """
    context = _context(settings)
    names = ":".join(cipher["name"] for cipher in context.get_ciphers())
    certificate: str | None = settings.get("ssl_certfile") or None
    key: str | None = settings.get("ssl_keyfile") or certificate
    native.use_tls(
        line,
        functions(),
        _path(settings.get("ssl_ca_certs")),
        _path(settings.get("ssl_ca_path")),
        _path(certificate),
        _path(key),
        settings.get("ssl_password"),
        f"@SECLEVEL={context.security_level}:{names}",
        int(context.options),
        int(context.verify_flags),
        # As `ssl` itself tells OpenSSL: SSL_VERIFY_PEER, and SSL_VERIFY_FAIL_IF_NO_PEER_CERT.
        (0, 1, 3)[context.verify_mode],
        max(0, int(context.minimum_version)),
        context.check_hostname,
    )


def _path(given: Any) -> str | None:
    return str(given) if given else None


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context of Python with *settings*, as redis-py makes it, without certificates."""
    import ssl  # noqa: PLC0415 - only for TLS

    context = ssl.create_default_context()
    modes = {None: ssl.CERT_NONE, "none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL}
    modes["required"] = ssl.CERT_REQUIRED
    given = settings.get("ssl_cert_reqs", "required")
    mode = ssl.VerifyMode(modes.get(given, given))
    context.check_hostname = mode is not ssl.CERT_NONE and bool(settings.get("ssl_check_hostname"))
    context.verify_mode = mode
    for flag in settings.get("ssl_include_verify_flags") or ():
        context.verify_flags |= flag
    for flag in settings.get("ssl_exclude_verify_flags") or ():
        context.verify_flags &= ~flag
    if settings.get("ssl_min_version") is not None:
        context.minimum_version = settings["ssl_min_version"]
    if settings.get("ssl_ciphers"):
        context.set_ciphers(settings["ssl_ciphers"])
    return context
