"""Write the sync face from the asyncio face, or with --check tell whether it is up to date.

The asyncio face holds no logic, so a handful of words is all that differs between the two.
"""

from __future__ import annotations

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
    fix = ("check", "--fix", "--select", "I,F401", "--quiet", "--exit-zero")
    for words in (fix, ("format",)):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", target, "-"]
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def main() -> int:
    """Write or check every file; return the exit status."""
    check = "--check" in sys.argv[1:]
    stale = []
    wanted = {path.name for path in SOURCE.glob("*.py")}
    for path, target in targets().items():
        text = sync_text(path)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                target.write_text(text, encoding="utf-8")
    extra = sorted({path.name for path in TARGET.glob("*.py")} - wanted)
    if check and (stale or extra):
        print(f"not up to date: {', '.join(stale + extra)}; run python tools/make_sync.py")
        return 1
    for name in extra:
        (TARGET / name).unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
