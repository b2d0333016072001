"""Deliberate mistakes find their place by what the code means, not by how it is written."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from faultlab.mistakes import (
    Call,
    Change,
    Condition,
    LuaText,
    Mistake,
    Result,
    Value,
    changed_function,
    function_in,
)
from faultlab.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "interlock"
IN_LUA = [mutant for mutant in MUTANTS if mutant.mistake.file.endswith(".lua")]
LUA = """
-- if never then
local left = redis.call('pttl', lock) -- what is left
if not ours and left > 0 then
  redis.call('set', request, string.format('%d', left), 'px', 5)
elseif left == -1 then
  left = (left + 1) * 2
end
"""
PYTHON = """
class Lock:
    def left(self, now):
        until = self.until = now + 1
        if not self.free and self.begin(now, 2) is None:
            return until
        return until - now
"""


def renamed(mutant: Any) -> str:
    """Return a test's id."""
    return mutant.name.replace(" ", "-")


@pytest.mark.parametrize("mutant", MUTANTS, ids=renamed)
def test_mutant_is_up_to_date(mutant: Any) -> None:
    """The library has the place that a mutant changes, and the result is still a program."""
    source = (SOURCES / mutant.mistake.file).read_text()
    changed = mutant.mistake.made(source)
    if mutant.mistake.file.endswith(".py"):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    else:
        assert changed != source


@pytest.mark.parametrize("mutant", IN_LUA, ids=renamed)
def test_layout_and_comments_do_not_matter(mutant: Any) -> None:
    """A script with each word in a line of its own, and without comments, has the same mistake."""
    text = (SOURCES / mutant.mistake.file).read_text()
    in_lines = LuaText("\n".join(LuaText(text).tokens)).changed(mutant.mistake.change)
    assert LuaText(in_lines).tokens == LuaText(mutant.mistake.made(text)).tokens


@pytest.mark.parametrize(
    ("change", "right", "wrong"),
    [
        (Call("pttl", "ttl($1)"), "redis.call('pttl', lock)", "ttl(lock)"),
        (
            Call("set", "keep($2, $4)"),
            "redis.call('set', request, string.format('%d', left), 'px', 5)",
            "keep(string.format('%d', left), 5)",
        ),
        (
            Condition("left ours 0", "$0 and now"),
            "not ours and left > 0 ",
            "(not ours and left > 0) and now ",
        ),
        (Condition("1 left", "false"), "left == -1 ", "false "),
        (Value("left", "0", which=0), "redis.call('pttl', lock) --", "0 --"),
        (Value("left", "1 + $0", which=1), "(left + 1) * 2", "1 + ((left + 1) * 2)"),
    ],
)
def test_a_change_of_a_script(change: Change, right: str, wrong: str) -> None:
    """A call, a condition or a value of a script is found, and nothing else changes."""
    assert LuaText(LUA).changed(change) == LUA.replace(right, wrong)


@pytest.mark.parametrize(
    ("change", "right", "wrong"),
    [
        (Call("begin", "begun($2)"), "self.begin(now, 2)", "begun(2)"),
        (Condition("self begin now 2 None", "False"), "self.begin(now, 2) is None", "False"),
        (Value("until", "2 * $0"), "now + 1", "2 * (now + 1)"),
        (Result("-$0"), "until - now", "-(until - now)"),
    ],
)
def test_a_change_of_a_function(change: Change, right: str, wrong: str) -> None:
    """A call, a condition, a value or the result of a function is found in the same way."""
    module = ast.parse(PYTHON)
    changed_function(function_in(module, "Lock.left"), change)
    assert ast.unparse(module) == ast.unparse(ast.parse(PYTHON.replace(right, wrong)))


@pytest.mark.parametrize(
    "mistake",
    [
        Mistake("lock_acquire", Call("lpush", "nil")),
        Mistake("lock_acquire", Call("pexpire", "nil", which=7)),
        Mistake("lock_acquire", Condition("nobody", "true")),
        Mistake("lock_acquire", Condition("claimed", "true")),
        Mistake("upkeep.watchdog:Watchdog.nothing", Call("f", "0")),
        Mistake("upkeep.watchdog:Watchdog._note", Call("nothing", "0")),
        Mistake("upkeep.watchdog:Watchdog.__init__", Result("0")),
    ],
    ids=lambda mistake: f"{mistake.where}-{type(mistake.change).__name__}",
)
def test_a_change_without_a_place_is_an_error(mistake: Mistake) -> None:
    """A mistake that fits nothing, or a condition that fits several places, is told."""
    with pytest.raises(LookupError):
        mistake.made((SOURCES / mistake.file).read_text())


def test_the_functions_of_the_small_mutants_exist() -> None:
    """Each function that tools/mutants.py changes is in its module, and has something to change."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec
    assert spec.loader
    mutants = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutants)
    for name, functions in mutants.TARGETS.items():
        tree = ast.parse((ROOT / "src" / mutants.CORE / name).read_text())
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert set(functions) <= defined, name
