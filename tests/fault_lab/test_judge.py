"""The checker of the fault lab finds what must not be, and nothing in a history that is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from faultlab import linear
from faultlab.failovers import Failovers
from faultlab.judge import Judge
from faultlab.meetings import Bounds
from faultlab.notifications import Notifications

if TYPE_CHECKING:
    from faultlab.history import Line


class Story:
    """Makes a history."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._number = 0

    def op(
        self, who: str, op: str, start: float, end: float, value: Any = None, **more: Any
    ) -> int:
        """Add an operation; return its number."""
        self._number += 1
        at = {"p": who, "n": self._number}
        more = {"o": "plain", "timeout": 5.0, "lease": None, **more}
        error = more.pop("error", None)
        self.lines.append({"t": start, "k": "call", "op": op, "w": "lane", **at, **more})
        came = {"value": value} if error is None else {"error": error, "text": "why"}
        self.lines.append({"t": end, "k": "ret", **at, **came})
        return self._number

    def hold(self, who: str, start: float, end: float, **more: Any) -> str:
        """Add an acquire, beliefs, and a release unless ``lost`` says how it ended."""
        token, lost, asked = (
            more.pop("token", None),
            more.pop("lost", None),
            more.pop("asked", start),
        )
        ident = f"{who}/{self.op(who, 'acquire', asked, start, True, **more)}"
        name, lease = more.get("o", "plain"), more.get("lease")
        held = {"k": "held", "p": who, "h": ident, "o": name, "w": "lane"}
        self.lines.append({"t": start, **held, "token": token, "lease": lease})
        self.lines += [{"t": t, "k": "belief", "p": who, "h": ident} for t in (start, end)]
        if lost is None:
            self.op(who, "release", end, end + 0.01, h=ident, **more)
        else:
            self.lines.append({"t": end, "k": "gone", "p": who, "h": ident, "told": lost})
            self.lines.append({"t": end + 9, "k": "end", "p": who})
            self.lines += [{"t": end, "k": "told", "p": who, "h": ident}] * lost
        return ident

    def fault(self, start: float, end: float, **more: Any) -> None:
        """Add a fault."""
        self.lines.append({"t": start, "k": "fault", "p": "lab", "end": end, "what": "?", **more})

    def rules(self, *, exact: bool = False) -> set[str]:
        """Return the rules that are broken."""
        found = Judge(sorted(self.lines, key=lambda line: line["t"]), exact=exact).judge()
        return {finding.partition(" ")[0] for finding in found}


def test_history_that_is_right_has_no_finding() -> None:
    """Holds that follow each other, and readers together, are as they should be."""
    story = Story()
    story.hold("a", 1, 2)
    story.hold("b", 2.02, 3, asked=1.5)
    story.hold("a", 5, 7, o="read")
    story.hold("b", 5, 7, o="read")

    assert story.rules() == set()


def test_two_holders_are_found() -> None:
    """Two owners who believe in one lock at the same time break L-1."""
    story = Story()
    story.hold("a", 1, 3)
    story.hold("b", 2, 2.5)

    assert "L-1" in story.rules()


def test_reader_beside_a_writer_is_found() -> None:
    """A reader and a writer at the same time break L-1."""
    story = Story()
    story.hold("a", 1, 3, o="read")
    story.hold("b", 2, 2.5, o="write")

    assert "L-1" in story.rules()


def test_server_that_forgets_ends_what_is_promised() -> None:
    """A fault that loses data excuses two holders, but not for longer than a renewal takes."""
    story = Story()
    story.hold("a", 1, 3.5)
    story.hold("b", 2.2, 2.5)
    story.fault(2, 2.1, loses=True)

    assert story.rules() == set()


def test_belief_that_outlasts_the_next_renewal_is_found() -> None:
    """An owner who believes for seconds in what another has breaks L-2."""
    story = Story()
    story.hold("a", 1, 9, o="forced")
    story.hold("b", 2, 2.5, o="forced")

    assert story.rules() == {"L-2"}


def test_loss_that_is_not_told_is_found() -> None:
    """A hold that is not valid any more, and whose event is not set, breaks L-2."""
    story = Story()
    story.hold("a", 1, 2, lost=False)

    assert {"L-2", "L-3"} == story.rules()


def test_loss_without_a_fault_is_found() -> None:
    """A renewed hold that ends without a fault breaks L-3; with a fault it does not."""
    story = Story()
    story.hold("a", 1, 2, lost=True)
    assert story.rules() == {"L-3"}
    story.fault(1.5, 1.6)

    assert story.rules() == set()


def test_waiter_before_a_free_lock_is_found() -> None:
    """Who waits for seconds while nobody can hold the lock breaks L-4."""
    story = Story()
    story.hold("a", 1, 2)
    story.op("b", "acquire", 1.5, 6.5, value=False)

    assert "L-4" in story.rules()


@pytest.mark.parametrize(("writer", "found"), [("b", False), ("c", True)])
def test_reader_may_wait_for_an_earlier_writer_of_its_client(writer: str, found: bool) -> None:
    """Beside a reader a reader need not wait, except for a writer of its own client."""
    story = Story()
    story.hold("a", 1, 7, o="read")
    story.op(writer, "acquire", 1.2, 6.2, value=False, o="write")
    story.op("b", "acquire", 1.5, 6.2, value=True, o="read")

    assert ("L-4" in story.rules()) is found


def test_messages_that_never_arrive_are_found() -> None:
    """Waiters who always come late break L-4, though each finds the lock by itself."""
    story = Story()
    for n in range(10):
        story.hold("a", 10 * n, 10 * n + 1)
        story.hold("b", 10 * n + 1.8, 10 * n + 2, asked=10 * n + 0.5)

    assert story.rules() == {"L-4"}


def test_token_that_does_not_grow_is_found() -> None:
    """A later hold with the same token breaks L-5."""
    story = Story()
    story.hold("a", 1, 2, o="fenced", token=7)
    story.hold("b", 3, 4, o="fenced", token=7)

    assert story.rules() == {"L-5"}


def test_waiter_who_is_overtaken_is_found() -> None:
    """A fair lock that serves who came later breaks L-6."""
    story = Story()
    story.hold("a", 0, 10, o="fair")
    story.hold("b", 12, 13, o="fair", asked=8, timeout=9.0)
    story.hold("c", 10.1, 11, o="fair", asked=9, timeout=9.0)

    assert "L-6" in story.rules()


def test_operation_that_takes_too_long_is_found() -> None:
    """An acquire that returns long after its timeout breaks L-7."""
    story = Story()
    story.op("a", "acquire", 1, 9, value=False, timeout=0.5)

    assert "L-7" in story.rules()


def test_error_of_no_use_is_found() -> None:
    """A TypeError breaks L-8, and so does an unreachable server without a fault."""
    story = Story()
    story.op("a", "acquire", 1, 1.1, error="TypeError")
    story.op("b", "acquire", 1, 1.1, error="ServerUnavailableError", timeout=2.0)

    assert story.rules() == {"L-8", "L-0"}


def test_wrong_depth_is_found() -> None:
    """A server that counts other entries than the owner made breaks L-9."""
    story = Story()
    ident = story.hold("a", 1, 2)
    story.op("a", "depth", 1.5, 1.6, value=3, h=ident, wants=2)

    assert story.rules() == {"L-9"}


def test_failed_operations_may_have_had_effects() -> None:
    """The history of a counter has something for each operation that did not come to a value."""
    story = Story()
    story.op("a", "take", 1, 2, error="ServerUnavailableError", o="permits")
    story.op("a", "put", 3, 4, error="ServerUnavailableError", o="permits")
    judge = Judge(story.lines, exact=False)
    seen: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "ask", lambda history: seen.append(history) or "ok")
        assert linear.Counter("permits", judge.calls, judge.excused).findings() == []

    assert [op["kind"] for op in seen[0]["ops"]] == ["borrow", "give-back", "maybe-put"]


def wait(story: Story, who: str, start: float, end: float, **more: Any) -> None:
    """Add a wait for the condition."""
    story.op(who, "cond-wait", start, end, o="condition", patience=5.0, **more)


def notify(story: Story, who: str, at: float, count: int = 1) -> None:
    """Add a notification of *count* waiters."""
    story.op(who, "cond-notify", at, at + 0.01, o="condition", count=count)


def notified(story: Story) -> list[str]:
    """Return what is wrong with the notifications."""
    judge = Judge(sorted(story.lines, key=lambda line: line["t"]), exact=False)
    bounds = Bounds(4.0, 3.5, 0.1)
    return list(Notifications(judge.calls, lambda *_: False, bounds).findings())


def test_notification_that_wakes_two_is_found() -> None:
    """Two waiters that go on after one notification break L-16; after `notify_all` they may."""
    story = Story()
    wait(story, "a", 1, 3.1, value=True)
    wait(story, "b", 2, 3.2, value=True)
    notify(story, "c", 3)
    assert [finding.partition(" ")[0] for finding in notified(story)] == ["L-16"]
    notify(story, "c", 3, -1)

    assert notified(story) == []


def test_notification_that_wakes_nobody_is_found() -> None:
    """A waiter that is not woken by a notification breaks L-16, unless another one was."""
    story = Story()
    wait(story, "a", 1, 6, value=False)
    notify(story, "c", 3)
    assert [finding.partition(" ")[0] for finding in notified(story)] == ["L-16"]
    wait(story, "b", 2, 3.1, value=True)

    assert notified(story) == []


def test_notification_of_an_interrupted_waiter_goes_on() -> None:
    """A waiter that came after a notification may have it from one that was interrupted."""
    story = Story()
    wait(story, "a", 1, 5, error="CancelledError")
    notify(story, "c", 3)
    wait(story, "b", 4, 5.1, value=True)

    assert notified(story) == []


def test_wait_that_ends_without_the_lock_is_found() -> None:
    """A wait for a condition that ends without the lock breaks L-16."""
    story = Story()
    wait(story, "a", 1, 2, value=True)
    line = {"k": "waited", "p": "a", "w": "lane", "held": False, "error": None}
    story.lines.append({"t": 2.0, **line})

    assert "L-16" in story.rules()


def test_failover_is_told_by_other_primaries() -> None:
    """Data may be lost from the last look with one set of primaries to the first with another."""
    failovers = Failovers()
    one, other = frozenset({"one"}), frozenset({"other"})

    assert failovers.look(1.0, 1.1, one) is None
    assert failovers.look(2.0, 2.1, None) is None
    assert failovers.look(3.0, 3.1, other) == (1.0, 3.1)
    assert failovers.look(4.0, 4.1, other) is None


def test_primary_that_stood_still_is_no_failover() -> None:
    """Nothing may be lost where the primary is the same when all servers answer again."""
    failovers = Failovers()
    same = frozenset({"one"})
    looks = [(1.0, same), (2.0, None), (5.0, same)]

    assert [failovers.look(at, at + 0.1, roles) for at, roles in looks] == [None] * 3
    assert failovers.end(5.5) is None
    assert failovers.end(9.0) == (5.0, 9.0)


def test_two_holders_after_a_failover_are_found() -> None:
    """A failover excuses two holders, but not of a lock that is asked for when it is over."""
    story = Story()
    story.hold("a", 1, 4.0)
    story.hold("b", 2.5, 4.0)
    story.fault(2, 9, loses=True, over=3.0)
    assert story.rules() == set()
    story.hold("c", 3.2, 4.0)
    story.hold("d", 3.5, 4.0)

    assert "L-1" in story.rules()


def test_hold_that_is_believed_long_after_a_failover_is_found() -> None:
    """A hold that a failover lost is noticed within a renewal, or L-2 is broken."""
    story = Story()
    story.hold("a", 1, 6.0, o="fair")
    story.hold("b", 3.5, 6.0, o="fair")
    story.fault(2, 6, loses=True, over=3.0)
    assert story.rules() == set()
    story.hold("c", 1, 7.5, o="spin")
    story.hold("d", 3.5, 7.5, o="spin")

    assert story.rules() == {"L-2"}
