"""Mistakes on the command line."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, command

COMMANDS: list[Mistake] = [
    command("no command", "run job", "wanted a command", code=64),
    command("an unknown command", "runn job", "invalid choice: 'runn' (choose from", code=64),
    command("a URL alone", "doctor redis://127.0.0.1:1", "unknown arguments: redis:", code=64),
    command(
        "a lease of a command in milliseconds",
        "run --lease 30000 job -- true",
        "was it meant in milliseconds",
        code=0,
    ),
    command("a misspelt option", "run --max-holds=5 job -- true", "no option --max-holds", code=64),
    command(
        "an option in front of the command",
        "--url redis://localhost list",
        "invalid choice: 'redis://localhost'",
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
    Mistake(
        "doctor without a server",
        ("doctor", "--url", "redis://127.0.0.1:1"),
        ("cannot connect to 127.0.0.1:1",),
        69,
        never=("ACL", "acl"),
    ),
    Mistake(
        "a line for the shell", ("run", "job", "--", "echo a; echo b"), ("goes behind -c",), 127
    ),
    command("why of nothing", "why nothing", "nothing", code=1),
    command("break of nothing", "break nothing", "nobody holds 'nothing'", code=1),
    command("a time in words", "run --wait soon job -- true", "--wait", code=64),
    command("a command without a name", "run", "NAME", code=64),
]
