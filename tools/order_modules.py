"""Check the ordered list of modules, or put new modules in their places.

    python tools/order_modules.py            # fails if a list is wrong
    python tools/order_modules.py --update   # add new modules, move as few as possible

`tests/core/module_order.txt` has every module of the package. A module imports only modules above
it, in functions and for type checking too. So there is no circle.

The last section of `docs/explanation/architecture.md` has one line for each module: the first
sentences of its docstring.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "interlock"
LIST = ROOT / "tests" / "core" / "module_order.txt"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
HEADING = "## Every module\n"
BLANK = "\n\n"


def module_of(path: Path) -> str:
    """Return the module of a file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}
"""Module -> its file."""


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the parsed source of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[str]:
    """Yield every name that a file imports, in functions and for type checking too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def known(imported: str) -> str | None:
    """Return the module of the package that *imported* is, or is a name of."""
    while imported:
        if imported in MODULES:
            return imported
        imported = imported.rpartition(".")[0]
    return None


@cache
def used_by(module: str) -> frozenset[str]:
    """Return the modules of the package that *module* imports."""
    found = {known(imported) for imported in imports(MODULES[module])}
    return frozenset(name for name in found if name is not None) - {module}


def listed() -> list[str]:
    """Return the modules of the list, from the top."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def wrong(order: Sequence[str], uses: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return what is wrong with *order*, where *uses* tells what each module imports."""
    places = {module: place for place, module in enumerate(order)}
    found = [f"{module} is not in the list" for module in sorted(uses.keys() - places)]
    found += [f"{module} does not exist" for module in sorted(places.keys() - uses)]
    if len(places) < len(order):
        found.append("a module is in the list twice")
    for module, place in places.items():
        below = sorted(name for name in uses.get(module, ()) if places.get(name, -1) > place)
        if below:
            found.append(f"{module} imports {', '.join(below)}, below it")
    return found


def mend(lines: Sequence[str], uses: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return *lines* of the list in a right order, each new module below its imports.

    Raises:
        CycleError: modules import each other in a circle.
    """
    right = list(TopologicalSorter(uses).static_order())
    found = [line for line in lines if not line or line.startswith("#") or line in uses]
    for module in right:
        below = max((found.index(name) for name in uses[module]), default=0)
        if module in found and found.index(module) > below:
            continue
        if module in found:
            below -= found.index(module) < below
            found.remove(module)
        family = [at for at, line in enumerate(found) if _folder(line) == _folder(module)]
        found.insert(max(below + 1, family[0] if family else 0), module)
    return found


def _folder(module: str) -> str:
    return module.rpartition(".")[0]


def page(text: str) -> str:
    """Return *text* of the architecture's page with one line for each module at its end."""
    lines = [HEADING, "Each line is the beginning of the module's docstring."]
    folder = None
    for path in sorted(MODULES.values(), key=lambda path: (path.parent, path)):
        if path.parts[len(SOURCE.parts)] in ("sync", "__main__.py"):
            continue  # generated from asyncio/
        name = path.relative_to(SOURCE)
        documented = ast.get_docstring(tree_of(path)) or ""
        if path.parent != folder:
            folder = path.parent
            lines.append(f"\n**`{name.parent}`**\n" if folder != SOURCE else "\n**The package**\n")
        line = f"* `{name.name}`: {documented.partition(BLANK)[0]}".replace("\n", " ")
        lines += textwrap.wrap(line, 100, subsequent_indent="  ", break_on_hyphens=False)
    return text.partition(HEADING)[0] + "\n".join(lines) + "\n"


def main() -> int:
    """Check the list, or mend it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="add new modules to both lists")
    uses = {module: used_by(module) for module in MODULES}
    if parser.parse_args().update:
        try:
            lines = mend(LIST.read_text(encoding="utf-8").splitlines(), uses)
        except CycleError as error:
            sys.stderr.write(f"a circle: {' -> '.join(error.args[1])}\n")
            return 1
        _ = LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _ = PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    problems = wrong(listed(), uses)
    told = PAGE.read_text(encoding="utf-8")
    if page(told) != told:
        problems.append(f"the modules at the end of {PAGE.name} are out of date")
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
