"""Which backup a client has: what renews its holds beside the renewal thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock._core.upkeep.backup import Backup
    from interlock._links.topology import Topology
    from interlock.options import Options


def backup_of(topology: Topology, options: Options, timeout: float) -> Backup | None:
    """Return what renews beside the renewal thread, or None if *options* do not ask for it.

    Args:
        topology: the client's servers.
        options: the client's.
        timeout: seconds for one reply.

    Raises:
        ConfigError: that is not possible here.
    """
    if options.renew_in == "thread":
        return None
    try:
        # Imported late: there may be no part in C.
        from interlock._drivers.background.native_renewal import (  # noqa: PLC0415
            NativeRenewal,
            check_clock,
        )

        check_clock()
    except ImportError as error:
        raise ConfigError(
            'renew_in="process" needs the part in C: install the wheel of this platform, or with a '
            "C compiler"
        ) from error
    server = topology.only or topology.any_owner()
    if server.tls:
        _check_tls(server.tls_settings)
    return NativeRenewal(topology, options.lease, timeout)


def _check_tls(settings: Mapping[str, Any]) -> None:
    from interlock._drivers.background import native_tls  # noqa: PLC0415 - as above

    instead = (
        "use a tunnel on this machine, or a lease that is longer than any call that keeps the "
        "interpreter lock"
    )
    if name := native_tls.unknown(settings):
        raise ConfigError(f'renew_in="process" cannot do {name}: {instead}')
    try:
        _ = native_tls.functions()
    except ImportError as error:
        raise ConfigError(f'renew_in="process" cannot do TLS here: {error}; {instead}') from error
