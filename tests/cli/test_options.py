"""The command line: the options of `interlock run`, the help, and mistakes."""

from __future__ import annotations

import dataclasses
import errno
from datetime import timedelta

import pytest

from interlock import cli
from interlock.cli import Parser, run
from interlock.cli.job import RunOptions
from interlock.cli.run import configure, options_of
from interlock.cli.status import UsageError

# For each option: what is typed, the field that it fills, and the value there.
SAMPLES: list[tuple[list[str], str, object]] = [
    (["-n"], "wait", 0.0),
    (["--nonblock"], "wait", 0.0),
    (["-w", "2.5"], "wait", 2.5),
    (["--wait", "5m"], "wait", 300.0),
    (["--timeout=2h"], "wait", 7200.0),
    (["-s"], "mode", "shared"),
    (["--shared"], "mode", "shared"),
    (["-x"], "mode", "exclusive"),
    (["--exclusive"], "mode", "exclusive"),
    (["--fair"], "mode", "fair"),
    (["--limit", "3"], "limit", 3),
    (["-E", "75"], "conflict_exit_code", 75),
    (["--conflict-exit-code", "0"], "conflict_exit_code", 0),
    (["-c", "echo a; echo b"], "shell_text", "echo a; echo b"),
    (["--command", "true"], "shell_text", "true"),
    (["--lease", "10"], "lease", 10.0),
    (["--lease", "2h"], "lease", timedelta(hours=2)),
    (["--min-hold", "0"], "min_hold", 0.0),
    (["--max-hold", "1m"], "max_hold", 60.0),
    (["--on-lost", "kill"], "on_lost", "kill"),
    (["--kill-after", "0.5"], "kill_after", 0.5),
    (["--url", "redis://one/0"], "urls", ("redis://one/0",)),
    (["--url=redis://a", "--url=redis://b"], "urls", ("redis://a", "redis://b")),
    (["-v"], "verbose", True),
    (["--verbose"], "verbose", True),
]
NONSENSE = [
    *(("--wait", text) for text in ("-1", "", "m", "5 minutes", "nan", "inf", "1e300", "5ms")),
    *(("--limit", text) for text in ("0", "-1", "1.5", "two", "²", "2147483648", "9" * 5000)),
    *(("--conflict-exit-code", text) for text in ("256", "-1", "1.5", "one", "²")),
    *(("--lease", text) for text in ("1e11", "long")),
    *(("--min-hold", text) for text in ("-0.1", "x")),
    *(("--max-hold", text) for text in ("0", "-1", "x")),
    *(("--on-lost", text) for text in ("panic", "TERM")),
    *(("--kill-after", text) for text in ("-5", "x")),
]


def parser() -> Parser:
    made = Parser(prog="interlock run", allow_abbrev=False)
    configure(made)
    return made


def parse(*arguments: str, command: tuple[str, ...] = ("true",), **environ: str) -> RunOptions:
    given = vars(parser().parse_args(["NAME", *arguments]))
    return options_of({**given, "command": command}, environ)


@pytest.mark.parametrize(("arguments", "field", "value"), SAMPLES)
def test_each_option_fills_its_field(arguments: list[str], field: str, value: object) -> None:
    """An option says what it stands for, and leaves everything else as it was."""
    command = () if field == "shell_text" else ("true",)
    told = parse(*arguments, command=command)
    assert getattr(told, field) == value
    assert told == dataclasses.replace(RunOptions(name="NAME", command=command), **{field: value})


@pytest.mark.parametrize(("flag", "text"), NONSENSE)
def test_nonsense_is_an_error_that_names_the_option(flag: str, text: str) -> None:
    """A bad value is a usage error with the option's name."""
    with pytest.raises(UsageError, match=f"argument .*{flag}.*: "):
        parse(f"{flag}={text}")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["--url", "redis://a", "list"],
        ["run"],
        ["run", "--", "true"],
        ["run", "NAME"],
        ["run", "NAME", "--"],
        ["run", "NAME", "ls", "-l"],
        ["run", "--wai", "5", "NAME", "--", "true"],
        ["run", "--shared", "--fair", "NAME", "--", "true"],
        ["run", "--limit", "0", "NAME", "--", "true"],
        ["run", "--limit", "NAME", "--", "true"],
        ["run", "-s", "--url=redis://a", "--url=redis://b", "NAME", "--", "true"],
        ["run", "-w", "soon", "NAME", "--", "true"],
        ["run", "--lease", "0", "NAME", "--", "true"],
        ["run", "-n", "-w", "1", "NAME", "--", "true"],
        ["list", "--watch", "--json"],
        ["list", "--deadlocks", "--late"],
        ["list", "--older-than", "often"],
        ["why"],
        ["break"],
        ["ticket"],
        ["ticket", "renew"],
        ["ticket", "release"],
    ],
    ids=" ".join,
)
def test_a_usage_error_is_status_64_and_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but one line on stderr, which starts with our name, comes of a wrong command line."""
    assert cli.main(arguments, {}) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("interlock: ")
    assert err.count("\n") == 1


def test_arguments_behind_the_separator_are_the_commands_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither our option names nor a second -- mean anything behind the first --."""
    seen: list[RunOptions] = []
    monkeypatch.setattr(
        run, "main", lambda given, environ: seen.append(options_of(given, environ)) or 0
    )
    assert cli.main(["run", "NAME", "-n", "--", "cmd", "-n", "--url", "--", "x"], {}) == 0
    command = ("cmd", "-n", "--url", "--", "x")
    assert seen == [RunOptions(name="NAME", wait=0.0, command=command)]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("broken"),
        OSError(errno.ENOSPC, "No space left on device", "/var/lib/door"),
        OSError(errno.EIO, "Input/output error", "/var/lib/door"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=str,
)
def test_a_fault_of_interlock_is_no_conflict(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback comes with a status of its own, and nothing is said about the output."""

    def broken(*_: object) -> int:
        raise error

    monkeypatch.setattr(run, "main", broken)
    assert cli.main(["run", "NAME", "--", "true"], {}) == 71
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Traceback ")
    assert err.endswith(f"{type(error).__name__}: {error}\n")
    assert "output could" not in err
