"""The order of waiting: who is next, who is passed over, and who delays nobody."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.objects.common import (
    FAR,
    PROMPT,
    cancelling,
    each_face,
    joins,
    kept,
    one_or_several,
    outcome,
)
from tests.objects.queues import QUEUES
from tests.objects.stage import NAME
from tests.objects.worlds import CancelledHereError
from tests.support.patience import wait_until

from interlock import ClosedError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.objects.queues import Queue
    from tests.objects.stage import Stage
    from tests.objects.worlds import Actor

every = pytest.mark.parametrize("queue", QUEUES, ids=lambda each: each.name)
strict = pytest.mark.parametrize(
    "queue",
    [queue for queue in QUEUES if queue.name in {"fair", "leased", "limited"}],
    ids=lambda each: each.name,
)
"""Those whose waiters are not even overtaken by single tries."""
in_one_name = pytest.mark.parametrize(
    "queue", [queue for queue in QUEUES if queue.name != "fair"], ids=lambda each: each.name
)
"""Those whose clients stand in the queue once, not once for each waiter."""
ONE_TURN = 4
"""How many commands a turn may cost: a release, and what the next one asks, and one look."""


class Line:
    """An object that somebody has, and those who wait for it, each in the order of joining."""

    def __init__(self, scene: Stage, queue: Queue) -> None:
        """Let the first one have it."""
        self.scene, self.queue = scene, queue
        self.clients: list[Any] = []
        self.actors: list[Actor] = []
        self.made: list[Any] = []
        self.turns: list[Future[Any]] = []
        self._add()
        self.turns.append(self.actors[0].start(queue.take, self.made[0]))
        assert self.turns[0].result(PROMPT)

    def _add(self, client: Any = None, poll_cap: float = FAR) -> None:
        self.clients.append(client or self.scene.client(poll_cap=poll_cap))
        self.actors.append(self.scene.actor())
        self.made.append(self.queue.make(self.clients[-1], NAME))

    def join(self, client: Any = None, *, timeout: float = 60, poll_cap: float = FAR) -> None:
        """Let another one wait, of a client of its own or of *client*."""
        others = client in self.clients[1:]
        self._add(client, poll_cap)
        take, made = self.queue.take, self.made[-1]
        self.turns.append(joins(self.scene, self.actors[-1], take, made, timeout, asks=not others))

    def give(self, who: int) -> None:
        """Let *who* give it to the next one."""
        self.actors[who].do(self.queue.give, self.made[who], self.turns[who].result(0))

    def passes(self, *who: int, within: float = PROMPT) -> None:
        """Check that those have it one after another, and nobody before its turn."""
        for number, each in enumerate(who):
            assert self.turns[each].result(within)
            assert not any(self.turns[after].done() for after in who[number + 1 :])
            self.give(each)


@pytest.mark.promise("turns")
@pytest.mark.sample
@one_or_several
@every
def test_turns_are_in_order_of_arrival(scene: Stage, queue: Queue, *, same_client: bool) -> None:
    """Waiters of one client or of several have their turns in the order in which they came."""
    line = Line(scene, queue)
    client = scene.client(poll_cap=FAR) if same_client else None
    for _ in range(4):
        line.join(client)
    line.give(0)
    line.passes(1, 2, 3, 4)


@every
def test_one_release_wakes_one(scene: Stage, queue: Queue) -> None:
    """A release tells the next one, and costs as little however many wait."""
    line = Line(scene, queue)
    for _ in range(5):
        line.join()
    before = scene.place.asked()
    line.give(0)
    assert line.turns[1].result(PROMPT)
    scene.place.rests(NAME)
    assert scene.place.asked() - before <= ONE_TURN
    assert not any(turn.done() for turn in line.turns[2:])
    line.passes(1, 2, 3, 4, 5)


@in_one_name
def test_who_stands_behind_others_of_its_client_asks_nothing(scene: Stage, queue: Queue) -> None:
    """Only the first waiter of a client asks and looks, however many stand behind it."""
    line, client = Line(scene, queue), scene.client(poll_cap=FAR)
    line.join(client)
    time.sleep(0.3)  # the first one looks once, soon, in case its subscription failed
    before = scene.place.asked()
    for _ in range(5):
        line.join(client)
    time.sleep(0.3)  # and so would the others, if they looked at all
    assert scene.place.asked() - before < 5
    line.give(0)
    line.passes(1, 2, 3, 4, 5, 6)


@strict
def test_a_newcomer_does_not_overtake(scene: Stage, queue: Queue) -> None:
    """Who comes when it is given to another one does not get it, although it asks at once."""
    line = Line(scene, queue)
    line.join()
    line.join()
    newcomer, made = scene.actor(), queue.make(scene.client(poll_cap=FAR), NAME)
    for who in (0, 1):
        line.give(who)
        late = newcomer.start(queue.take, made, 0)
        assert outcome(late) is None, "a try got it"
        assert line.turns[who + 1].result(PROMPT)
    line.give(2)
    got = newcomer.do(queue.take, made)
    newcomer.do(queue.give, made, got)


@cancelling
@pytest.mark.parametrize("leaving", [(1,), (2,), (1, 2, 3)], ids=["first", "second", "all"])
@every
def test_who_is_cancelled_is_passed_over(
    scene: Stage, queue: Queue, leaving: tuple[int, ...]
) -> None:
    """A cancelled waiter leaves the others where they are, wherever it stood, and no key."""
    line = Line(scene, queue)
    line.give(0)
    before = kept(scene)
    line.turns[0] = line.actors[0].start(queue.take, line.made[0])
    assert line.turns[0].result(PROMPT)
    held = kept(scene)
    for _ in range(3):
        line.join()
    for each in leaving:
        line.actors[each].cancel()
        with pytest.raises(CancelledHereError):
            line.turns[each].result(PROMPT)
    if len(leaving) == 3:
        wait_until(lambda: kept(scene) <= held, 5, "nobody stands in the queue")
    line.give(0)
    line.passes(*({1, 2, 3} - {*leaving}))
    wait_until(lambda: kept(scene) <= before, 5, "nothing is left of the queue")


@cancelling
@every
def test_who_is_cancelled_in_its_turn_passes_it_on(scene: Stage, queue: Queue) -> None:
    """Whether its turn or the cancellation comes first, the next one goes on."""
    for number in range(4):
        line = Line(scene, queue)
        line.join()
        line.join()
        given = line.actors[0].start(queue.give, line.made[0], line.turns[0].result())
        time.sleep(0.001 * number)  # the moments that are tried
        line.actors[1].cancel()
        given.result(PROMPT)
        try:
            line.turns[1].result(PROMPT)
        except CancelledHereError:
            pass
        else:
            line.give(1)
        line.passes(2)


@one_or_several
@every
def test_whose_time_is_up_is_passed_over(scene: Stage, queue: Queue, *, same_client: bool) -> None:
    """A wait in vain leaves nothing: those behind it have their turns, and no key stays."""
    line = Line(scene, queue)
    line.give(0)
    before = kept(scene)
    line.turns[0] = line.actors[0].start(queue.take, line.made[0])
    assert line.turns[0].result(PROMPT)
    client = scene.client(poll_cap=FAR) if same_client else None
    line.join(client, timeout=1.5)
    line.join(client, timeout=60)
    assert outcome(line.turns[1]) is None
    line.give(0)
    line.passes(2)
    wait_until(lambda: kept(scene) <= before, 5, "nothing is left of the queue")


@every
def test_whose_client_is_closed_is_passed_over(scene: Stage, queue: Queue) -> None:
    """Closing ends a wait with ClosedError, and the next one has the turn at once."""
    line = Line(scene, queue)
    for _ in range(3):
        line.join()
    scene.close(line.clients[1])
    with pytest.raises(ClosedError):
        line.turns[1].result(PROMPT)
    line.give(0)
    line.passes(2, 3)


@pytest.mark.sample
@each_face
@every
def test_a_dead_process_delays_nobody(scene: Stage, queue: Queue) -> None:
    """Those behind a process that was killed while it waited have their turns at once."""
    line = Line(scene, queue)
    with _waiting_process(scene, queue) as child:
        line.join()
        child.kill()
        line.give(0)
        line.passes(1)


@each_face
@every
def test_a_frozen_process_delays_for_a_poll_cap(scene: Stage, queue: Queue) -> None:
    """Those behind a process that does not take its turn go on within their poll cap."""
    line = Line(scene, queue)
    with _waiting_process(scene, queue) as child:
        line.join(poll_cap=2)
        child.signal(signal.SIGSTOP)
        line.give(0)
        line.passes(1, within=2 + PROMPT)


def _waiting_process(scene: Stage, queue: Queue) -> Child:
    """Return another process that waits."""
    before = scene.place.asked()
    code = f"""
        client = interlock.connect(url, poll_cap=600)
        {queue.code}
    """
    child = Child(code, scene.place.urls[0])
    wait_until(lambda: scene.place.asked() > before, 30, "the process asks")
    scene.place.rests(NAME)
    return child
