"""Who may see the console, and who may change something.

Rules:

* The header that names a user is believed from a proxy's address alone: a client could send it too.
* Without a token or a user header only this machine may connect, under a name of its own. So a
  page elsewhere cannot reach the console by a name that leads here (DNS rebinding).
* A change is a POST with the token of its form. That token belongs to the browser's cookie, and
  browsers send the cookie with requests of the console's own pages only.
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

COOKIE = "interlock_console"
"""The cookie: a random text, and its signature if the browser has shown the token."""
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of this machine that are believed without a token."""
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
    "Referrer-Policy": "no-referrer",
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
        allow_release: whether the console may break holds.
    """

    token: str = ""
    user_header: str = ""
    proxies: Sequence[Network] = THIS_MACHINE
    allow_release: bool = False
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def open(self) -> bool:
        """Return whether everybody on this machine may see it."""
        return not self.token and not self.user_header

    def admits(self, request: Request) -> bool:
        """Return whether *request* may be answered."""
        if self.user_header:
            named = bool(request.headers.get(self.user_header))
            return (
                named and self._is_proxy(request) and (not self.token or self._knows_token(request))
            )
        if self.token:
            return self._knows_token(request)
        return self.open and _host_of(request) in LOCAL

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


def _host_of(request: Request) -> str:
    """Return the name in the Host header without its port; empty if it is not ``name[:port]``."""
    found = _HOST.fullmatch(request.headers.get("host", ""))
    return found[1].strip("[]").lower() if found else ""
