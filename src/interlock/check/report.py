"""What a check found."""

from __future__ import annotations

import enum
import platform
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from interlock._core.model.foreign_text import safe
from interlock._links.resp import PARSER

if TYPE_CHECKING:
    from interlock.check.requirements import Requirements


class Severity(enum.IntEnum):
    """How bad a finding is; they can be compared."""

    OK = 0
    NOTE = 1
    """Worth knowing, or could not be found out."""
    WARNING = 2
    """Locks work, and something may go wrong with them."""
    ERROR = 3
    """Locks do not work, or will be lost."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was looked at, one word that stays the same between versions.
        severity: how bad it is.
        found: what was found.
        advice: what to do; empty where nothing is to be done.
    """

    check: str
    severity: Severity
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What was found on one server.

    Attributes:
        where: its address.
        reached: whether it could be asked.
        findings: in the order of asking.
    """

    where: str
    reached: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found on all servers of a client.

    Attributes:
        servers: one entry for each.
        requirements: what was asked about, with what these servers need for it.
    """

    servers: tuple[ServerReport, ...]
    requirements: Requirements

    @property
    def program(self) -> str:
        """Return which Python asked, and what parses replies there."""
        lock = getattr(sys, "_is_gil_enabled", lambda: True)()
        return (
            f"{platform.python_implementation()} {platform.python_version()} "
            f"{'with' if lock else 'without'} the GIL; replies are parsed in {PARSER}"
        )

    @property
    def acl(self) -> str:
        """Return the line of an ACL file for a user that may do just what was asked about."""
        return self.requirements.acl_line()

    @property
    def tenant(self) -> str:
        """Return the line for a user that may do everything with the keys of its prefix.

        It is empty without a prefix.
        """
        return self.requirements.tenant_line()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return those of all servers."""
        return tuple(finding for server in self.servers for finding in server.findings)

    @property
    def worst(self) -> Severity:
        """Return the severity of the worst finding."""
        return max((finding.severity for finding in self.findings), default=Severity.OK)

    @property
    def reached(self) -> bool:
        """Return whether every server could be asked."""
        return all(server.reached for server in self.servers)

    def as_dict(self) -> dict[str, object]:
        """Return the same as what JSON can carry."""
        servers = [asdict(server) for server in self.servers]
        for finding in (finding for server in servers for finding in server["findings"]):
            finding["severity"] = str(finding["severity"])
        return {
            "worst": str(self.worst),
            "program": self.program,
            "servers": servers,
            "acl": self.acl,
            "tenant": self.tenant,
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for server in self.servers:
            lines.append(safe(server.where))
            for finding in server.findings:
                found, advice = safe(finding.found), safe(finding.advice)
                lines.append(f"  {finding.severity!s:8} {finding.check:12} {found}")
                if advice:
                    lines.append(f"  {'':8} {'':12} -> {advice}")
        return "\n".join(lines)
