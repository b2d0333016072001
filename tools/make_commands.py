"""Write docs/reference/commands.md from the command line's own parsers.

python tools/make_commands.py            # write the page
python tools/make_commands.py --check    # fail if the page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli import COMMANDS, EVERY_STATUS, parser_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
HEAD = f"""\
# Every command and its options

`tools/make_commands.py` writes this page from what `interlock COMMAND --help` says.
[The command `interlock`](cli.md), [Operate locks](operations.md) and [Watch
locks](../how-to/console.md) explain it.

```text
{EVERY_STATUS}```
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(_section(name, parser) for name, parser in parsers().items())])


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, and of each word of a command that has words."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name in sorted(COMMANDS):
        found[name] = _parsers_below(parser_with(name))[name]
        words = _parsers_below(found[name])
        found |= {f"{name} {word}": parser for word, parser in words.items()}
    return found


def _parsers_below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            return dict(action.choices)
    return {}


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    parts = [f"## interlock {name}", f"```text\n{(parser.description or '').strip()}\n```"]
    parts.append("\n".join(_table(parser)))
    if " " not in name:  # the words of a command have its epilog
        lines = (parser.epilog or "").removesuffix(EVERY_STATUS).strip().splitlines()
        parts.append("\n".join(["```text", *(line.rstrip() for line in lines), "```"]))
    return "\n\n".join(parts) + "\n"


def _table(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the rows of the arguments and options of *parser*."""
    yield "| argument | meaning |"
    yield "|---|---|"
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for word, summary in _words(action):
                yield f"| `{word}` | {_cell(summary)} |"
        elif not isinstance(action, argparse._HelpAction):  # noqa: SLF001 - as above
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
