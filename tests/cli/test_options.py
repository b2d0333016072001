"""The options of `interlock run`: from the command line, from the environment, and their errors."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from interlock import FileCredentials, cli
from interlock.cli import run
from interlock.cli.options import OPTIONS, Parser, RunOptions, add_options, run_options
from interlock.cli.status import UsageError
from interlock.cli.values import Limit, Mode, OnLost


def parse(*arguments: str, command: list[str] | None = None, **environ: str) -> RunOptions:
    """Parse as `interlock run NAME *arguments* -- command` does."""
    parser = Parser(prog="interlock run", allow_abbrev=False)
    parser.add_argument("name")
    add_options(parser)
    given = vars(parser.parse_args(["NAME", *arguments]))
    return run_options(given, ["true"] if command is None else command, environ)


URLS = str(Path(__file__).with_name("urls.txt"))
# For each option: the text that is given, and its meaning. A flag's text is for its variable.
SAMPLES: dict[str, tuple[str, object]] = {
    "INTERLOCK_NO_WAIT": ("1", 0.0),
    "INTERLOCK_WAIT": ("2.5", 2.5),
    "INTERLOCK_SHARED": ("1", Mode.SHARED),
    "INTERLOCK_EXCLUSIVE": ("yes", Mode.EXCLUSIVE),
    "INTERLOCK_FAIR": ("true", Mode.FAIR),
    "INTERLOCK_LIMIT": ("3", Limit(3)),
    "INTERLOCK_CONFLICT_EXIT_CODE": ("75", 75),
    "INTERLOCK_COMMAND": ("echo a; echo b", "echo a; echo b"),
    "INTERLOCK_LEASE": ("10", 10.0),
    "INTERLOCK_MIN_HOLD": ("0", 0.0),
    "INTERLOCK_MAX_HOLD": ("60", 60.0),
    "INTERLOCK_ON_LOST": ("kill", OnLost.KILL),
    "INTERLOCK_KILL_AFTER": ("0.5", 0.5),
    "INTERLOCK_URL": ("redis://one/0", ["redis://one/0"]),
    "INTERLOCK_CREDENTIALS_FILE": ("/run/token", FileCredentials("/run/token")),
    "INTERLOCK_URL_FILE": (URLS, ["redis://one/0", "redis://two/0"]),
    "INTERLOCK_VERBOSE": ("on", True),
}
# Texts that no reading makes sense of; every other option takes any text.
NONSENSE = {
    "INTERLOCK_NO_WAIT": ("maybe", "2"),
    "INTERLOCK_WAIT": ("-1", "soon", "nan", "inf", "1e300"),
    "INTERLOCK_SHARED": ("2",),
    "INTERLOCK_EXCLUSIVE": ("?",),
    "INTERLOCK_FAIR": ("very",),
    "INTERLOCK_LIMIT": ("0", "-1", "1.5", "two", "²", "2147483648", "9" * 50),
    "INTERLOCK_CONFLICT_EXIT_CODE": ("256", "-1", "1.5", "one", "²"),
    "INTERLOCK_LEASE": ("0", "0.005", "1e11", "long"),
    "INTERLOCK_MIN_HOLD": ("-0.1", "x"),
    "INTERLOCK_MAX_HOLD": ("0", "-1", "x"),
    "INTERLOCK_ON_LOST": ("panic", "TERM"),
    "INTERLOCK_KILL_AFTER": ("-5", "x"),
    "INTERLOCK_URL_FILE": ("/nonexistent", "/dev/null", "/"),
    "INTERLOCK_VERBOSE": ("very",),
}
NONSENSE_PAIRS = [(name, text) for name, texts in NONSENSE.items() for text in texts]


def arguments_for(variable: str, text: str) -> list[str]:
    """Return the command-line form of *variable* = *text*, by its long name."""
    option = next(option for option in OPTIONS if option.variable == variable)
    return [option.flags[-1]] if option.metavar is None else [f"{option.flags[-1]}={text}"]


def test_every_option_has_a_sample_here() -> None:
    """The tests of this module cover every option that exists."""
    assert {option.variable for option in OPTIONS} == set(SAMPLES)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flags[-1])
def test_each_option_means_the_same_given_either_way(option: object) -> None:
    """An option and its variable lead to the same run."""
    variable, field = option.variable, option.field  # type: ignore[attr-defined]
    text, value = SAMPLES[variable]
    command: list[str] | None = [] if field == "shell_text" else None
    by_line = parse(*arguments_for(variable, text), command=command)
    by_environment = parse(command=command, **{variable: text})
    assert by_line == by_environment
    assert getattr(by_line, field) == value


@pytest.mark.parametrize(("variable", "text"), NONSENSE_PAIRS)
def test_nonsense_in_a_variable_is_an_error_that_names_it(variable: str, text: str) -> None:
    """A bad value in the environment is a usage error with the variable's name and the value."""
    with pytest.raises(UsageError, match=f"^{variable}: ") as caught:
        parse(**{variable: text})
    assert text in str(caught.value) or "lease must be" in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "text"),
    [pair for pair in NONSENSE_PAIRS if "=" in arguments_for(*pair)[0]],
)
def test_nonsense_on_the_command_line_is_an_error_that_names_the_option(
    variable: str, text: str
) -> None:
    """A bad value on the command line is a usage error with the option's name."""
    flag, _, _ = arguments_for(variable, text)[0].partition("=")
    with pytest.raises(UsageError, match=f"argument .*{flag}: "):
        parse(*arguments_for(variable, text))


@pytest.mark.parametrize("variable", sorted(set(SAMPLES) - {"INTERLOCK_COMMAND"}))
def test_the_command_line_wins_over_even_a_bad_variable(variable: str) -> None:
    """A variable is not even read when the command line says it."""
    arguments = arguments_for(variable, SAMPLES[variable][0])
    assert parse(*arguments, **{variable: "\0 nonsense"}) == parse(*arguments)


def test_defaults_are_those_of_the_documentation() -> None:
    """Defaults: wait for ever, hold while the command runs, TERM on loss, KILL 5 s later."""
    assert parse() == RunOptions(name="NAME", command=("true",))
    assert RunOptions(name="NAME").wait is None
    assert RunOptions(name="NAME").mode is Mode.PLAIN
    assert RunOptions(name="NAME").conflict_exit_code == 1
    assert RunOptions(name="NAME").on_lost is OnLost.TERM
    assert RunOptions(name="NAME").kill_after == 5.0


def test_every_field_but_the_command_has_an_option() -> None:
    """No field of the options can be reached in code only."""
    fields = {field.name for field in dataclasses.fields(RunOptions)}
    assert fields - {option.field for option in OPTIONS} == {"name", "command"}


def test_an_empty_or_false_variable_counts_as_not_given() -> None:
    """`INTERLOCK_WAIT= INTERLOCK_NO_WAIT=0` is the same as no variable."""
    assert parse(INTERLOCK_WAIT="", INTERLOCK_NO_WAIT="0", INTERLOCK_VERBOSE="no") == parse()


def test_a_wait_on_the_command_line_outweighs_no_wait_in_the_environment() -> None:
    """-w and -n are one choice: who gives one of them is not held to the other one's variable."""
    assert parse("-w", "5", INTERLOCK_NO_WAIT="1").wait == 5.0
    assert parse("-n", INTERLOCK_WAIT="5").wait == 0.0


def test_contradicting_choices_are_errors() -> None:
    """-n with -w is an error on the command line and in the environment."""
    with pytest.raises(UsageError, match="not allowed with"):
        parse("-n", "-w", "5")
    with pytest.raises(UsageError, match="INTERLOCK_WAIT and INTERLOCK_NO_WAIT exclude"):
        parse(INTERLOCK_NO_WAIT="1", INTERLOCK_WAIT="5")


MODES = {"-s": "SHARED", "-x": "EXCLUSIVE", "--fair": "FAIR", "--limit=3": "LIMIT"}


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(MODES, 2)))
def test_a_run_has_one_kind_of_lock(one: str, other: str) -> None:
    """Two of -s, -x, --fair and --limit are an error; an argument outweighs a variable."""
    with pytest.raises(UsageError, match="not allowed with"):
        parse(one, other)
    variables = {
        f"INTERLOCK_{MODES[mode]}": "3" if mode == "--limit=3" else "1" for mode in (one, other)
    }
    with pytest.raises(UsageError, match="exclude each other"):
        parse(**variables)
    assert parse(one, **{f"INTERLOCK_{MODES[other]}": "1"}) == parse(one)


def test_a_command_given_outweighs_one_in_the_environment() -> None:
    """INTERLOCK_COMMAND is for a command line without a command."""
    options = parse(command=["ls"], INTERLOCK_COMMAND="rm -r /")
    assert (options.command, options.shell_text) == (("ls",), None)


@pytest.mark.parametrize(
    ("arguments", "command", "complaint"),
    [
        ((), [], "wanted a command, found none"),
        (("-c", "echo"), ["ls"], "wanted one command, found two"),
        *(
            (("--url=redis://a", "--url=redis://b", mode), ["ls"], "wanted one --url, found 2")
            for mode in ("-s", "-x", "--fair", "--limit=3")
        ),
    ],
)
def test_what_cannot_be_done_is_told(
    arguments: tuple[str, ...], command: list[str], complaint: str
) -> None:
    """A run needs one command, and only the plain lock has a majority of servers."""
    with pytest.raises(UsageError, match=complaint):
        parse(*arguments, command=command)


def test_several_urls() -> None:
    """--url may be repeated; blanks separate the URLs in INTERLOCK_URL."""
    urls = ["redis://a", "redis://b", "redis://c"]
    assert parse(*(f"--url={url}" for url in urls)).urls == urls
    assert parse(INTERLOCK_URL="redis://a  redis://b redis://c").urls == urls
    assert parse("--url=redis://a", INTERLOCK_URL="redis://b redis://c").urls == ["redis://a"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-subcommand"],
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
        ["run", "-n", "-w", "1", "NAME", "--", "true"],
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


def test_a_forgotten_separator_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Who writes the command as for flock(1) learns where it goes."""
    assert cli.main(["run", "NAME", "ls"], {}) == 64
    assert "interlock run NAME -- CMD" in capsys.readouterr().err


def test_arguments_behind_the_separator_are_the_commands_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither our option names nor a second -- mean anything behind the first --."""
    seen: list[object] = []
    monkeypatch.setattr(run, "main", lambda *arguments: seen.append(arguments) or 0)
    assert cli.main(["run", "NAME", "-n", "--", "cmd", "-n", "--url", "--", "x"], {}) == 0
    assert seen == [({"name": "NAME", "wait": 0.0}, ["cmd", "-n", "--url", "--", "x"], {})]


def test_the_help_has_a_column_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`interlock --help` has each command, then a gap, then what it is for."""
    with pytest.raises(SystemExit):
        cli.main(["--help"], {})
    lines = capsys.readouterr().out.splitlines()
    for name, row in cli._SUBCOMMANDS.items():
        assert any(line.split() == [name, *row.summary.split()] for line in lines), name
    # Most users run a command, so that comes first. What belongs together stands together.
    titles = [line for line in lines if line.endswith(":") and line.startswith("to ")]
    assert titles == ["to hold a lock:", "to see locks:", "to look after servers:"]
    assert lines[lines.index("to hold a lock:") + 1].split()[0] == "run"
    assert lines[lines.index("to see locks:") + 1].split()[0] == "why"


def test_the_help_names_every_option_variable_and_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`interlock run --help` is complete."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--help"], {})
    assert not ended.value.code
    text = capsys.readouterr().out
    for option in OPTIONS:
        assert all(flag in text for flag in option.flags)
        assert f"[{option.variable}]" in text
    assert all(f"  {status}  " in text for status in (64, 69, 70, 71, 124, 126, 127))


def test_the_reference_names_every_option_and_variable() -> None:
    """docs/reference/cli.md has a row for each option."""
    reference = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
    lines = reference.read_text().splitlines()
    for option in OPTIONS:
        rows = [line for line in lines if line.startswith("|") and f"`{option.variable}`" in line]
        assert len(rows) == 1
        assert all(f"`{flag}" in rows[0] for flag in option.flags)
