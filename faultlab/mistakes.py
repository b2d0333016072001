"""Deliberate mistakes in a function or a script, told by their meaning.

A `Mistake` names a function of the library or a script. Its *change* names a call, a condition or
a value in there, and what stands in its place. Line breaks, comments, the order of statements and
all other code of the function may change freely.
"""

from __future__ import annotations

import ast
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Call:
    """Calls of a function, a method or a command of the server.

    Attributes:
        name: The last part of a function's name; the name of a command, or ``PUBLISH``.
        becomes: An expression, in which ``$1`` is the first argument.
        which: The number of the only call that is meant, from 0; None for each of them.
    """

    name: str
    becomes: str
    which: int | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition with exactly these names and constants in it, in any order.

    In what it becomes, ``$0`` is the condition.
    """

    words: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Value:
    """The value that a variable or an attribute is given; in what it becomes, ``$0`` is the value.

    Attributes:
        which: The number of the only statement that is meant, from 0; None for each of them.
    """

    name: str
    becomes: str
    which: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a function of Python returns at last; in what it becomes, ``$0`` is the result."""

    becomes: str


@dataclass(frozen=True, slots=True)
class Body:
    """All that a function of Python does: other statements."""

    becomes: str


Change = Call | Condition | Value | Result | Body


def fill(template: str, parts: dict[int, str]) -> str:
    """Return *template* with ``$0``, ``$1`` and so on replaced by *parts*."""
    return re.sub(r"\$(\d)", lambda number: parts[int(number[1])], template)


def _meant(found: list[Any], change: Change) -> list[Any]:
    """Return those of *found* that *change* is about.

    Raises:
        LookupError: There is none, or more than one condition.
    """
    which = getattr(change, "which", None)
    single = isinstance(change, Condition)
    if not found or (single and len(found) > 1) or (which is not None and which >= len(found)):
        raise LookupError(f"{change} fits {len(found)} places")
    return found if which is None else [found[which]]


# Lua.

_TOKEN = re.compile(
    r"""--\[\[.*?\]\]|--[^\n]*|\s+                            # no token
    |(?P<token>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d+(?:\.\d+)?|\.\.|[=~<>]=|.)""",
    re.DOTALL | re.VERBOSE,
)
_WORD = re.compile(r"\w")
_OPERATORS = {"and", "or", "not"}
_KEYWORDS = {
    "break", "do", "else", "elseif", "end", "for", "function", "if", "in", "local", "repeat",
    "return", "then", "until", "while",
}  # fmt: skip
_BUILT_IN = _OPERATORS | _KEYWORDS | {"redis", "call", "pcall"}


class LuaText:
    """A script as a list of tokens, each with its place in the text; comments are none."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = [each for each in _TOKEN.finditer(text) if each["token"]]
        self.tokens = [each["token"] for each in found]
        self._spans = [each.span() for each in found]

    def between(self, first: int, end: int) -> str:
        """Return the text of the tokens from *first* to before *end*."""
        return self.text[self._spans[first][0] : self._spans[end - 1][1]]

    def changed(self, change: Change) -> str:
        """Return the text with *change*.

        Raises:
            LookupError: There is nothing that it fits.
        """
        finders: dict[type[Change], Callable[..., Iterator[tuple[int, int, str]]]] = {
            Call: self._calls,
            Condition: self._conditions,
            Value: self._values,
        }
        found = [*finders[type(change)](change)]
        text = self.text
        for first, end, new in reversed(_meant(found, change)):
            begins, ends = self._spans[first][0], self._spans[end - 1][1]
            text = f"{text[:begins]}{new}{text[ends:]}"
        return text

    def _calls(self, change: Call) -> Iterator[tuple[int, int, str]]:
        for i in range(len(self.tokens)):
            command = self.tokens[i : i + 5]
            if command[:2] != ["redis", "."] or command[3:4] != ["("]:
                continue
            if command[4].strip("'\"").lower() == change.name.lower():
                arguments, end = self._arguments(i + 3)
                yield i, end, fill(change.becomes, dict(enumerate(arguments)))

    def _arguments(self, bracket: int) -> tuple[list[str], int]:
        """Return the arguments in the brackets that open at *bracket*, and where they end."""
        arguments: list[str] = []
        depth, begins = 0, bracket + 1
        for i in range(bracket, len(self.tokens)):
            token = self.tokens[i]
            depth += (token in "([{") - (token in ")]}")
            if (token == "," and depth == 1) or depth == 0:
                arguments.append(self.between(begins, i) if i > begins else "")
                begins = i + 1
            if depth == 0:
                return arguments, i + 1
        raise LookupError("a bracket stays open")

    def _conditions(self, change: Condition) -> Iterator[tuple[int, int, str]]:
        for i, token in enumerate(self.tokens):
            if token in ("if", "elseif"):
                end = self.tokens.index("then", i)
                words = {each.strip("'\"") for each in self.tokens[i + 1 : end]} - _BUILT_IN
                if {word for word in words if _WORD.match(word)} == set(change.words.split()):
                    condition = f"({self.between(i + 1, end)})"
                    yield i + 1, end, fill(change.becomes, {0: condition})

    def _values(self, change: Value) -> Iterator[tuple[int, int, str]]:
        for i in range(1, len(self.tokens) - 1):
            begins = not (self._follows(i - 1) or self.tokens[i - 1] in (".", ",", "for"))
            if self.tokens[i] == change.name and self.tokens[i + 1] == "=" and begins:
                end = self._after(i + 2)
                while end < len(self.tokens) and self._follows(end - 1, end):
                    end = self._after(end)
                value = f"({self.between(i + 2, end)})"
                yield i + 2, end, fill(change.becomes, {0: value})

    def _after(self, i: int) -> int:
        """Return the token after the brackets that open at *i*, or after that token."""
        return self._arguments(i)[1] if self.tokens[i] in "([{" else i + 1

    def _follows(self, before: int, here: int | None = None) -> bool:
        """Return whether an expression goes on after the token *before*, with the one *here*."""
        word = self.tokens[before]
        ends = word[0] in "'\")]}" or (_WORD.match(word) is not None and word not in _OPERATORS)
        if here is None or not ends:
            return not ends
        after = self.tokens[here]
        return after in _OPERATORS or not (_WORD.match(after) or after in (";", ","))


# Python.


def _words(node: ast.expr) -> set[str]:
    """Return the names and constants in *node*."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return names | {str(each.value) for each in ast.walk(node) if isinstance(each, ast.Constant)}


def _nodes(function: ast.AST, change: Change) -> Iterator[ast.expr]:
    """Yield the expressions that *change* is about, outer ones only."""
    for child in ast.iter_child_nodes(function):
        if isinstance(change, Condition):
            is_test = child is getattr(function, "test", None)
            if (is_test or isinstance(child, ast.BoolOp | ast.Compare | ast.UnaryOp)) and (
                isinstance(child, ast.expr) and _words(child) == set(change.words.split())
            ):
                yield child
                continue
        elif isinstance(change, Call) and isinstance(child, ast.Call):
            name = ast.unparse(child.func).rpartition(".")[2]
            if name == change.name:
                yield child
                continue
        elif isinstance(change, Value) and isinstance(child, ast.Assign | ast.AugAssign):
            given = child.targets if isinstance(child, ast.Assign) else [child.target]
            targets = [ast.unparse(each).rpartition(".")[2] for each in given]
            if change.name in targets:
                yield child.value
                continue
        elif isinstance(change, Result) and isinstance(child, ast.Return) and child.value:
            yield child.value
            continue
        yield from _nodes(child, change)


class _Replace(ast.NodeTransformer):
    """Puts other expressions in the place of some."""

    def __init__(self, new: dict[ast.AST, ast.expr]) -> None:
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace *node*, or look inside it."""
        return self._new.get(node) or self.generic_visit(node)


def changed_function(function: ast.AST, change: Change) -> None:
    """Change *function*.

    Raises:
        LookupError: There is nothing in it that *change* fits.
    """
    if isinstance(change, Body):
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        function.body = ast.parse(change.becomes).body
        return
    found = [*_nodes(function, change)]
    meant = found[-1:] if isinstance(change, Result) else _meant(found, change)
    new: dict[ast.AST, ast.expr] = {}
    for node in meant:
        parts = {0: f"({ast.unparse(node)})"}
        if isinstance(node, ast.Call):
            parts |= {i: ast.unparse(each) for i, each in enumerate(node.args, 1)}
        new[node] = ast.parse(fill(change.becomes, parts), mode="eval").body
    if not new:
        raise LookupError(f"{change} fits nothing")
    _ = _Replace(new).visit(function)
    _ = ast.fix_missing_locations(function)


def function_in(module: ast.Module, name: str) -> ast.AST:
    """Return the function with the qualified *name*.

    Raises:
        LookupError: There is none.
    """
    here: ast.AST = module
    for part in name.split("."):
        inside = (each for each in ast.iter_child_nodes(here) if getattr(each, "name", "") == part)
        here = next(inside, module)
        if here is module:
            raise LookupError(f"there is no function {name}")
    return here


@dataclass(frozen=True, slots=True)
class Mistake:
    """A change of one function or script.

    Attributes:
        where: The name of a script, or ``module.function``, as in
            ``_core.upkeep.watchdog:Watchdog.lose``. A script is ``_core/lock_ask``.
        change: What is wrong there.
    """

    where: str
    change: Change

    def changed(self, sources: Path) -> dict[Path, str]:
        """Return the files below *sources* that it is in, with the mistake in their text.

        If one is generated from another, the function is changed there, too, unless it lacks it.

        Raises:
            LookupError: The function, or what is changed in it, is not there.
        """
        module, is_python, name = self.where.partition(":")
        stem, root = module.replace(".", "/"), sources / "interlock"
        if not is_python:
            core, stem = stem.split("/", 1)
            script = root / f"{core}/lua/{stem}.lua"
            return {script: LuaText(script.read_text(encoding="utf-8")).changed(self.change)}
        generated = stem.replace("asyncio/", "sync/")
        changed: dict[Path, str] = {}
        for each in dict.fromkeys((stem, generated)):
            file = root / f"{each}.py"
            tree = ast.parse(file.read_text(encoding="utf-8"))
            try:
                function = function_in(tree, name)
            except LookupError:
                if not changed:
                    raise
                break
            changed_function(function, self.change)
            changed[file] = ast.unparse(tree)
        return changed

    def make(self, sources: Path, into: Path) -> None:
        """Copy *sources* to *into*, with the mistake; errors as `changed`."""
        shutil.copytree(sources, into, dirs_exist_ok=True)
        for file, text in self.changed(sources).items():
            (into / file.relative_to(sources)).write_text(text, encoding="utf-8")
