"""Write docs/reference/names.md, the list of all public names, from the source itself.

The modules are read and not imported, so that no framework need be installed.

python -m tools.make_names            # write the page
python -m tools.make_names --check    # fail if the page is not what would be written
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "names.md"
HEAD = """\
# All public names

This page is for you if you want to know whether a name is public. A name that is neither here nor among [the
commands](cli.md#every-command-and-its-options) is not for you, even if it can be imported, and may change at any time.

The row of a module has its functions and modules, and that of a class its members. `Permit < Hold` has all that `Hold`
has, too. `interlock.asyncio` has the classes of `interlock` with calls that are awaited; the table has what it has
besides. `interlock.trio` has `connect` and `Client`, and `interlock.errors` the errors of `interlock`. The fixtures of
pytest are {fixtures}. Arguments stand in the reference.

| name | what it has |
|---|---|
"""
MODULES = (
    *("fencing", "observe", "check", "inspection", "testing", "redis_py"),
    *("django", "fastapi", "celery", "otel", "prometheus"),
)
"""The modules of which each name has a row."""
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | Function
Members: TypeAlias = tuple[str, ...]


def page() -> str:
    """Return the page."""
    sync = _classes("interlock")
    more = {
        title: tuple(name for name in members if name not in sync.get(title, ()))
        for title, members in _classes("interlock.asyncio").items()
    }
    rows = [*_rows("interlock", sync)]
    rows += [
        f"| {_code([f'interlock.asyncio.{title}'])} | {_code(rest)} |"
        for title, rest in more.items()
        if rest
    ]
    for module in MODULES:
        rows += _rows(f"interlock.{module}", _classes(f"interlock.{module}"))
    return HEAD.format(fixtures=_code(_fixtures())) + "\n".join([*rows, ""])


def _rows(module: str, classes: Mapping[str, Members]) -> Iterator[str]:
    """Yield the row of *module*, and one for each of its *classes*."""
    yield f"| {_code([module])} | {_code(sorted(_functions(module)))} |"
    for title, members in classes.items():
        yield f"| {_code([f'{module}.{title}'])} | {_code(members)} |"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


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


def _classes(module: str) -> dict[str, Members]:
    """Return the classes that *module* exports, each title with the members."""
    found: dict[str, Members] = {}
    listed = frozenset(_names("interlock")) | frozenset(_names(module))
    for name in sorted(_names(module)):
        home, definition = _find(module, name) or ("", None)
        if isinstance(definition, ast.ClassDef):
            bases = [base for base in map(ast.unparse, definition.bases) if base in listed]
            members = sorted(_members(home, definition, listed - {name}))
            public = tuple(member for member in members if not member.startswith("_"))
            found[" < ".join((name, *bases))] = public
    return found


def _functions(module: str) -> list[str]:
    """Return the other names that *module* exports: functions and modules."""
    found = ((name, _find(module, name)) for name in _names(module))
    return [name for name, it in found if it is None or not isinstance(it[1], ast.ClassDef)]


def _members(module: str, found: ast.ClassDef, listed: frozenset[str]) -> Iterator[str]:
    """Yield the members of a class.

    Inherited ones are among them, unless they are those of a class that is *listed*.
    """
    members = set[str]()
    for base in found.bases:
        of = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(of, ast.Name) and of.id not in listed:
            inherited = _find(module, of.id)
            if inherited is not None and isinstance(inherited[1], ast.ClassDef):
                members.update(_members(inherited[0], inherited[1], listed))
    for each in found.body:
        if isinstance(each, Function):
            members.add(each.name)
            members.update(_assigned(each) if each.name == "__init__" else ())
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            members.add(each.target.id)
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            members.add(each.targets[0].id)
    yield from members


def _assigned(init: Function) -> Iterator[str]:
    """Yield the attributes that a constructor sets."""
    for each in ast.walk(init):
        stored = isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        if isinstance(each, ast.Attribute) and stored and ast.unparse(each.value) == "self":
            yield each.attr


def _fixtures() -> Iterator[str]:
    for each in _tree("interlock._pytest_plugin").body:
        if isinstance(each, ast.FunctionDef) and each.decorator_list:
            yield each.name


def main() -> int:
    """Write the page, or return 1 if it is another one."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
