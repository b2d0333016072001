"""What of a server's state and configuration endangers locks.

`Client.check` and ``interlock doctor``.

`collect` gathers facts, then `rules` judges them. The judgement is pure: every finding can be
produced without a server that is configured that badly. `rights` knows what a user must be
permitted, from the scripts themselves.
"""

from __future__ import annotations

from interlock.check.examine import examine
from interlock.check.report import Finding, Report, ServerReport, Severity
from interlock.check.requirements import Requirements

__all__ = [
    "Finding",
    "Report",
    "Requirements",
    "ServerReport",
    "Severity",
    "examine",
]
