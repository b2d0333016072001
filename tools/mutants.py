"""Prove that the core's tests can fail: change one thing in the hot path at a time, and run them.

    python tools/mutants.py              every mutant
    python tools/mutants.py --only 40    40 of them, spread evenly
    python tools/mutants.py --list       what would be changed

A mutant is killed if a test fails or hangs. No server is needed. Exit status 1: a mutant survived.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CORE = Path("interlock/_core")
TARGETS = {
    "locks/lock_base.py": (
        "accept", "go_on", "_after_first_try", "_try", "_not_held", "is_live", "begin", "done",
        "rest", "over", "finish", "_go_on", "_undo", "extend", "undo_acquire", "end_late_grants",
        "bring_down", "_finish_later", "_end_lost", "_end_gone", "release",
    ),
    "locks/known_lock.py": ("mine",),
    "model/holds.py": (
        "sent", "failed", "late_grants", "grant", "begin_release", "end", "lose",
        "enter", "leave", "reserve", "released", "extend_validity", "valid", "lost",
    ),
    "locks/lock.py": (
        "release_hold", "begin", "done", "finish", "_conclude", "conclude", "answered",
        "accept_pass",
    ),
    "locks/read_write_lock.py": ("request", "may_try_first", "acquire_script", "_valid_hold"),
    "upkeep/idempotency.py": ("begin", "done", "carry_on", "_go_on", "send", "_leave"),
}  # fmt: skip
"""The functions of the hot path: acquire, re-enter, release, extend, semaphore, read/write."""
TESTS = (
    "test_lock_base.py", "test_releasing.py", "test_late_grants.py", "test_passing_locally.py",
    "test_holds.py", "test_repeating.py", "test_idempotency.py", "test_session.py",
)  # fmt: skip
"""The quick ones first: most mutants do not outlive them."""
THOROUGH = "test_interruption_sweep.py"
"""Takes minutes; asked only where the others find nothing."""
TIMEOUT = 600
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Lt: ast.GtE, ast.GtE: ast.Lt,
    ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip


class Mutator(ast.NodeTransformer):
    """Makes the change number *wanted* in the functions *names*; counts how many there are."""

    def __init__(self, names: tuple[str, ...], wanted: int = -1) -> None:
        self.count = 0
        self.what = ""
        self._names = names
        self._wanted = wanted
        self._inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Go into a function that is meant."""
        outside, self._inside = self._inside, self._inside or node.name in self._names
        # Annotations and documentation are no code.
        node.body = [self.visit(statement) for statement in node.body]
        self._inside = outside
        return node

    def _here(self, node: ast.AST, what: str) -> bool:
        if not self._inside:
            return False
        self.count += 1
        if self.count - 1 != self._wanted:
            return False
        self.what = f"line {getattr(node, 'lineno', 0)}: {what}"
        return True

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Negate a comparison."""
        _ = self.generic_visit(node)
        if len(node.ops) == 1 and self._here(node, f"not {ast.unparse(node)}"):
            node.ops = [OPPOSITES[type(node.ops[0])]()]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Swap ``and`` and ``or``."""
        _ = self.generic_visit(node)
        if self._here(node, f"and/or in {ast.unparse(node)}"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Drop ``not``."""
        _ = self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._here(node, ast.unparse(node.operand)):
            return node.operand
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Subtract in place of adding."""
        _ = self.generic_visit(node)
        if self._here(node, f"the opposite of {ast.unparse(node)}"):
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Subtract in place of adding."""
        _ = self.generic_visit(node)
        plus = isinstance(node.op, ast.Add | ast.Sub)
        if plus and self._here(node, f"the opposite of {ast.unparse(node)}"):
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Return True for False."""
        _ = self.generic_visit(node)
        value = node.value
        if (
            isinstance(value, ast.Constant)
            and isinstance(value.value, bool)
            and self._here(node, f"not {ast.unparse(node)}")
        ):
            node.value = ast.UnaryOp(ast.Not(), value)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Leave out a call."""
        _ = self.generic_visit(node)
        if isinstance(node.value, ast.Call) and self._here(node, f"without {ast.unparse(node)}"):
            return ast.Pass()
        return node


def mutants() -> Iterator[tuple[str, int]]:
    """Yield the file and the number of every change."""
    for name, functions in TARGETS.items():
        counter = Mutator(functions)
        _ = counter.visit(ast.parse((ROOT / "src" / CORE / name).read_text(encoding="utf-8")))
        yield from ((name, number) for number in range(counter.count))


def mutated(name: str, number: int) -> tuple[str, str]:
    """Return the changed source, and what is changed."""
    mutator = Mutator(TARGETS[name], number)
    source = (ROOT / "src" / CORE / name).read_text(encoding="utf-8")
    tree = ast.fix_missing_locations(mutator.visit(ast.parse(source)))
    return ast.unparse(tree), mutator.what


def killed(place: Path, names: tuple[str, ...] = TESTS) -> bool:
    """Return whether the tests *names* fail for the package in *place*."""
    tests = [str(ROOT / "tests" / "core" / name) for name in names]
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
        "--confcutdir", str(ROOT / "tests" / "core"), *tests,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> int:
    """Play the mutants that the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser("python tools/mutants.py", description=__doc__)
    parser.add_argument("--only", type=int, help="how many, spread evenly")
    parser.add_argument("--list", action="store_true", help="tell what would be changed")
    parser.add_argument("--thorough", action="store_true", help=f"ask {THOROUGH}, too")
    asked = parser.parse_args()
    chosen = list(mutants())
    if asked.only:
        chosen = chosen[:: max(1, len(chosen) // asked.only)][: asked.only]
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "src"
        _ = shutil.copytree(ROOT / "src", place)
        if not asked.list and killed(place):
            sys.stderr.write("the tests fail without any change\n")
            return 2
        for name, number in chosen:
            target = place / CORE / name
            right = target.read_text(encoding="utf-8")
            wrong, what = mutated(name, number)
            fate = "listed"
            if not asked.list:
                _ = target.write_text(wrong, encoding="utf-8")
                dead = killed(place) or (asked.thorough and killed(place, (THOROUGH,)))
                fate = "killed" if dead else "SURVIVED"
                _ = target.write_text(right, encoding="utf-8")
            if fate == "SURVIVED":
                survivors.append(f"{name} {what}")
            sys.stdout.write(f"{fate}  {name} {what}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {len(survivors)} survived\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
