"""Write the sync face from the asyncio face, or with --check tell whether it is up to date.

The asyncio face holds no logic, so a handful of words is all that differs between the two.
"""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src" / "interlock"
SOURCE, TARGET = ROOT / "asyncio", ROOT / "sync"
HEADER = "# Generated from interlock/{name} by tools/make_sync.py; change that file.\n"


def targets() -> dict[Path, Path]:
    """Return each file that is made, by the file that it is made from."""
    return {path: TARGET / path.name for path in sorted(SOURCE.glob("*.py"))}


WORDS = [
    (r"[ ]*# asyncio only\n(?:.*\n)*?[ ]*# end\n", ""),
    (r"[ ]*cancel_on_lost: .*\n", ""),
    (r"import asyncio\n", ""),
    (r"\bCoroutine(?:Type)?\[Any, Any, (.*?)\]", r"\1"),
    (r"\bCoroutineType, ", ""),
    (r"\bcheck_function\(function, is_async=True\)", "check_function(function)"),
    (r"\bcheck_callback\((function|callback)\)", r"check_callback(\1, plain=True)"),
    (r"\bchecked_awaitable\b", "checked_result"),
    (r"an ``async with``", "a ``with``"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\basync with\b", "with"),
    (r"interlock\._drivers\.aio\b", "interlock._drivers.threads"),
    (r"tasks import current_owner\n", "flow import current_owner\n"),
    (
        r"tasks import (.+), current_owner, lasting_owner\n",
        r"flow import current_owner\nfrom interlock._drivers.threads import \1\n",
    ),
    (r"\blasting_owner\b", "current_owner"),
    (r"interlock\._drivers\.tasks\b", "interlock._drivers.threads"),
    (r"interlock\.asyncio\b", "interlock.sync"),
    (r"\bAsyncDriver\b", "ThreadDriver"),
    (r"\brun_shielded\b", "run"),
    (r"\bT \| Awaitable\[T\]", "T"),
    (r"\bAwaitable\[(.*?)\]", r"\1"),
    (r"It runs in the event loop\.", "It runs in a thread of the client's."),
    (
        r"But ``sys.exit`` ends the loop, as in every callback of asyncio\.",
        "``sys.exit`` does not end the process.",
    ),
    (r"the task that acquired it\.", "the thread that acquired it, in its present context."),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\btask\b", "thread"),
    (r"\btasks\b", "threads"),
    (
        r"The asyncio face: the names of `interlock`, awaited\.\n(?:.*\n)*?(?=\"{3})",
        "The sync face, re-exported by `interlock`.",
    ),
    (r"\bredis\.asyncio\b", "redis"),
]  # fmt: skip


def sync_text(path: Path) -> str:
    """Return the sync counterpart of the file at *path*."""
    target = str(targets()[path])
    text = path.read_text(encoding="utf-8")
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    text = HEADER.format(name=path.relative_to(ROOT).as_posix()) + text
    format_ = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--stdin-filename",
        target,
        "-",
    ]
    fix = [
        sys.executable, "-m", "ruff", "check", "--fix", "--select", "I,F401", "--quiet",
        "--exit-zero", "--stdin-filename", target, "-",
    ]  # fmt: skip
    for command in (fix, format_):
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def undocumented(text: str) -> list[str]:
    """Return the names that docstrings in *text* document and the code below them does not have.

    These are parameters, and attributes of classes.
    """
    wrong: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            wrong += [f"{node.name}({name})" for name in _section(node, "Args") - _parameters(node)]
        elif isinstance(node, ast.ClassDef):
            functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            inits = [part for part in functions if part.name == "__init__"]
            known = set[str]().union(*(_parameters(part) for part in inits))
            wrong += [f"{node.name}({name})" for name in _section(node, "Args") - known]
            inherited = bool(node.bases)
            missing = set() if inherited else _section(node, "Attributes") - _attributes(node)
            wrong += [f"{node.name}.{name}" for name in missing]
    return sorted(wrong)


def _section(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, title: str) -> set[str]:
    """Return the names that a section of a docstring in Google's style begins its items with."""
    lines = (ast.get_docstring(node) or "").splitlines()
    if f"{title}:" not in lines:
        return set()
    items = itertools.takewhile(lambda line: line[:1] == " ", lines[lines.index(f"{title}:") + 1 :])
    return {found[1] for line in items if (found := re.match(r" {4}\**(\w+):", line))}


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}


def _attributes(node: ast.ClassDef) -> set[str]:
    """Return what a class assigns to ``self``, or defines."""
    found = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return found | {getattr(part, "name", "") for part in node.body}


def main() -> int:
    """Write or check every file; return the exit status."""
    check = "--check" in sys.argv[1:]
    stale = []
    wrong = []
    wanted = {path.name for path in SOURCE.glob("*.py")}
    for path, target in targets().items():
        text = sync_text(path)
        for file, code in ((path, path.read_text(encoding="utf-8")), (target, text)):
            wrong += [f"{file.parent.name}/{file.name}: {name}" for name in undocumented(code)]
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                target.write_text(text, encoding="utf-8")
    if wrong:
        print("\n".join(("documented, and not there:", *wrong)))
        return 1
    extra = sorted({path.name for path in TARGET.glob("*.py")} - wanted)
    if check and (stale or extra):
        print(f"not up to date: {', '.join(stale + extra)}; run python tools/make_sync.py")
        return 1
    for name in extra:
        (TARGET / name).unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
