"""TLS for the thread in C that renews: the OpenSSL of Python's own `ssl`, and the same settings.

The part in C is not linked with OpenSSL. It gets a context that is made here, and the addresses of
the functions that Python itself uses. So there is one OpenSSL in the process. The settings of the
context are those of one of Python's that is made as redis-py makes its own. So that thread trusts
what Python trusts.
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
    "SSL_CTX_free",
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

_PROTOTYPES = {
    "TLS_client_method": "P",
    "SSL_CTX_new": "PP",
    "SSL_CTX_free": "-P",
    "SSL_CTX_ctrl": "lPilP",
    "SSL_CTX_set_options": "QPQ",
    "SSL_CTX_set_verify": "-PiP",
    "SSL_CTX_set_default_verify_paths": "iP",
    "SSL_CTX_load_verify_locations": "iPss",
    "SSL_CTX_set_cipher_list": "iPs",
    "SSL_CTX_set_default_passwd_cb_userdata": "-Ps",
    "SSL_CTX_use_certificate_chain_file": "iPs",
    "SSL_CTX_use_PrivateKey_file": "iPsi",
    "SSL_CTX_get0_param": "PP",
    "X509_VERIFY_PARAM_set_flags": "iPL",
    "X509_VERIFY_PARAM_set_hostflags": "-PI",
    "ERR_clear_error": "-",
}
"""What is called here: the types of the result, and of the arguments."""
_LOWEST_VERSION, _PEM, _NO_PARTIAL_WILDCARDS = 123, 1, 4
"""Numbers of OpenSSL's headers; they are part of its ABI."""

UNKNOWN = (
    "ssl_ca_data",
    "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled",
    "ssl_ocsp_context",
    "ssl_ocsp_expected_cert",
)
"""Settings of redis-py that the thread in C does not know."""


@cache
def functions() -> tuple[bytes, Any]:
    """Return the addresses of `FUNCTIONS`, as the part in C takes them, and Python's OpenSSL.

    Raises:
        ImportError: this Python does not show its OpenSSL.
    """
    import _ssl  # noqa: PLC0415 - only for TLS
    import ctypes  # noqa: PLC0415

    # The handle of `_ssl` finds its libraries, too. Some builds have `_ssl` in the interpreter.
    library = ctypes.CDLL(getattr(_ssl, "__file__", None))
    types = {
        "-": None, "P": ctypes.c_void_p, "s": ctypes.c_char_p, "i": ctypes.c_int,
        "I": ctypes.c_uint, "l": ctypes.c_long, "L": ctypes.c_ulong, "Q": ctypes.c_uint64,
    }  # fmt: skip
    try:
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in FUNCTIONS]
        for name, prototype in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, *function.argtypes = [types[letter] for letter in prototype]
    except AttributeError as error:
        raise ImportError(f"this Python does not show its OpenSSL ({error})") from error
    return struct.pack(f"{len(found)}P", *found), library


def unknown(settings: Mapping[str, Any]) -> str | None:
    """Return a setting that the thread in C does not know; None without one."""
    return next((name for name in UNKNOWN if settings.get(name)), None)


def use_tls(line: Line, settings: Mapping[str, Any]) -> None:
    """Make *line* encrypt as redis-py does with *settings*.

    Raises:
        ValueError: OpenSSL refuses them.
    """
    context = _context(settings)
    addresses, library = functions()
    library.ERR_clear_error()
    made = library.SSL_CTX_new(library.TLS_client_method())
    good = bool(made) and _set_all(library, made, context, settings)
    library.ERR_clear_error()  # or Python's own TLS would take an old error for its own
    if not good:
        library.SSL_CTX_free(made)
        raise ValueError("OpenSSL refuses these settings of TLS")
    native.use_tls(line, addresses, made, context.check_hostname)


def _set_all(library: Any, made: int, context: ssl.SSLContext, settings: Mapping[str, Any]) -> bool:
    """Set all of the context *made*; return whether that is possible."""
    names = ":".join(cipher["name"] for cipher in context.get_ciphers())
    # As `ssl` itself tells OpenSSL: SSL_VERIFY_PEER, and SSL_VERIFY_FAIL_IF_NO_PEER_CERT.
    mode = (0, 1, 3)[context.verify_mode]
    authorities, directory = _path(settings.get("ssl_ca_certs")), _path(settings.get("ssl_ca_path"))
    certificate = _path(settings.get("ssl_certfile"))
    key = _path(settings.get("ssl_keyfile")) or certificate
    parameters = library.SSL_CTX_get0_param(made)
    library.SSL_CTX_set_options(made, int(context.options))
    library.SSL_CTX_set_verify(made, mode, None)
    library.X509_VERIFY_PARAM_set_hostflags(parameters, _NO_PARTIAL_WILDCARDS)
    # Without one OpenSSL would ask for it at the terminal. It is Python's: taken away again.
    password = (settings.get("ssl_password") or "").encode()
    library.SSL_CTX_set_default_passwd_cb_userdata(made, password)
    lowest, ciphers = (
        max(0, int(context.minimum_version)),
        f"@SECLEVEL={context.security_level}:{names}",
    )
    good = (
        library.X509_VERIFY_PARAM_set_flags(parameters, int(context.verify_flags)) == 1
        and library.SSL_CTX_ctrl(made, _LOWEST_VERSION, lowest, None) == 1
        and library.SSL_CTX_set_cipher_list(made, ciphers.encode()) == 1
        and (not mode or library.SSL_CTX_set_default_verify_paths(made) == 1)
        and (
            not (authorities or directory)
            or library.SSL_CTX_load_verify_locations(made, authorities, directory) == 1
        )
        and (
            not certificate
            or (
                library.SSL_CTX_use_certificate_chain_file(made, certificate) == 1
                and library.SSL_CTX_use_PrivateKey_file(made, key, _PEM) == 1
            )
        )
    )
    library.SSL_CTX_set_default_passwd_cb_userdata(made, None)
    return good


def _path(given: Any) -> bytes | None:
    return str(given).encode() if given else None


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
