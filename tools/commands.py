"""What `interlock COMMAND --help` says, as sections for the page of the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from interlock.cli import COMMANDS, EVERY_STATUS, parser_with

if TYPE_CHECKING:
    from collections.abc import Iterator


def sections() -> str:
    """Return a section for each command; `tools/site_hooks.py` puts them into the page."""
    told = "\n".join(_section(name, parser) for name, parser in parsers().items())
    return f"```text\n{EVERY_STATUS}```\n\n{told}"


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
    parts = [
        f"### The options of interlock {name}",
        f"```text\n{(parser.description or '').strip()}\n```",
    ]
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
