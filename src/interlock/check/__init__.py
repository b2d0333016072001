"""What of a server's state and configuration endangers locks.

`Client.check` and ``interlock doctor``. `facts` asks a server, `rules` judges what it said, and
`requirements` says what its user must be permitted.
"""

from __future__ import annotations

from interlock.check.examine import examine
from interlock.check.report import Finding, Report, ServerReport, Severity
from interlock.check.requirements import Requirements

__all__ = ["Finding", "Report", "Requirements", "ServerReport", "Severity", "examine"]
