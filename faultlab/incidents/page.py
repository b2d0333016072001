"""The table of the page "On call": what each witness says in each incident, and after how long."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from faultlab.incidents.table import INCIDENTS, NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from faultlab.incidents.table import Incident

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "on-call.md"
BEGIN, END = "<!-- incidents: begin -->", "<!-- incidents: end -->"
TIMES = Path(__file__).with_name("times.json")
"""Incident -> seconds until all witnesses had told the truth, in the last whole run."""
COLUMNS = ("log", "why", "list", "console", "alerts", "doctor")
_HEAD = (
    *("incident", "log of the program", "`why`", "`list`"),
    *("console", "alerts", "`doctor`", "told after"),
)


def rows(times: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| {' | '.join(_HEAD)} |"
    yield f"|{'---|' * len(_HEAD)}"
    for incident in INCIDENTS:
        after = times.get(incident.name)
        cells = [incident.name, *(_cell(incident, who) for who in COLUMNS)]
        cells.append("not played" if after is None else f"{after:.1f} s" if after else "at once")
        yield f"| {' | '.join(cells)} |"


def _cell(incident: Incident, who: str) -> str:
    """Return in a few words what a witness says."""
    if who == "alerts":
        return ", ".join(f"`{each}`" for each in sorted(incident.alerts)) or "none"
    said = [_words(each, who) for each in incident.says.get(who, ())]
    return "; ".join(said) or ("" if who == "doctor" else "nothing")


def _words(pattern: str, who: str) -> str:
    """Return a regular expression as somebody would say it."""
    if pattern == NONE:
        return "no lock"
    if who == "log":
        events = re.findall(r"[a-z_]+\.[a-z_]+", pattern)
        return ", ".join(f"`{each}`" for each in events[:1])
    text = pattern.split("|", maxsplit=1)[0].removeprefix("^").replace("\\", "")
    return re.sub(r"\s*\.\*\s*", " … ", text).strip(" …:")


def record(times: Mapping[str, float]) -> None:
    """Keep *times*, and write the table to the page."""
    TIMES.write_text(json.dumps(dict(times), indent=2) + "\n")
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    table = "\n".join(rows(times))
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")
