"""What the server's errors and redis-py's mean to a caller of interlock."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    ResponseError,
)

from interlock.errors import InterlockError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from interlock._core.effects import Eval

# "WRONGTYPE Operation ..." as such, or wrapped by Redis 6 as "ERR Error running script ...: @user_script:7: WRONGTYPE ...".
_CODE = re.compile(r"(?:@user_script:\s*\d+:\s*)?-?([A-Z][A-Z0-9]{2,})(?= |$)")
_WRAPPED = re.compile(r"@user_script:\s*\d+:\s*-?([A-Z][A-Z0-9]{2,})(?= |$)")

_MEANING = {
    "LOADING": ("is loading its data", True),
    "BUSY": ("is busy with another script", True),
    "MASTERDOWN": ("is a replica without its primary", True),
    "CLUSTERDOWN": ("belongs to a cluster that is down", True),
    "TRYAGAIN": ("is migrating the slot", True),
    "READONLY": ("is a read-only replica: connect to the primary", False),
    "OOM": ("is out of memory: raise maxmemory or free some", False),
    "MISCONF": ("refuses writes because it cannot persist: see its log", False),
    "NOREPLICAS": ("has too few replicas to accept writes", True),
    "NOAUTH": ("wants a password: give one in the URL", False),
    "WRONGPASS": ("refused the user name or password", False),
    "NOPERM": ("does not permit this user what locks need; see `interlock doctor`", False),
}


def error_code(text: str) -> str:
    """Return the code of the server's error *text*, looking inside what a script wraps."""
    match = _WRAPPED.search(text) or _CODE.match(text)
    return match[1] if match else "ERR"


def refusal(text: str, call: Eval[object] | None, where: str) -> InterlockError:
    """Return what a caller is to be told when the server answered *call* by an error; nothing was changed."""
    code = error_code(text)
    if code == "WRONGTYPE":
        keys = call.keys if call is not None else ()
        return WrongTypeError(
            f"{', '.join(map(repr, keys))} at {where} is in use by something else than this kind of "
            "object; choose another name or remove that key",
            keys=keys,
        )
    what, transient = _MEANING.get(code, (f"answered by an error: {text}", False))
    return ServerUnavailableError(
        f"the server at {where} {what}" + (f" ({text})" if code in _MEANING else ""),
        code=code,
        transient=transient,
    )


def unconnected(error: Exception, where: str, *, seen: bool) -> ServerUnavailableError:
    """Return what a caller is to be told when no connection could be made.

    Args:
        error: what redis-py or the socket raised.
        where: the server's address.
        seen: whether it could be reached before, so that trying again makes sense.
    """
    cause = error.__cause__ or error.__context__
    if isinstance(error, AuthenticationError | NoPermissionError):
        return ServerUnavailableError(
            f"the server at {where} refused the user name or password ({error})", code="WRONGPASS"
        )
    if isinstance(error, ResponseError):
        text = str(error)
        if isinstance(error, BusyLoadingError):
            text = f"LOADING {text}"
        result = refusal(text, None, where)
        assert isinstance(result, ServerUnavailableError)
        return result
    for link in (error, cause):
        if isinstance(link, ssl.SSLError) or "certificate" in str(link).lower():
            return ServerUnavailableError(
                f"no TLS connection to {where}: {error}; check its certificate and ssl_ca_certs",
                code="TLS",
            )
    return ServerUnavailableError(f"cannot connect to {where}: {error}", transient=seen)
