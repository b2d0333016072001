"""Mistakes on the command line."""

from __future__ import annotations

from tests.first_hour.mistake import Mistake, command

COMMANDS: list[Mistake] = [
    command("no command", "run job", "wanted a command", code=64),
    command("an unknown command", "runn job", "did you mean interlock run?", code=64),
    command("the name of another tool", "unlock job", "use interlock release", code=64),
    command("help of a command", "help run", "use interlock run --help", code=64),
    command("a URL without its option", "doctor redis://127.0.0.1:1", "behind --url", code=64),
    command(
        "a ticket without its option",
        "status word",
        "behind --ticket, and interlock show NAME",
        code=64,
    ),
    command(
        "a lease of a command in milliseconds",
        "run --lease 30000 job -- true",
        "8.33 h if this",
        code=0,
    ),
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
    command("show of nothing", "show nothing", "nobody holds", code=1),
    command("why of nothing", "why nothing", "nothing", code=1),
    command("release of nothing", "release nothing", "--holder", code=64),
    command("a time in words", "run --wait soon job -- true", "--wait", code=64),
    command("a command without a name", "run", "NAME", code=64),
]
