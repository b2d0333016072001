"""Write docs/reference/names.md, the list of all public names, from the source itself.

The modules are read and not imported, so that no framework need be installed.

python -m tools.make_names            # write the page
python -m tools.make_names --check    # fail if the page is not what would be written
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tools.commands import parsers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "names.md"
HEAD = """\
# All public names

This page is for you if you want to know whether a name is public. A name that is not here is not
for you, even if it can be imported, and may change at any time. `tools/make_names.py` writes this
page from the source.

The members of a class stand below it. The objects of a client are made by its factories, and of
other classes the list has the arguments. Values are the defaults. `Permit < Hold` has all that
`Hold` has.
"""
WIDTH = 100
FACES = ("interlock", "interlock.asyncio")
"""Their classes are made by factories."""
MODULES = {
    "errors": "each is in `interlock`, too",
    "fencing": "the check that a resource makes",
    "observe": "what an observer is told",
    "check": "what `Client.check` returns",
    "inspection": "what `Client.locks`, `describe` and `deadlocks` return",
    "testing": "for your tests",
    "redis_py": "redis-py's Lock on top of ours; its twin for asyncio is chosen by the client",
    "django": "the setting is `INTERLOCK`",
    "fastapi": "",
    "celery": "the settings are `interlock_url` and `interlock_options`",
    "otel": "",
    "prometheus": "",
}
"""Module -> what is to be said of it."""
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | Function


def page() -> str:
    """Return the page."""
    sync, awaited = set(_lines("interlock")), set(_lines("interlock.asyncio"))
    parts = [HEAD, *_section("interlock", sorted(sync), "")]
    parts += _section("interlock.asyncio", sorted(awaited - sync), "the names of `interlock`, and")
    parts += [
        "## `interlock.trio`",
        "",
        "The names of `interlock.asyncio`, with a client for trio.",
        "",
    ]
    for module, said in MODULES.items():
        parts += _section(f"interlock.{module}", list(_lines(f"interlock.{module}")), said)
    parts += _section("pytest", list(_fixtures()), "fixtures that pytest finds by itself")
    said = "its words and their options; [the reference](cli.md) says what they do"
    parts += _section("The command", list(_command()), said)
    return "\n".join(parts)


def _section(title: str, lines: Sequence[str], said: str) -> list[str]:
    shown = f"`{title}`" if title.startswith("interlock") else title
    about = [f"{said[0].upper()}{said[1:]}:", ""] if said else []
    return [f"## {shown}", "", *about, "```text", *_indented(lines), "```", ""]


def _indented(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines*, those of a class's members below its own, as many in a line as it holds."""
    name, row = "", ""
    for line in lines:
        if not name or not line.startswith(f"{name}."):
            yield from filter(None, [row])
            yield line
            head = re.split(r"[( ]", line, maxsplit=1)[0]
            name, row = "" if "." in head else head, ""
            continue
        member = line.removeprefix(f"{name}.")
        if row and len(row) + len(member) + 3 > WIDTH:
            yield row
            row = ""
        row = f"{row}   {member}" if row else f"    {member}"
    yield from filter(None, [row])


# The source.


@cache
def _tree(module: str) -> ast.Module:
    path = (ROOT / "src").joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those for type checkers too."""
    for each in body:
        yield from _statements(each.body) if isinstance(each, ast.If) else (each,)


def _names(module: str) -> list[str]:
    """Return what *module* exports: its ``__all__``, or else what it defines."""
    defined: list[str] = []
    for each in _statements(_tree(module).body):
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__":
            return list(ast.literal_eval(each.value))
        if isinstance(each, Definition) and not each.name.startswith("_"):
            defined.append(each.name)
    return defined


def _find(module: str, name: str) -> tuple[str, Definition] | None:
    """Return the module that defines what *module* calls *name*, and the definition."""
    for each in _statements(_tree(module).body):
        if isinstance(each, Definition):
            if each.name == name:
                return module, each
        elif isinstance(each, ast.ImportFrom) and (each.module or "").startswith("interlock"):
            for alias in each.names:
                if (alias.asname or alias.name) == name and each.module != module:
                    return _find(str(each.module), alias.name)
    return None


# What is told of a name.


def _lines(module: str) -> Iterator[str]:
    """Yield what *module* exports, each class with its members."""
    for name in _names(module):
        home, definition = _find(module, name) or ("", None)
        if isinstance(definition, ast.ClassDef):
            yield from _class(name, home, definition, made=module not in FACES)
        elif definition is not None:
            yield f"{name}{_signature(definition)}"
        else:
            yield name


def _class(name: str, module: str, found: ast.ClassDef, *, made: bool) -> Iterator[str]:
    listed = {*_names("interlock"), *_names(module)} - {name}
    bases = [base for base in map(ast.unparse, found.bases) if base in listed]
    members = _members(module, found, frozenset(listed))
    making = members.pop("__init__", None) if made else None
    yield " < ".join((f"{name}{making or ''}", *bases))
    for member, rest in sorted(members.items()):
        if not member.startswith("_"):
            yield f"{name}.{member}{rest}"


def _members(module: str, found: ast.ClassDef, listed: frozenset[str]) -> dict[str, str]:
    """Return the members of a class, and what is told of each.

    Inherited ones are among them, unless they are those of a class that is *listed*.
    """
    members: dict[str, str] = {}
    for base in reversed(found.bases):
        of = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(of, ast.Name) and of.id not in listed:
            inherited = _find(module, of.id)
            if inherited is not None and isinstance(inherited[1], ast.ClassDef):
                members |= _members(inherited[0], inherited[1], listed)
    for each in found.body:
        if isinstance(each, Function):
            marks = {ast.unparse(mark).split(".")[-1] for mark in each.decorator_list}
            shown = "" if {"property", "cached_property"} & marks else _signature(each)
            members[each.name] = shown
            if each.name == "__init__":
                members |= dict.fromkeys(_assigned(each), "")
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            value = "" if each.value is None else ast.unparse(each.value)
            members[each.target.id] = f" = {value}" if value and "(" not in value else ""
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            members[each.targets[0].id] = ""
    return members


def _assigned(init: Function) -> Iterator[str]:
    """Yield the attributes that a constructor sets."""
    for each in ast.walk(init):
        stored = isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if isinstance(each, ast.Attribute) and stored and ast.unparse(each.value) == "self":
            yield each.attr


def _signature(function: Function) -> str:
    """Return the parameters of *function*, without annotations and `self`."""
    arguments = function.args
    arguments.posonlyargs = [each for each in arguments.posonlyargs if each.arg != "self"]
    arguments.args = [each for each in arguments.args if each.arg not in ("self", "cls")]
    if arguments.kwarg is not None and arguments.kwarg.arg.startswith("_"):
        arguments.kwarg = None  # it answers what other libraries call their arguments
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg):
            each.annotation = None
    return f"({ast.unparse(arguments)})"


def _fixtures() -> Iterator[str]:
    for each in _tree("interlock._pytest_plugin").body:
        if isinstance(each, ast.FunctionDef) and each.decorator_list:
            yield each.name


def _command() -> Iterator[str]:
    """Yield each word of the command, with its arguments and options."""
    yield "interlock --version"
    for word, parser in parsers().items():
        told: list[str] = []
        for action in parser._actions:  # noqa: SLF001 - argparse has no other way
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
                told.append("|".join(action.choices))
            elif not isinstance(action, argparse._HelpAction):  # noqa: SLF001 - as above
                told.append(", ".join(action.option_strings) or str(action.metavar or action.dest))
        yield f"interlock {word}  {'  '.join(told)}"


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
