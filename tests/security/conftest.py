"""What the tests of SECURITY.md share."""

from __future__ import annotations

import os

# Only root can become another user; .ci/run does so where it is root.
collect_ignore = [] if os.geteuid() == 0 else ["test_second_user.py"]
