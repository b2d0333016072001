"""``manage.py interlock_run``: ``interlock run`` with the project's server and commands."""

# Django has no types.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from django.core.management import get_commands
from django.core.management.base import BaseCommand, CommandError, handle_default_options

from interlock import cli
from interlock.cli.status import Status, say
from interlock.django import read_settings
from interlock.errors import ConfigError
from interlock.options import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LEVELS = ("0", "1", "2", "3")
_FLAGS = ("--traceback", "--no-color", "--force-color", "--skip-checks")


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Run a command of the project, or a program, while holding a lock."""

    help = "Run a management command, or a program, while holding a lock: NAME -- CMD [ARG...]"

    def run_from_argv(self, argv: list[str]) -> NoReturn:
        """Do it and exit with its status; the options are those of ``interlock run``."""
        words, command = argv[2:], list[str]()
        if "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
        words = list(_with_long_verbosity(words))
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for name in ("--settings", "--pythonpath", "--verbosity"):
            parser.add_argument(name)
        for flag in _FLAGS:
            parser.add_argument(flag, action="store_true")
        djangos, ours = parser.parse_known_args(words)
        handle_default_options(djangos)
        sys.exit(_run(argv[0], ours, command))

    def handle(self, *args: object, **options: object) -> str | None:  # noqa: ARG002 - Django's
        """Refuse: it is for the command line.

        Raises:
            CommandError: always.
        """
        raise CommandError("interlock_run is for the command line; use interlock.django.lock here")


def _with_long_verbosity(words: Sequence[str]) -> Iterator[str]:
    """Yield *words* with Django's ``-v 1`` written out: ours is a flag, and has no number."""
    left = iter(words)
    for word in left:
        level = word[2:]
        if word == "-v":
            following = next(left, None)
            if following is None or following not in _LEVELS:
                yield word
                yield from () if following is None else (following,)
                continue
            level = following
        if word.startswith("-v") and level in _LEVELS:
            yield from ("--verbosity", level)
        else:
            yield word


def _run(program: str, options: Sequence[str], command: Sequence[str]) -> int:
    try:
        url, settings = read_settings()
    except ConfigError as error:
        say(str(error))
        return Status.USAGE
    if unknown := sorted(set(settings) - {"lease"}):
        # Rather than to hold another lock than `lock()` would.
        say(f"interlock_run cannot do the option {unknown[0]!r} of the setting INTERLOCK")
        return Status.USAGE
    environ = dict(os.environ)
    if url is not None:
        environ["INTERLOCK_URL"] = url
    if "lease" in settings:
        environ["INTERLOCK_LEASE"] = str(seconds(settings["lease"]))
    if command and command[0] in get_commands():
        command = [sys.executable, program, *command]
    # Without a command, -c or a usage error is interlock's affair.
    return cli.main(["run", *options, *(["--", *command] if command else [])], environ)
