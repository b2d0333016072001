"""The order of waiting: who is next, who is passed over, and who delays nobody."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from tests.objects.acts import (
    PROMPT,
    cancelling,
    each_face,
    joins,
    kept,
    one_or_several,
    outcome,
    played,
)
from tests.objects.queues import QUEUES, Queue
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import Actor, CancelledHereError
from tests.support.child import Child
from tests.support.patience import wait_until

from interlock import ClosedError


def of_queues(wanted: Callable[[str], bool]) -> pytest.MarkDecorator:
    chosen = [queue for queue in QUEUES if wanted(queue.name)]
    return pytest.mark.parametrize("queue", chosen, ids=lambda each: each.name)


every = of_queues(lambda name: True)
in_order = of_queues(lambda name: name != "plain")
"""Those of which a release wakes one. Of a plain semaphore, all clients may ask."""
strict = of_queues(lambda name: name in {"fair", "leased", "limited"})
"""Those whose waiters are not even overtaken by single tries."""
in_one_name = of_queues(lambda name: name == "plain")
"""Those whose clients stand in the queue once, not once for each waiter."""
ONE_TURN = 4
"""How many commands a turn may cost: a release, and what the next one asks, and one look."""


class Line:
    """An object that somebody has, and those who wait for it, each in the order of joining."""

    def __init__(self, scene: Stage, queue: Queue, client: Any = None) -> None:
        """Let the first one have it, of a client of its own or of *client*."""
        self.scene, self.queue = scene, queue
        self.clients: list[Any] = []
        self.actors: list[Actor] = []
        self.made: list[Any] = []
        self.turns: list[Future[Any]] = []
        self._add(client)
        self.turns.append(self.actors[0].start(queue.take, self.made[0]))
        assert self.turns[0].result(PROMPT)

    def _add(self, client: Any = None) -> None:
        self.clients.append(client or self.scene.client())
        self.actors.append(self.scene.actor())
        self.made.append(self.queue.make(self.clients[-1], NAME))

    def join(self, client: Any = None, *, timeout: float = 60) -> None:
        """Let another one wait, of a client of its own or of *client*."""
        others = client in self.clients[1:]
        self._add(client)
        take, made = self.queue.take, self.made[-1]
        more = {"asks": not others, "stays": timeout == 60}
        self.turns.append(joins(self.scene, self.actors[-1], take, made, timeout, **more))

    def give(self, who: int) -> None:
        self.actors[who].do(self.queue.give, self.made[who], self.turns[who].result(0))

    def passes(self, *who: int, within: float = PROMPT) -> None:
        for number, each in enumerate(who):
            assert self.turns[each].result(within)
            assert not any(self.turns[after].done() for after in who[number + 1 :])
            self.give(each)


@pytest.mark.promise("turns")
@pytest.mark.sample
@one_or_several
@in_order
def test_turns_are_in_order_of_arrival(scene: Stage, queue: Queue, *, same_client: bool) -> None:
    """Waiters of one client or of several have their turns in the order in which they came."""
    line = Line(scene, queue)
    client = scene.client() if same_client else None
    for _ in range(4):
        line.join(client)
    line.give(0)
    line.passes(1, 2, 3, 4)


@in_order
def test_one_release_wakes_one(scene: Stage, queue: Queue) -> None:
    """A release tells the next one, and costs as little however many wait."""
    line = Line(scene, queue)
    for _ in range(5):
        line.join()
    costs = []
    for who in range(3):
        before = scene.place.asked()
        line.give(who)
        assert line.turns[who + 1].result(PROMPT)
        scene.place.rests(NAME)
        costs.append(scene.place.asked() - before)
        assert not any(turn.done() for turn in line.turns[who + 2 :])
    assert min(costs) <= ONE_TURN, costs  # a starved machine adds looks that were due
    line.passes(3, 4, 5)


@in_one_name
def test_who_stands_behind_others_of_its_client_asks_nothing(scene: Stage, queue: Queue) -> None:
    """Only the first waiter of a client asks and looks, however many stand behind it."""
    line, client = Line(scene, queue), scene.client()
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
    newcomer, made = scene.actor(), queue.make(scene.client(), NAME)
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
@in_order
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
    client = scene.client() if same_client else None
    line.join(client, timeout=1.5)
    line.join(client, timeout=60)
    assert outcome(line.turns[1]) is None
    line.give(0)
    line.passes(2)
    wait_until(lambda: kept(scene) <= before, 5, "nothing is left of the queue")


@in_order
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
def test_a_frozen_process_delays_for_a_moment(scene: Stage, queue: Queue) -> None:
    """Those behind a process that does not take its turn go on long before their poll cap.

    When it goes on itself, it does not take the turn that it was given.
    """
    line = Line(scene, queue)
    with _waiting_process(scene, queue) as child:
        line.join()
        child.signal(signal.SIGSTOP)
        line.give(0)
        assert line.turns[1].result(PROMPT)
        child.signal(signal.SIGCONT)
        with pytest.raises(TimeoutError):
            child.hear(timeout=0.5)
        line.give(1)
        assert child.hear() == "took"


@played("threads")
@in_one_name
def test_clients_out_of_reach_delay_nobody(troubled_scene: Stage, queue: Queue) -> None:
    """However many clients have lost their connections, the next one that listens has its turn."""
    scene, place = troubled_scene, troubled_scene.place
    line = Line(scene, queue, scene.client(place.direct[0]))
    for _ in range(8):
        line.join()
    line.join(scene.client(place.direct[0]))
    with place.unreachable():
        line.give(0)
        assert line.turns[-1].result(PROMPT)
        line.give(9)


@pytest.mark.promise("waking")
@each_face
@every
def test_turns_pass_without_messages(troubled_scene: Stage, queue: Queue) -> None:
    """Who hears nothing looks: each has its turn, and keeps it."""
    scene = troubled_scene
    scene.place.lose_messages()
    made = [queue.make(scene.client(), NAME) for _ in range(3)]
    actors = [scene.actor() for _ in made]
    waiting = {0: actors[0].start(queue.take, made[0])}
    got = waiting.pop(0).result(PROMPT)
    has_it = 0
    for who in (1, 2):
        waiting[who] = actors[who].start(queue.take, made[who])
    while waiting:
        actors[has_it].do(queue.give, made[has_it], got)
        wait_until(lambda: any(each.done() for each in waiting.values()), 10, "one has it")
        has_it = next(who for who, each in waiting.items() if each.done())
        got = waiting.pop(has_it).result(0)
        time.sleep(0.6)  # longer than what a release gives to who does not come for it
        assert not any(each.done() for each in waiting.values())
    actors[has_it].do(queue.give, made[has_it], got)


@each_face
@in_order
def test_a_lost_subscription_costs_no_place(scene: Stage, queue: Queue) -> None:
    """Who waits listens again, stands where it stood, and is told of its turn."""
    line = Line(scene, queue)
    for _ in range(3):
        line.join()
    scene.place.deafen()
    scene.place.rests(NAME, 3)
    line.give(0)
    line.passes(1, 2, 3)


@each_face
@in_order
def test_who_cannot_listen_has_its_turn(scene: Stage, queue: Queue) -> None:
    """With ``pubsub="off"`` a waiter stands in the queue behind who came before, and asks."""
    line = Line(scene, queue)
    line.join()
    made, actors = queue.make(scene.client(pubsub="off"), NAME), [scene.actor(), scene.actor()]
    deaf = []
    for actor in actors:
        before = scene.place.asked()
        deaf.append(actor.start(queue.take, made))
        wait_until(lambda: scene.place.asked() > before, 10, "it asks")  # noqa: B023
        time.sleep(0.1)
    line.give(0)
    line.passes(1)
    for number, actor in enumerate(actors):
        assert deaf[number].result(PROMPT)
        assert not any(each.done() for each in deaf[number + 1 :])
        actor.do(queue.give, made, deaf[number].result())


@played("threads")
@of_queues(lambda name: name in {"lock", "fenced", "write"})
def test_few_turns_are_left_to_those_who_only_try(scene: Stage, queue: Queue) -> None:
    """A client leaves it free for a moment once in two seconds, however often others try."""
    made = [queue.make(scene.client(), NAME) for _ in range(2)]
    actors, rival = [scene.actor(), scene.actor()], scene.actor()
    tried = queue.make(scene.client(), NAME)
    left, began = 0, time.monotonic()
    got = actors[0].do(queue.take, made[0])
    for turn in range(6):
        one, other = turn % 2, (turn + 1) % 2
        waiting = joins(scene, actors[other], queue.take, made[other], 60)
        actors[one].do(queue.give, made[one], got)
        if taken := outcome(rival.start(queue.take, tried, 0)):
            left += 1
            rival.do(queue.give, tried, taken)
        got = waiting.result(PROMPT)
    assert left <= 2 * (1 + (time.monotonic() - began) / 2)
    actors[0].do(queue.give, made[0], got)


@each_face
def test_a_newcomer_takes_no_free_fair_lock(scene: Stage) -> None:
    """While the process whose turn it is does not take it, those who come later do not either."""
    queue = next(queue for queue in QUEUES if queue.name == "fair")
    line, newcomer = Line(scene, queue), scene.actor()
    with _waiting_process(scene, queue) as child:
        child.signal(signal.SIGSTOP)
        line.give(0)
        late = newcomer.start(queue.take, queue.make(scene.client(), NAME), 0.5)
        assert outcome(late) is None
        child.signal(signal.SIGCONT)
        assert child.end() == (0, "")


def _waiting_process(scene: Stage, queue: Queue) -> Child:
    before = scene.place.asked()
    code = f"""
        client = interlock.connect(url)
        {queue.code}
        say("took")
    """
    child = Child(code, scene.place.urls[0])
    wait_until(lambda: scene.place.asked() > before, 30, "the process asks")
    scene.place.rests(NAME)
    return child
