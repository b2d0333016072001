"""Write docs/reference/commands.md from the command line's own parsers.

python tools/make_commands.py            # write the page
python tools/make_commands.py --check    # fail if the page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli import _SUBCOMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
HEAD = """\
# Every command and its options

`tools/make_commands.py` writes this page from what `interlock COMMAND --help` says.
[The command `interlock`](cli.md), [Operate locks](operations.md) and [Watch
locks](../how-to/console.md) explain it.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name in sorted(_SUBCOMMANDS):
        module = import_module(f"interlock.cli.{_SUBCOMMANDS[name].module}")
        parser = argparse.ArgumentParser(prog=f"interlock {name}", add_help=False)
        module.configure(parser)
        lines = (module.EPILOG or "").strip().splitlines()
        epilog = "\n".join(["```text", *(line.rstrip() for line in lines), "```"]) if lines else ""
        parts.append(
            f"## interlock {name}\n\n```text\n{module.DESCRIPTION.strip()}\n```\n\n"
            + "\n".join(_table(parser))
            + (f"\n\n{epilog}\n" if epilog else "\n")
        )
    return "\n".join(parts)


def _table(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the rows of the arguments and options of *parser*."""
    yield "| argument | meaning |"
    yield "|---|---|"
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for word, summary in _words(action):
                yield f"| `{word}` | {_cell(summary)} |"
        elif action.help is not argparse.SUPPRESS:
            yield f"| {_called(action)} | {_cell(action.help or '')} |"


def _words(
    action: argparse._SubParsersAction[argparse.ArgumentParser],
) -> Iterator[tuple[str, str]]:
    for choice in action._choices_actions:  # noqa: SLF001 - as above
        yield choice.dest, choice.help or ""


def _called(action: argparse.Action) -> str:
    """Return the names of an option, or the word for an argument."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    value = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return f"`{value or action.dest}`"
    value = "" if action.nargs == 0 else f" {value or action.dest.upper()}"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings).replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.replace("%%", "%").split()).replace("|", "\\|")


def main(words: Sequence[str] | None = None) -> int:
    """Write the page, or return 1 if it is another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(words)
    text = page()
    if given.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
