"""Deliberate mistakes in the core, each of which a named simulation must find."""

from __future__ import annotations

import ast
import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from faultlab.mistakes import Change, LuaText, changed_function, function_in

from interlock._core.locks import lock, lock_base, started_lock
from interlock._core.model.effects import Script
from interlock._core.objects import permit_queue
from interlock._core.scripts import fenced_lock as fenced_scripts
from interlock._core.scripts import leased_semaphore as leased_scripts
from interlock._core.scripts import lock as scripts
from interlock._core.scripts import read_write_lock as read_write_scripts
from interlock._core.scripts.source import MESSAGES, sent
from tests.support.scripts import TEXTS
from tests.support.simulator import StepBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from interlock._core.scripts.script import Variants


@dataclass(frozen=True)
class Mutation:
    """A mistake, and what finds it.

    Attributes:
        name: for the test's id.
        where: a function below ``interlock._core``, or the name of a script.
        change: what is wrong there.
        found_by: the simulation.
    """

    name: str
    where: str
    change: Change
    found_by: Callable[[], None]


def mutate(mutation: Mutation, patch: pytest.MonkeyPatch) -> None:
    """Put the mistake in the place of what is right."""
    path, is_function, name = mutation.where.partition(":")
    if is_function:
        mutate_function(importlib.import_module(f"interlock._core.{path}"), name, mutation, patch)
    else:
        mutate_script(path, mutation, patch)


def mutate_script(stem: str, mutation: Mutation, patch: pytest.MonkeyPatch) -> None:
    """Put a mistaken script in the place of the right one."""
    name = f"_{stem.upper()}"
    homes = {
        "fenced": fenced_scripts, "write": read_write_scripts, "read": read_write_scripts,
        "leased": leased_scripts,
    }  # fmt: skip
    home = homes.get(stem.partition("_")[0], scripts)
    script: Script[Any] | Variants[Any] = getattr(home, name)
    wrong = LuaText(TEXTS[stem]).changed(mutation.change)
    if isinstance(script, Script):
        mistaken: Any = Script(script.name, sent(wrong), script.decode)
    else:
        decode = script["PUBLISH"].decode
        mistaken = {p: Script(script.name, sent(wrong, p), decode) for p in MESSAGES}
    patch.setattr(home, name, mistaken)


def mutate_function(
    module: ModuleType, qualified: str, mutation: Mutation, patch: pytest.MonkeyPatch
) -> None:
    """Put a mistaken function in the place of the right one, wherever it is used."""
    *path, name = qualified.split(".")
    holder = getattr(module, path[0]) if path else module
    right = getattr(holder, name)
    function = function_in(ast.parse(inspect.getsource(module)), qualified)
    changed_function(function, mutation.change)
    made: dict[str, Any] = {}
    source = f"from __future__ import annotations\n{ast.unparse(function)}"
    exec(source, vars(module).copy(), made)
    for user in (holder, lock, lock_base, started_lock, permit_queue):
        if getattr(user, name, None) is right:
            patch.setattr(user, name, made[name])


def proofs(mutations: Sequence[Mutation]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the tests that the simulations fail with each of *mutations*, and not without."""
    findings = dict.fromkeys(mutation.found_by for mutation in mutations)

    @pytest.mark.parametrize("find", findings, ids=lambda find: find.__name__)
    def test_simulation_passes_on_what_is_right(find: Callable[[], None]) -> None:
        """The simulations that find mistakes find none in the core as it is."""
        find()

    @pytest.mark.parametrize("mutation", mutations, ids=lambda mutation: mutation.name)
    def test_mistake_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
        """A simulation fails when the core makes the mistake."""
        mutate(mutation, monkeypatch)
        with pytest.raises((AssertionError, StepBudgetError)):
            mutation.found_by()

    return test_simulation_passes_on_what_is_right, test_mistake_is_found
