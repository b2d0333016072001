"""Play incidents; ask every witness again and again until it says what is so; print the table."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from faultlab.incidents import page
from faultlab.incidents.table import INCIDENTS, Incident

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from faultlab.incidents.stage import Stage

GIVE_UP = 60.0
"""Seconds in which all witnesses must say what is so."""
AFTER = 3.0
"""Seconds after that, in which nobody may say what is not so."""
PAUSE = 0.2
"""Seconds between two questions."""
COLUMNS = ("log", "why", "list", "console", "metrics", "alerts", "doctor")


@dataclass
class Outcome:
    """How an incident went.

    Attributes:
        incident: which one.
        after: the seconds until each witness has said what is so, as far as it has.
        texts: what each of them said last.
        lies: what was said that is not so.
    """

    incident: Incident
    after: dict[str, float] = field(default_factory=dict[str, float])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    lies: list[str] = field(default_factory=list[str])

    @property
    def missing(self) -> list[str]:
        """Return the witnesses that have not said what is so."""
        return [each for each in _wanted(self.incident) if each not in self.after]

    @property
    def is_true(self) -> bool:
        """Return whether everything that is so was said, and nothing else."""
        return not self.missing and not self.lies


def _wanted(incident: Incident) -> Mapping[str, tuple[str, ...]]:
    """Return what each witness must say; all alerts are one witness."""
    alerts = {"alerts": tuple(rf"\b{each}\b" for each in sorted(incident.alerts))}
    return {**incident.says, **(alerts if incident.alerts else {})}


def play(incident: Incident) -> Outcome:
    """Play *incident* on a stage of its own."""
    with incident.play() as stage:
        return _watch(incident, stage)


def _watch(incident: Incident, stage: Stage) -> Outcome:
    began, outcome = time.monotonic(), Outcome(incident)
    wanted = _wanted(incident)
    # All at once: some tell for a short time only what is so then, and others take long.
    with ThreadPoolExecutor(len(wanted)) as pool:
        asked = [
            pool.submit(_ask, outcome, who, stage.witnesses[who], expected, began)
            for who, expected in wanted.items()
        ]
        for each in asked:
            each.result()
    time.sleep(AFTER)
    outcome.lies = list(_lies(incident, stage.witnesses, outcome.texts))
    return outcome


def _ask(
    outcome: Outcome, who: str, ask: Callable[[], str], expected: Sequence[str], began: float
) -> None:
    """Ask a witness until it has said all that is *expected*, or until `GIVE_UP`."""
    heard = set[str]()
    while time.monotonic() < began + GIVE_UP:
        text = outcome.texts[who] = ask()
        heard |= {each for each in expected if re.search(each, text, re.MULTILINE)}
        if len(heard) == len(expected):
            outcome.after[who] = time.monotonic() - began
            return
        time.sleep(PAUSE)


def _lies(
    incident: Incident, witnesses: Mapping[str, Callable[[], str]], texts: dict[str, str]
) -> list[str]:
    """Return what witnesses say that is not so."""
    lies = list[str]()
    for who, never in incident.never.items():
        text = witnesses[who]()
        lies += [f"{who}: {each}" for each in never if re.search(each, text, re.MULTILINE)]
    texts["alerts"] = witnesses["alerts"]()
    fired = frozenset(texts["alerts"].split())
    lies += [f"alert {each}" for each in sorted(fired - incident.alerts - incident.allowed)]
    return lies


def main(words: Sequence[str] = (), *, verbose: bool = False, record: bool = False) -> int:
    """Play the incidents whose names have one of *words*, or all; print the table.

    Args:
        words: of names; none for all incidents.
        verbose: whether to print what each witness has said.
        record: whether to write the table of the page "On call".

    Return 1 if something was not told or was not so, or if none has such a name.
    """
    times = dict[str, float]()
    print(f"| incident | {' | '.join(COLUMNS)} | is it true |")
    print(f"|---|{'---|' * len(COLUMNS)}---|", flush=True)
    failed = played = 0
    for incident in INCIDENTS:
        if words and not any(word in incident.name for word in words):
            continue
        outcome = play(incident)
        played += 1
        failed += not outcome.is_true
        times[incident.name] = round(max(outcome.after.values(), default=0.0), 1)
        print(_row(outcome), flush=True)
        if verbose or not outcome.is_true:
            for who, text in outcome.texts.items():
                print(f"<!-- {who}: {_known(text)} -->", flush=True)
    if record and not failed:
        page.record(times)
    return 1 if failed or not played else 0


def _known(text: str) -> str:
    """Return *text* without the metrics that are zero."""
    return "\n".join(line for line in text.splitlines() if not line.endswith(" 0.0"))


def _row(outcome: Outcome) -> str:
    """Return the row of one incident: what was told after how many seconds."""
    cells = [outcome.incident.name]
    for who in COLUMNS:
        if who in outcome.missing:
            cells.append("NOT TOLD")
        elif who in outcome.after:
            cells.append(f"{outcome.after[who]:.1f} s")
        else:
            cells.append("nothing")
    cells.append("yes" if outcome.is_true else f"NO {'; '.join(outcome.lies)}")
    return f"| {' | '.join(cells)} |"
