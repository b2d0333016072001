"""Who may see the console, and who may change something.

Rules:

* The header that names a user is believed from a proxy's address alone: a client could send it too.
* Each request names the console: by a local name, by an address, or by a name that was given. So a
  page elsewhere cannot reach it by a name that leads here (DNS rebinding), whatever it sends.
* Without a token or a user header only this machine may connect.
* A change is a POST from a page of the console (its Origin), with the token of its form. That token
  belongs to the browser's cookie, and browsers send the cookie with the console's own pages only.
* Secrets are compared in constant time, and are in no URL.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

COOKIE = "interlock_console"
"""The cookie: a random text, and its signature if the browser has shown the token."""
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of this machine."""
_HOST = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?::[0-9]+)?")
THIS_MACHINE: Sequence[Network] = (
    ipaddress.IPv4Network("127.0.0.0/8"),
    ipaddress.IPv6Network("::1/128"),
)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer", browsers send "Origin: null" with the console's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


@dataclass(frozen=True)
class Access:
    """What a request needs.

    Args:
        token: the secret that a reader must show once; empty for none.
        user_header: the header by which a reverse proxy names its user; empty for none.
        proxies: the addresses from which that header is believed.
        hosts: the names, in small letters, by which browsers reach the console beside the local
            ones and its addresses.
        allow_release: whether the console may break holds.
    """

    token: str = ""
    user_header: str = ""
    proxies: Sequence[Network] = THIS_MACHINE
    hosts: Sequence[str] = ()
    allow_release: bool = False
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def open(self) -> bool:
        """Return whether everybody on this machine may see it."""
        return not self.token and not self.user_header

    def is_named(self, request: Request) -> bool:
        """Return whether *request* names the console, and comes from none but its own pages.

        No name that leads here by DNS is an address. So addresses need not be given.
        """
        host = request.headers.get("host", "")
        if not self._is_own(_host_of(host)):
            return False
        if request.method in ("GET", "HEAD"):
            return True
        origin = urlsplit(request.headers.get("origin", ""))
        # Behind a proxy, the two may differ. Then the browser's name of the console was given.
        return origin.netloc.lower() == host.lower() or _host_of(origin.netloc) in self.hosts

    def _is_own(self, host: str) -> bool:
        return host in LOCAL or host in self.hosts or _is_address(host)

    def admits(self, request: Request) -> bool:
        """Return whether *request*, which names the console, may be answered."""
        if self.user_header:
            named = bool(request.headers.get(self.user_header))
            return (
                named and self._is_proxy(request) and (not self.token or self._knows_token(request))
            )
        if self.token:
            return self._knows_token(request)
        return self.open and _host_of(request.headers.get("host", "")) in LOCAL

    def _is_proxy(self, request: Request) -> bool:
        """Return whether *request* was sent by a proxy that may name users."""
        try:
            peer = ipaddress.ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        # A socket for both families shows an IPv4 address like this.
        mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
        return any((mapped or peer) in network for network in self.proxies)

    def _knows_token(self, request: Request) -> bool:
        """Return whether *request* shows the token, or a cookie that stands for it."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(shown):
            return True
        return self._signed(request.cookies.get(COOKIE, ""))

    def is_token(self, shown: str) -> bool:
        """Return whether *shown* is the token."""
        return bool(self.token) and hmac.compare_digest(shown.encode(), self.token.encode())

    def new_cookie(self, *, signed: bool) -> str:
        """Return a new cookie; a signed one stands for the token."""
        text = secrets.token_urlsafe(24)
        return f"{text}.{self._mac('cookie', text)}" if signed else text

    def form_token(self, cookie: str) -> str:
        """Return the token of forms that are shown to the browser with *cookie*."""
        return self._mac("form", cookie)

    def is_form(self, request: Request, shown: str) -> bool:
        """Return whether a form with the token *shown* is one of the console's own."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        cookie = request.cookies.get(COOKIE, "")
        return bool(cookie) and hmac.compare_digest(
            shown.encode(), self.form_token(cookie).encode()
        )

    def user(self, request: Request) -> str:
        """Return who acts, for the log."""
        named = request.headers.get(self.user_header, "") if self.user_header else ""
        return named or (request.client.host if request.client else "somebody")

    def _signed(self, cookie: str) -> bool:
        text, _, mac = cookie.partition(".")
        return bool(mac) and hmac.compare_digest(mac.encode(), self._mac("cookie", text).encode())

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), sha256).hexdigest()


def _host_of(text: str) -> str:
    """Return the name in *text* without its port; empty if it is not ``name[:port]``."""
    found = _HOST.fullmatch(text)
    return found[1].strip("[]").lower() if found else ""


def _is_address(host: str) -> bool:
    """Return whether *host* is an address as browsers write it, and no name."""
    try:
        _ = ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
