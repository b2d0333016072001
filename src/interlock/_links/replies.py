"""The meaning of errors of the server and the system for a caller of interlock."""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock._core.model.foreign_text import safe
from interlock._links.resp import ParserError, ReplyError
from interlock.errors import InterlockError, ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock._core.model.effects import Eval

# "WRONGTYPE Operation ..." as such, or wrapped by Redis 6 as "ERR Error running script ...:
# @user_script:7: WRONGTYPE ...".
_CODE = re.compile(r"(?:@user_script:\s*\d+:\s*)?-?([A-Z][A-Z0-9]{2,})(?= |$)")
_WRAPPED = re.compile(r"@user_script:\s*\d+:\s*-?([A-Z][A-Z0-9]{2,})(?= |$)")

# The error of a script whose slot is just moving. Its commands before the error were executed.
# Redis and Valkey up to 9.0 begin with "Script attempted", Redis 6 wraps "Lua script attempted",
# and Valkey 9.1 says "Attempted".
_HALFWAY = "ttempted to access a non local key"

# Parts of the texts that the server sends with the code ERR, and the codes that we use for them.
_UNCODED = (
    ("The user executing the script can't", "NOPERM"),
    ("ACL failure in script", "NOPERM"),
    ("max number of clients ", "MAXCLIENTS"),
    (_HALFWAY, "TRYAGAIN"),
    ("bad lua script", "LITERAL"),
    ("accessing undeclared key", "UNDECLARED"),
    ("not allowed from script", "FORBIDDEN"),
    ("command called from ", "FORBIDDEN"),
    ("Lua scripting support disabled", "NOLUA"),
    ("unknown command 'EVAL", "NOLUA"),
    ("Could not find scripting engine", "NOLUA"),
    ("No permissions to access database", "DATABASE"),
    ("DB index is out of range", "DATABASE"),
    ("SELECT is not allowed in cluster mode", "DATABASE"),
)

FULL = "MAXCLIENTS"
"""The code of a server that has no room for another client, and closes the connection."""

TOO_MANY = "it has too many clients: raise maxclients"

_READ_ONLY = (
    "is a read-only replica: connect to the primary, or by redis+sentinel://; if the host's name "
    "leads to several servers, take the name of the primary alone"
)
_NO_DATABASE = (
    "has no database of this number, or not for this user: see its setting `databases`, in a cluster "
    "`cluster-databases` of Valkey 9 (others have database 0 alone), or the `db=` of the user's rights"
)
_NO_LUA = (
    "does not run scripts: if it is a Sentinel, connect by redis+sentinel://HOST:26379/SERVICE; "
    "else turn them on, as by --lua on Garnet or the module lua of Valkey 9.1 (an OCI Cache must "
    "not be sharded)"
)
_MEANING = {
    "MOVED": ("is a node of a cluster: connect by redis+cluster://", False),
    "ASK": ("is a node of a cluster: connect by redis+cluster://", False),
    "CROSSSLOT": ("is a node of a cluster, and does not keep all keys of this object", False),
    "LOADING": ("is loading its data", True),
    "BUSY": ("is busy with another script", True),
    "MASTERDOWN": ("is a replica without its primary", True),
    "CLUSTERDOWN": ("belongs to a cluster that is down", True),
    "TRYAGAIN": ("is migrating the slot", True),
    "READONLY": (_READ_ONLY, False),
    "OOM": ("is out of memory: raise maxmemory or free some", False),
    "MISCONF": ("refuses writes because it cannot persist: see its log", False),
    "MAXCLIENTS": ("has too many clients: raise maxclients", True),
    "NOREPLICAS": ("has too few replicas to accept writes", True),
    "NOAUTH": ("wants a password: give one in the URL", False),
    "WRONGPASS": ("refused the user name or password", False),
    "LITERAL": (
        "refuses scripts with computed keys or commands: on Tair, set script_check_enable to 0",
        False,
    ),
    "UNDECLARED": (
        "refuses scripts that touch undeclared keys: on Dragonfly, set --lock_on_hashtags",
        False,
    ),
    "FORBIDDEN": ("does not permit scripts to call a command that this object needs", False),
    "DATABASE": (_NO_DATABASE, False),
    "NOLUA": (_NO_LUA, False),
    "NOPERM": (
        "does not permit this user what locks need: `interlock doctor` prints the rights",
        False,
    ),
}


class RedirectedError(ServerUnavailableError):
    """Another node of the cluster, at `address`, serves this slot, or what has moved already of it.

    Attributes:
        asking: whether that is so only for this one command (ASK).
    """

    def __init__(self, text: str, where: str) -> None:
        code, slot, address = text.split()[:3]
        what, _ = _MEANING[code]
        super().__init__(f"the server at {where} {what} ({text})", code=code)
        self.slot = int(slot)
        host, _, port = address.rpartition(":")
        # A node that does not know the host leaves it out, or writes a question mark in its place:
        # then it is most likely the host that we asked.
        self.address = host.strip("?") or where.rpartition(":")[0], int(port)
        self.asking = code == "ASK"


def error_code(text: str) -> str:
    """Return the code of the server's error *text*, looking inside what a script wraps."""
    for words, code in _UNCODED:
        if words in text:
            return code
    match = _WRAPPED.search(text) or _CODE.match(text)
    return match[1] if match else "ERR"


ELSEWHERE = ("READONLY", "MASTERDOWN")
"""Codes that only a replica sends. If the primary may move, they mean that it has moved."""


def refusal(
    text: str,
    call: Eval[object] | None,
    where: str,
    *,
    moves: bool = False,
    served: bool = False,
) -> InterlockError:
    """Return the error for a caller when the server answered *call* with an error.

    Nothing was changed on the server, unless the returned error says so (``sent``).

    Args:
        text: the error.
        call: the script.
        where: the server's address.
        moves: whether a replica's answer means that there is another primary now, which the client
            must look for.
        served: whether scripts succeeded there before. Then a replica's answer is transient: the
            address may soon lead to the next primary, or this server may become the primary again.
    """
    code = error_code(text)
    if code == "WRONGTYPE":
        keys = call.keys if call is not None else ()
        named = repr(keys[0]) if keys else "a key"
        more = ", or a key that belongs to it," if len(keys) > 1 else ""
        return WrongTypeError(
            f"{named} at {where}{more} is in use by something else than this kind of object; "
            "choose another name",
            keys=keys,
        )
    if (found := _REDIRECTION.match(text)) and int(found[1]) < MAX_PORT:
        return RedirectedError(text, where)
    if moves and code in ELSEWHERE:
        return ServerUnavailableError(
            f"the server asked for {where} is a replica now: looking for the primary ({text})",
            code=code,
            transient=True,
        )
    error = _unavailable(text, where)
    error.transient = error.transient or (served and code in ELSEWHERE)
    return error


def returned(outcome: object) -> object:
    """Return *outcome*, a reply, or raise it if it is an error of ours."""
    if isinstance(outcome, InterlockError):
        try:
            raise outcome
        finally:
            del outcome  # this frame and its error would keep each other alive
    return outcome


def left(error: object) -> bool:
    """Return whether *error* says that its connection leads to a former primary."""
    return isinstance(error, ServerUnavailableError) and error.code in ELSEWHERE and error.transient


def _unavailable(text: str, where: str) -> ServerUnavailableError:
    code = error_code(text)
    text = safe(text)
    what, transient = _MEANING.get(code, (f"answered by an error: {text}", False))
    return ServerUnavailableError(
        f"the server at {where} {what}" + (f" ({text})" if code in _MEANING else ""),
        code=code,
        # If a script stops at a forbidden command, the commands before it were executed.
        sent=(code == "NOPERM" and "script" in text) or _HALFWAY in text,
        transient=transient,
    )


def unconnected(error: Exception, where: str, *, seen: bool, tls: bool) -> ServerUnavailableError:
    """Return the error for a caller when `Dialled` raised *error*.

    If the server was *seen* before, trying again makes sense.
    """
    if isinstance(error, ReplyError):
        return _unavailable(str(error), where)
    if not isinstance(error, OSError | ParserError):
        # It comes neither from the server nor from the network, but from an impossible host name.
        return _not_connected(where, f"{type(error).__name__}: {error}", seen=seen)
    error.__traceback__ = error.__context__ = None  # it would be shown above our error
    ssl = sys.modules.get("ssl")  # it takes long to load
    of_tls = ssl is not None and isinstance(error, ssl.SSLError)
    unresolved = isinstance(error, socket.gaierror)
    if isinstance(error, TimeoutError):
        why = "no answer in time"
    elif isinstance(error, OSError) and error.errno and not (of_tls or unresolved):
        why = os.strerror(error.errno)
    else:
        stripped = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
        why = stripped or "the server closed the connection"
    reached = not (unresolved or isinstance(error, ConnectionRefusedError))
    # A server that rejects our certificate may just hang up, and its message is lost on the way.
    # A server that does not speak TLS waits for the end of our first line.
    if of_tls or "certificate" in str(error).lower() or (tls and not seen and reached):
        return ServerUnavailableError(
            f"no TLS connection to {where}: {safe(why)}; check whether this port speaks TLS (if not,"
            " use redis://), its certificate, ssl_ca_certs, and whether it wants a certificate of"
            " yours (ssl_certfile, ssl_keyfile)",
            code="TLS",
        )
    return _not_connected(where, why if tls or seen else why + maybe_tls(error), seen=seen)


def _not_connected(where: str, why: str, *, seen: bool) -> ServerUnavailableError:
    return ServerUnavailableError(f"cannot connect to {where}: {safe(why)}", transient=seen)


def maybe_tls(error: BaseException | None) -> str:
    """Return the end of a message about a server that has never answered.

    It is a hint at TLS if *error* says that the server hung up, else an empty text.
    """
    hung_up = error is None or isinstance(error, _HUNG_UP)
    return "; if this port speaks TLS, connect by rediss://" if hung_up else ""


MAX_PORT = 1 << 16
_REDIRECTION = re.compile(r"(?:MOVED|ASK) \d{1,5} \S*:(\d{1,5})(?= |$)", re.ASCII)
_HUNG_UP = (ConnectionResetError, BrokenPipeError, EOFError)


@contextmanager
def understood(where: str, close: Callable[[], object] | None = None) -> Generator[None]:
    """Raise ServerUnavailableError if an answer of *where* has not the shape that it must have.

    *close* is called then, because the next reply may belong to another question.
    """
    try:
        yield
    except InterlockError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if close is not None:
            close()
        raise ServerUnavailableError(f"an answer of {where} makes no sense: {error!r}") from error
