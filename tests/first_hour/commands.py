"""Mistakes on the command line."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, command

COMMANDS: list[Mistake] = [
    command("no command", "run job", "wanted a command", code=64),
    command("an unknown command", "rnu job", "run", code=64),
    command("a misspelt option", "run --timout 5 job -- true", "did you mean --wait?", code=64),
    command(
        "a nearly right option",
        "run --max-holds=5 job -- true",
        "unknown option --max-holds: did you mean --max-hold?",
        code=64,
    ),
    command(
        "an option in front of the command",
        "--url redis://localhost list",
        "--url goes behind a command",
        code=64,
    ),
    command(
        "an option that nothing is like", "list --al", "--al (see interlock list --help)", code=64
    ),
    command(
        "the name that flock and Python have for a wait",
        "run --timeout 5 job -- true",
        "unknown option --timeout: use --wait",
        code=64,
    ),
    command(
        "a program that is not there", "run job -- no-such-program", "no-such-program", code=127
    ),
    command(
        "a command without a server",
        "run --url redis://127.0.0.1:1 job -- true",
        "cannot connect to 127.0.0.1:1",
        code=69,
    ),
    command("a wrong URL", "run --url localhost job -- true", "redis://", code=64),
    command(
        "doctor without a server",
        "doctor --url redis://127.0.0.1:1",
        "cannot connect to 127.0.0.1:1",
        code=69,
    ),
    command("show of nothing", "show nothing", "nobody holds", code=1),
    command("why of nothing", "why nothing", "nothing", code=1),
    command("release of nothing", "release nothing", "--holder", code=64),
    command("a time in words", "run --wait soon job -- true", "--wait", code=64),
    command("a command without a name", "run", "NAME", code=64),
]
