"""Each fault of an effect in the simulator, by name, and the time-outs of simulated clients."""

from __future__ import annotations

from typing import Any

from tests.support.simulator.schedule import (
    delay_reply,
    delay_request,
    drop_reply,
    drop_request,
    duplicate,
    fail,
    interrupt,
)

OPTIONS: dict[str, Any] = {"command_timeout": 1.0, "outage_timeout": 4.0, "lease": 6.0}
LATE = 1.5
"""Seconds: longer than a client waits for a reply, so that it has sent the next copy by then."""
FAULTS = {
    "interrupted-before": interrupt("before"),
    "interrupted-after": interrupt("after"),
    "interrupted-late": interrupt("late", seconds=0.5),
    "request-lost": drop_request(),
    "reply-lost": drop_reply(),
    "reply-lost-slowly": drop_reply(LATE),
    "twice": duplicate(),
    "request-late": delay_request(LATE),
    "reply-late": delay_reply(LATE),
    "refused": fail(sent=False),
    "failed-after-sending": fail(sent=True),
}
