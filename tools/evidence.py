"""Write docs/explanation/evidence.md: each promise, what shows it, and the last result.

``run`` runs every proof, or those that are named. It notes each result in tools/evidence.json, and
writes the page. ``write`` writes the page from what is noted. ``check`` fails if the page is not
what would be written.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "tools" / "evidence.json"
PAGE = ROOT / "docs" / "explanation" / "evidence.md"
LONGEST = 100
"""Characters of a result at most."""
WIDTH = 100
"""Characters of a line at most."""
PYTEST = "python -m pytest -n 2 -q"


@dataclass(frozen=True, slots=True)
class Proof:
    """A run that shows something.

    Attributes:
        kind: of run.
        shows: what it shows, in words.
        command: how to repeat it, in a checkout.
    """

    kind: str
    shows: str
    command: str


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise.

    Attributes:
        text: what is promised.
        limit: what is not.
        proofs: the names of what shows it.
    """

    text: str
    limit: str
    proofs: tuple[str, ...]


def _tests(shows: str, *paths: str, kind: str = "tests") -> Proof:
    return Proof(kind, shows, f"{PYTEST} {' '.join(f'tests/{path}' for path in paths)}")


PROOFS: Mapping[str, Proof] = {
    "model": Proof(
        "model",
        "all runs of the waiting room with one fault, and a mutant for each rule that must fail",
        "python tools/check_model.py --faults 1",
    ),
    "seeds": Proof(
        "seeds",
        "random programs under random faults in virtual time, with every kind of lock",
        "python -m tests.support.simulator --seeds 200 --kind all --jobs 2",
    ),
    "seeds-replicas": Proof(
        "seeds",
        "the same with replicas that lag",
        "python -m tests.support.simulator --seeds 100 --replicated --jobs 2",
    ),
    "fault-lab": Proof(
        "fault lab",
        "real processes and servers are killed, stopped, cut off and restarted for a minute",
        "python -m faultlab short",
    ),
    "mutants": _tests(
        "deliberate mistakes in the core, each of which a test must find", "core/test_mutations.py"
    ),
    "cpython": _tests(
        "CPython's own tests of threading, run on ours", "cpython", kind="foreign suite"
    ),
    "redis-py": _tests(
        "redis-py's own tests of its lock, run on ours",
        "hosts/test_redis_py_own.py",
        kind="foreign suite",
    ),
    "java": _tests(
        "Redisson and interlock exclude and wake each other",
        "interop/test_interop_locks.py",
        kind="tests with Java",
    ),
    "conformance": _tests(
        "the recorded wire of Redisson 4.7.0, played by Redisson and by both faces of ours",
        "cli/test_conformance.py",
        "interop/test_interop_conformance.py",
        kind="tests with Java",
    ),
    "kills": _tests("a killed process, at each step", "faults/test_fault_kills.py"),
    "told": _tests(
        "each way to lose a lock, and who is told",
        "lock/test_lock_holds.py",
        "faults/test_fault_restart.py",
    ),
    "renewal": _tests("renewal through failures", "faults/test_fault_renewal.py"),
    "outage": _tests("outages and restarts", "faults/test_fault_outage.py"),
    "close": _tests("each way in which a client ends", "lock/test_lock_close.py"),
    "sweep": _tests(
        "every operation, interrupted at every effect, before and after the server acted",
        "core/test_interruption_sweep.py",
    ),
    "replies": _tests(
        "lost replies and late copies on the wire",
        "faults/test_fault_replies.py",
        "faults/test_fault_late_copies.py",
        "faults/test_fault_late_grants.py",
    ),
    "messages": _tests("lost messages", "faults/test_fault_messages.py"),
    "fair": _tests(
        "arrival order across threads, processes and Java",
        "fair/test_fair_order.py",
        "fair/test_fair_redisson.py",
    ),
    "replicas": _tests("failovers with and without `replicas=`", "replicas"),
    "fencing": _tests(
        "a paused holder, and resources that check tokens",
        "fencing",
        "hosts/test_fencing_examples.py",
    ),
    "security": _tests("hostile servers, names and users", "security"),
}

PROMISES = (
    Promise(
        "At most one holder believes that it holds a lock, across threads, tasks, processes and "
        "machines, and Java.",
        "A lease cannot stop a program that is paused for longer than the lease and then goes on. "
        "It must ask `hold.valid`, or use a fencing token.",
        ("seeds", "fault-lab", "model", "cpython", "redis-py", "java", "mutants"),
    ),
    Promise(
        "A holder that dies frees the lock within one lease.",
        "Clocks that run at rates more than 0.1 % apart, and a server whose clock is stepped.",
        ("kills", "seeds", "fault-lab"),
    ),
    Promise(
        "A holder whose lock is lost is told.",
        "A blocked program must look for itself. It is told at the latest when its lease may have "
        "ended.",
        ("told", "renewal", "fault-lab"),
    ),
    Promise(
        "A client releases what it holds when it is closed or dropped, or when its process exits.",
        "After `os._exit` or a kill, each hold ends with its lease.",
        ("close",),
    ),
    Promise(
        "A lost or repeated reply never counts twice. An interrupted acquire leaves nothing "
        "behind.",
        "A request that the network delays for longer than a lease may keep a lock for a lease.",
        ("sweep", "replies", "seeds"),
    ),
    Promise(
        "A waiter gets a released lock after one message, or within `poll_cap` if messages are "
        "lost.",
        "A process that does not take its turn within 250 ms may delay the others by a poll cap.",
        ("messages", "model", "fault-lab"),
    ),
    Promise(
        "Plain, fenced and write locks go from process to process in turn. A fair lock serves in "
        "the order of arrival.",
        "Other locks have no order between processes.",
        ("model", "fair"),
    ),
    Promise(
        "Renewal survives outages that are shorter than what is left of the lease.",
        "After a longer outage the lock is lost.",
        ("outage", "renewal"),
    ),
    Promise(
        "Fencing tokens only grow. A resource that checks them is never written by an old holder.",
        "Without a token, a failover to a replica that has not seen the lock can grant it twice. "
        "`replicas=` narrows that and cannot close it.",
        ("fencing", "replicas", "seeds-replicas"),
    ),
    Promise(
        "Redisson's clients and ours share one wire.",
        "Differences on purpose are on a page of their own.",
        ("conformance", "java"),
    ),
    Promise(
        "A hostile server, name or user causes errors of ours, and nothing worse.",
        "A user who may write the keys of a lock can take it.",
        ("security",),
    ),
)


def run(names: Iterable[str]) -> bool:
    """Run the proofs called *names*, and note each result; return whether all passed."""
    passed = True
    for name in names:
        proof = PROOFS[name]
        print(f"{name}: {proof.command}", flush=True)
        began = time.monotonic()
        words = shlex.split(proof.command)
        words[0] = sys.executable
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        found = {
            "command": proof.command,
            "commit": _git("rev-parse", "--short", "HEAD"),
            "date": datetime.now(UTC).date().isoformat(),
            "passed": done.returncode == 0,
            "seconds": round(time.monotonic() - began),
            "result": last_line(done.stdout or done.stderr),
        }
        print(f"  {'passed' if found['passed'] else 'FAILED'}: {found['result']}", flush=True)
        if not found["passed"]:
            print(done.stdout, done.stderr, sep="\n")
        passed = passed and bool(found["passed"])
        RECORDS.write_text(json.dumps(records() | {name: found}, indent=2, sort_keys=True) + "\n")
    return passed


def records() -> dict[str, dict[str, Any]]:
    """Return what was noted of each proof."""
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else {}


def last_line(text: str) -> str:
    """Return the last line of *text* that says something, for a table."""
    lines = [line.strip(" =|") for line in text.splitlines() if line.strip(" =|")]
    return (lines or [""])[-1].replace("|", "/")[:LONGEST]


def page(noted: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page, with the results that are *noted*."""
    lines = [_HEAD]
    for number, promise in enumerate(PROMISES, 1):
        lines += [f"## Promise {number}", "", *_wrapped(f"**Promised:** {promise.text}"), ""]
        lines += [*_wrapped(f"**Not promised:** {promise.limit}"), ""]
        for name in promise.proofs:
            proof = PROOFS[name]
            lines += _wrapped(f"* [{proof.kind}](#{name}): {proof.shows}", "  ")
        lines.append("")
    lines += [
        "## The runs",
        "",
        "Run each command in a checkout, as CONTRIBUTING.md sets it up.",
        "",
    ]
    for name, proof in PROOFS.items():
        lines += [f"### {name}", "", *_wrapped(f"{proof.shows[:1].upper()}{proof.shows[1:]}."), ""]
        lines += ["```console", *_continued(f"$ {proof.command}")]
        found = noted.get(name, {})
        lines += [str(found["result"])] if found else []
        lines += ["```", "", _told(found), ""]
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _continued(command: str) -> list[str]:
    """Return the lines of *command*, as a shell takes them."""
    lines = textwrap.wrap(
        command, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _told(found: Mapping[str, Any]) -> str:
    if not found:
        return "**Not run yet.**"
    state = "Passed" if found["passed"] else "**Failed**"
    return f"{state} on {found['date']} at commit `{found['commit']}`, in {found['seconds']} s."


_HEAD = """\
# Evidence: what is promised, and what shows it

It is easy to claim that a lock is safe, and hard to check. This page has each promise, and what is
*not* promised. Next to it are the runs that show it, with their last results. You can repeat each
of them by its command. `python tools/evidence.py` has written the page from its own records of
these runs.

None of this is a proof in the strict sense. The model is checked for a few clients and faults.
Random runs find mistakes, and do not show that there are none.

The promises hold **provided** that

* the Redis primary does not lose acknowledged writes,
* clocks run at the same rate within 0.1 %, and the server's clock is not stepped,
* a program stops when it is told of a loss.
"""


def problems(text: str, noted: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return why the page *text* does not fit the proofs and what is *noted*."""
    found = [] if text == page(noted) else ["the page is not up to date: tools/evidence.py write"]
    for name, proof in PROOFS.items():
        if name not in noted:
            found.append(f"{name} was never run: tools/evidence.py run {name}")
        elif noted[name]["command"] != proof.command:
            found.append(f"{name} has another command now: tools/evidence.py run {name}")
        elif not noted[name]["passed"]:
            found.append(f"{name} has failed")
    found += [f"{name} is no proof any more" for name in noted if name not in PROOFS]
    shown = {name for promise in PROMISES for name in promise.proofs}
    found += [f"no promise needs {name}" for name in PROOFS if name not in shown]
    return found


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main(words: list[str] | None = None) -> int:
    """Do what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description="Show what the promises rest on.")
    parser.add_argument("do", choices=["run", "write", "check"])
    parser.add_argument("names", nargs="*", choices=[[], *PROOFS], metavar="NAME")
    given = parser.parse_args(words)
    passed = given.do != "run" or run(given.names or PROOFS)
    if given.do == "check":
        found = problems(PAGE.read_text() if PAGE.exists() else "", records())
        print("\n".join(found or ["the page of evidence is up to date"]))
        return int(bool(found))
    PAGE.write_text(page(records()))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
