"""Which backup a client has: what renews its holds beside the renewal thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import ConfigError

if TYPE_CHECKING:
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
    if (topology.only or topology.any_owner()).tls:
        raise ConfigError(
            'renew_in="process" cannot do TLS: use a tunnel on this machine, or a lease that is '
            "longer than any call that keeps the interpreter lock"
        )
    return NativeRenewal(topology, options.lease, timeout)
