"""What must be true after each step, after each script, and at rest."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from tests.core.simulator.watcher import Dump, Watcher

from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.model.hold import Hold
from interlock._core.model.names import (
    GRANT,
    WRITES,
    fair_queue,
    fair_timeouts,
    fence_token,
    reader_coming,
)
from interlock._core.objects.election import Election
from interlock._core.objects.permits import Permits
from interlock._core.queue.places import DEAF, LONGEST_POLL
from interlock._core.scripts.replies import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from tests.core.simulator import Simulator
    from tests.core.simulator.client import Client

    from interlock._core.locks.base import Lock
    from interlock._core.model.effects import Eval

TRIPS = 20
"""One-way trips within which what costs a few of them is done."""
GHOST, SWEPT = 4.5, 3.2
"""Seconds after the last fault in which what nobody has any more is gone: a quarter of the longest
lease, which is the longest pause of garbage, and a reply that never comes; and if each one comes."""
LASTING = "redisson_lock_", "interlock_election_leader:"
"""What the keys of tokens, of Redisson's queues and of last leaders begin with: they have no TTL."""
STAYING = "interlock_election_leader:", "interlock_barrier", "interlock_latch_ending"
"""What the keys begin with that stay for a while, or for ever."""
READING_OR_WRITING = {
    f"{side}_{what}" for side in ("read", "write") for what in ("acquire", "ask", "release")
}
FAIR_WAIT = 1.5
"""Seconds for which a waiter for a fair lock may be silent."""
MESSAGE = 2.6
"""Seconds that a lost message costs at most: a look, and its answer."""


class Judge:
    """Watches *world*.

    Attributes:
        watcher: watches what is no lock.
        moved: how many waiters of conditions were notified.
        woken: how many waits have told so.
    """

    def __init__(self, world: Simulator) -> None:
        self._world = world
        self.watcher = Watcher(world)
        self._excused: dict[int, Hold] = {}
        self._refused = set[str]()  # holders whose waits the server has refused: they are to learn
        self._tokens: dict[tuple[str, int], int] = {}
        self._seen: dict[int, tuple[Hold, int]] = {}
        self._since: dict[object, tuple[float, int]] = {}
        self._returned, self._joined = set[str](), set[str]()
        self._heard_of = dict[tuple[str, str], float]()
        self._checked = Dump()
        self._known: dict[str, Hold] | None = None
        self._members = dict[str, str]()
        kinds = set(world.schedule.rates)
        self._ghost = GHOST if kinds - {"raise"} else SWEPT
        self._deaf_only = kinds == {"lose messages"}
        self.moved = self.woken = 0

    def failed_over(self) -> None:
        """Note that places may be back whose waiters have given up: those end in their turns."""
        self._heard_of.clear()
        for lock in self._world.locks.values():
            there = members(lock, self._world.network.view())
            self._returned |= {each for each, score in there.items() if score > 0}

    def lost_on_server(self, which: Callable[[Hold], bool]) -> None:
        """Note that the server is losing each hold of *which*, and its client cannot know."""
        dump = self._world.network.view()
        self.watcher.lost()
        for client in self._world.clients:
            for hold in list(client.session.live):
                told = hold.place is not None and hold.place.told not in (None, LOOK)
                there = self.left(hold, dump) is not None  # perhaps it will be told so
                if (there or hold.entries or hold.valid_until or told) and which(hold):
                    self._excused[id(hold)] = hold

    def left(self, hold: Hold, dump: Dump) -> float | None:
        """Return the least seconds that are left of *hold* on the server; None if it is not there."""
        lock = hold.lock
        if isinstance(lock, Permits):
            return self.watcher.left(hold, dump)
        value: Any = dump[lock.key].value if lock.key in dump else {}
        values = lock._fields if isinstance(lock, GroupLock) else ()
        has_all = all(value.get(each.encode()) == hold.holder.encode() for each in values)
        if not has_all or hold.holder not in holders(lock, dump):
            return None
        # The key of a group lasts for the longest lease of several holds.
        return 0.0 if values else (dump[lock.key].ttl or 0) / 1000

    def excused(self, hold: Hold) -> bool:
        """Return whether the server has lost *hold*, and its client may not know."""
        return id(hold) in self._excused or hold.holder in self._refused

    def late(self, who: str, seconds: float) -> None:
        """Look whether a call of *who* may end *seconds* after its time was over."""
        # A last try may wait for its reply, and so does the release after it.
        patience = self._world.clients[0].session.patience
        if seconds > 2 * patience + 0.5:
            self._world.fail(f"{who} was answered {seconds:.3f} s too late")

    # Each script.

    def ran(self, call: Eval[object], before: Dump, after: Dump, reply: object) -> None:
        name, lock = call.script.name, self._world.locks.get(call.keys[0])
        if isinstance(reply, Exception):
            return
        self.watcher.ran(call, before, after)
        if name.endswith("condition_wait") and reply is None:
            self._refused.add(str(call.args[0]))
        if name == "condition_notify" and isinstance(reply, int) and "leave" not in call.args:
            self.moved += reply
        if lock is None:
            return
        if name == "election_ask" and lock.queue not in call.keys:
            return  # a first try: it takes what is free
        if name in ("lock_ask", "fenced_ask", "election_ask"):
            self._asked(lock, str(call.args[1]), before, after)
        elif name in ("lock_release", "fenced_release", "election_release"):
            self._released(lock, [str(each) for each in call.args], before, after)
        elif name in READING_OR_WRITING:
            self._readers_and_writers(lock, name, [str(each) for each in call.args], before, after)
        elif name == "fair_ask":
            self._in_turn(lock, name, str(call.args[1]), before, after)
        elif name == "fair_release":
            if str(call.args[1]) != "0":
                self._same_holder(lock, before, after)
            else:
                self._in_turn(lock, name, str(call.args[0]), before, after)

    def _asked(self, lock: Lock, me: str, before: Dump, after: Dump) -> None:
        if me in members(lock, after) and me not in members(lock, before):
            if me in self._joined and self._world.schedule.benign:
                self._world.fail(f"the place of {me} at {lock!r} was lost")
            self._joined.add(me)
        if lock.key in before:
            self._same_holder(lock, before, after)
            return
        queue = members(lock, before)
        if queue and me not in queue and lock.key in after:
            self._world.fail(f"{me} took {lock!r}, though others stood there: {queue}")
        first = self._first(lock, queue, me)
        if me in queue and first and holders(lock, after) != [first]:
            self._world.fail(f"{holders(lock, after)} got {lock!r} before {first}: {queue}")

    def _released(self, lock: Lock, args: list[str], before: Dump, after: Dump) -> None:
        me, depth = args[:2]
        queue, held = dict(members(lock, before)), me in holders(lock, before)
        if held and depth != "0":
            self._same_holder(lock, before, after)
            return
        if me in members(lock, after) or me in holders(lock, after):
            self._world.fail(f"{me} has released {lock!r}, and is there: {dict(after)}")
        if not held and lock.key in before:
            self._same_holder(lock, before, after)
            return
        queue.pop(me, None)
        stood = me in members(lock, before)
        first = self._first(lock, queue, me) if held or stood else None
        if first and holders(lock, after) != [first]:
            self._world.fail(
                f"{me} gave {lock!r} to {holders(lock, after)}, not to {first}: {queue}"
            )
        if first and (after[lock.key].ttl or 1e9) > 1000 * GRANT:
            self._world.fail(f"{first} was granted {lock!r} for {after[lock.key].ttl} ms")

    def _in_turn(self, lock: Lock, name: str, me: str, before: Dump, after: Dump) -> None:
        """Look whether the fair *lock* went to the first who lives, and who lost a place."""
        former, queue, now = (
            list(members(lock, before)),
            list(members(lock, after)),
            self._world.now,
        )
        stayed = [each for each in former if each in queue]
        if queue not in (stayed, [*stayed, me]):
            self._world.fail(f"{me} made {queue} of {former} by {name}")
        for each in former:
            heard_of = self._heard_of.get((lock.key, each), -FAIR_WAIT)  # a failover: never
            if each not in (*queue, me) and now - heard_of < FAIR_WAIT - 0.002:
                self._world.fail(f"{each} lost its place by {name} of {me} and was alive")
        if me in queue and name == "fair_ask":
            self._heard_of[lock.key, me] = now
        had, has = holders(lock, before), holders(lock, after)
        if name == "fair_release":
            if has != [each for each in had if each != me] or me in queue:
                self._world.fail(f"{me} has released {lock!r}, which went from {had} to {has}")
        elif had:
            self._same_holder(lock, before, after)
        elif has:
            first = former[: former.index(me)] if me in former else former
            if has != [me] or set(first) & set(stayed):
                self._world.fail(f"{has} got {lock!r} by {name} of {me} before {stayed}")

    def _same_holder(self, lock: Lock, before: Dump, after: Dump) -> None:
        one, other = holders(lock, before), holders(lock, after)
        if one != other:
            self._world.fail(f"{lock!r} went from {one} to {other}")

    def _first(self, lock: Lock, queue: Mapping[str, float], me: str) -> str | None:
        """Return to whom *me* must give *lock*, which is free: the first in *queue* that listens or cannot.

        Whoever has a mark let its turn pass, and loses all places. A client without messages gives
        nothing to one that listens.
        """
        silent = {c.session.client_id for c in self._world.clients if not c.session.publish}
        failed = {client_of(each) for each, score in queue.items() if score < 0}
        for each in queue:
            client = client_of(each)
            wakes = lock.channels(client)[-1]
            if client in failed:
                continue
            if client in silent:
                return each
            if client_of(me) in silent:
                return None
            if self._world.network._listeners(wakes.encode()):
                return each
        return None

    def _readers_and_writers(
        self, lock: Lock, name: str, args: list[str], before: Dump, after: Dump
    ) -> None:
        """Look whether those who came into *lock* were next, and all of them."""
        leaves, asks = name.endswith("release"), name.endswith("ask")
        me = args[0 if leaves else 1]
        former, inside = holders(lock, before), holders(lock, after)
        came = set(inside) - set(former)
        line = self._in_line(lock, me, before)
        if name == "write_acquire" or (came == {me} and any(map(writes, former))):
            return  # it takes what is free, or reads where it writes
        stands = me in members(lock, before)
        if leaves and me in line:
            line.remove(me)
        waiting = [each for each in line if each not in came]
        if waiting and came - set(line[: line.index(waiting[0])]) - {me}:
            self._world.fail(f"{came} came into {lock!r} before {waiting[0]}: {line}")
        names_place = asks and args[4:5] not in ([], [""])
        if (
            waiting
            and me in came
            and not names_place
            and (me not in line or me in line[line.index(waiting[0]) :])
        ):
            self._world.fail(f"{me} came into {lock!r} before {waiting[0]} by {name}: {line}")
        if waiting and (leaves or asks) and (stands or me in former):
            if not inside:
                self._world.fail(f"{me} left {lock!r} to nobody by {name}: {line}")
            if came and not any(map(writes, [*inside, waiting[0]])):
                self._world.fail(f"{waiting[0]} was not let into {lock!r} with {came}: {line}")

    def _in_line(self, lock: Lock, me: str, dump: Dump) -> list[str]:
        """Return those who wait in *dump* and could be told by *me*, in order."""
        queue = members(lock, dump)
        silent = {c.session.client_id for c in self._world.clients if not c.session.publish}
        inside, coming = holders(lock, dump), reader_coming(lock.key) in dump
        marks = [each for each, score in queue.items() if score < 0 and each != me]
        failed = {
            client_of(each) for each in marks if each not in inside or not (coming or writes(each))
        }
        found = list[str]()
        for each, score in queue.items():
            client = client_of(each)
            if score < 0 or client in failed:
                continue
            hears = self._world.network._listeners(lock.channels(client)[-1].encode())
            if client_of(me) in silent and client not in silent and each != me:
                break
            if client in silent or hears or each == me:
                found.append(each)
        return found

    # Each step.

    def after_step(self) -> None:
        dump, self._known = self._world.network.view(), None
        if dump is not self._checked:
            self._server(dump)
            self._checked = dump
        self._clients(dump)
        self.watcher.after_step(dump)
        for lock in self._world.locks.values():
            inside, standing = holders(lock, dump), members(lock, dump)
            if inside or standing:
                self.ghosts(lock, inside, standing)
            if lock.queues or isinstance(lock, (FairLock, GroupLock)):
                self._waited_for(lock, dump)

    def _server(self, dump: Dump) -> None:
        for key, stored in dump.items():
            inside = holders(self._world.locks[key], dump) if key in self._world.locks else []
            writers = [each for each in inside if writes(each)]
            # Who writes may read besides: so readers beside a writer are of its client.
            several = set(map(client_of, inside)) if writers else inside
            group = isinstance(self._world.locks.get(key), GroupLock)
            if len(several) > 1 and not group and (writers or b"mode" not in stored.value):
                self._world.fail(f"{key!r} has several holders: {stored}")
            if len(writers) > 1 or (inside == [] and key in self._world.locks):
                self._world.fail(f"{key!r} has {writers} as its writers: {stored}")
            lasts = key.startswith(LASTING) or key in self.watcher.lasting
            if stored.ttl is None and not lasts:
                self._world.fail(f"{key!r} has no TTL: {stored}")

    def _clients(self, dump: Dump) -> None:
        world, valid = self._world, dict[str, list[Hold]]()
        for client in world.clients:
            if client.crashed:
                continue
            now = client.clock()
            for hold in client.session.live:
                if hold.over is not None or not hold.entries:
                    continue
                if now >= hold.valid_until:
                    if hold.lost(now - 0.1) and not client.paused_since(world.now - 0.1):
                        world.fail(f"nobody was told that {hold!r} is lost")
                    continue
                if self.excused(hold):
                    continue
                valid.setdefault(hold.lock.key, []).append(hold)
                if hold.packed not in dump.checked:
                    left = self.left(hold, dump)
                    if left is None or left < 0:
                        world.fail(f"the server does not have {hold!r}")
                    if not hold.of_permits:  # theirs end by themselves
                        dump.checked.add(hold.packed)
                if hold.token is not None:
                    self._token(hold, hold.token)
                if isinstance(hold.lock, Election):
                    self._announced(hold, hold.lock, dump)
                if world.schedule.benign and not hold.of_permits:
                    self._depth(client, hold, dump)
        for several in valid.values():
            for one, other in combinations(several, 2):
                if one.lock.excludes(other) and one.owner() is not other.owner():
                    world.fail(f"both are valid: {one!r} and {other!r}")

    def _depth(self, client: Client, hold: Hold, dump: Dump) -> None:
        if any(process.acting for process in client.processes):
            return
        value: Any = dump[hold.lock.key].value
        field = hold.holder
        if isinstance(hold.lock, GroupLock):
            field = f"{hold.lock._fields[0]}:{field}:lock_count"
        if int(value[field.encode()]) != hold.depth:
            self._world.fail(f"the server has depth {value} of {hold!r}, which has {hold.depth}")

    def _announced(self, hold: Hold, election: Election, dump: Dump) -> None:
        key = election.keys[-1]
        leader: Any = dump[key].value if key in dump else {}
        said = leader.get(b"holder", b"").decode(), int(leader.get(b"token", 0))
        if said != (hold.holder, hold.token):
            self._world.fail(f"{hold!r} leads with token {hold.token}, and {leader} is announced")

    def _token(self, hold: Hold, token: int) -> None:
        if id(hold) in self._seen:
            if self._seen[id(hold)][1] != token:
                self._world.fail(f"the token of {hold!r} became {token}")
            return
        self._seen[id(hold)] = hold, token
        # A server that has lost its data may count from the beginning.
        place = hold.lock.key, self._world.network.generation
        if token <= self._tokens.get(place, 0):
            self._world.fail(f"{hold!r} has token {token} after {self._tokens[place]}")
        self._tokens[place] = token

    def ghosts(self, lock: Lock, inside: Collection[str], standing: Collection[str]) -> None:
        """Look whether who is *inside* or *standing* at *lock* is a hold of its client.

        Those of dead clients are not, and each shall know that it is inside.
        """
        known = self._known = self._known or self._holds()
        for each in (*inside, *standing):
            if each in known or (each in self._returned and each not in inside):
                continue
            # Nobody waits longer than a short lease for copies: they end by themselves.
            if client_of(each) not in self._dead() and "/" not in each and self._bars(lock, each):
                self.lasts(("ghost", lock.key, each), self._ghost, f"{each} is left at {lock!r}")
        for each in inside:
            hold = known.get(each)
            if hold is not None and hold.place is not None and not hold.valid_until:
                # Who gets no messages finds out by a look.
                told = all(client.session.publish for client in self._world.clients)
                at_once = told and self._world.schedule.benign
                bound = TRIPS * self._world.latency[1] if at_once else GHOST
                text = f"{each} does not know that it has {lock!r}"
                hears = bool(hold.lock.session.publish)
                self.lasts(("granted", each), bound + (0.0 if hears else DEAF), text)
                if self._deaf_only and hears and hold.lease >= GRANT:
                    self.lasts(("told", each), MESSAGE, text, faults=True)

    def _bars(self, lock: Lock, holder: str) -> bool:
        """Return whether *holder*, who is in *lock*, keeps others out.

        A value of a group whose time is over is anybody's, and stays until somebody takes it.
        """
        dump, now = self._world.network.view(), self._world.network.server._now() * 1000
        if not isinstance(lock, GroupLock) or lock.key not in dump:
            return True
        value: Any = dump[lock.key].value
        ends = f":{holder}:expire_time".encode()
        return any(int(value[each]) > now for each in value if each.endswith(ends))

    def _holds(self) -> dict[str, Hold]:
        """Return the holds that somebody can end, or that end by themselves, by their ids."""
        members = self._members
        return {
            members.get(hold.packed) or members.setdefault(hold.packed, hold.member): hold
            for client in self._world.clients
            for hold in client.session.live
            if hold.over is None and not (hold.entries and hold.renewed and not hold.claimed())
        }

    def _dead(self) -> set[str]:
        """Return the clients whose holds end by themselves: also what a failover brought back."""
        return {
            client.session.client_id
            for client in self._world.clients
            if client.crashed or client.unaware()
        }

    def waiting(self) -> Iterator[Hold]:
        """Return who waits in a line of a client that runs, and not in a condition."""
        for client in self._world.clients:
            if not client.crashed and not client.paused:
                for hold in [*client.session.live, *client.session.calls]:
                    place = hold.place
                    if place is not None and hold in place.line.waiters and not place.aside:
                        yield hold

    def _waited_for(self, lock: Lock, dump: Dump) -> None:
        """Look whether *lock* is free for too long while somebody waits for it."""
        free = lock.key not in dump and not self._world.network.unreachable
        if free and any(hold.lock.key == lock.key for hold in self.waiting()):
            bound = LONGEST_POLL + 1.5 + (0.0 if lock.queues else FAIR_WAIT)
            self.lasts(("free", lock.key), bound, f"{lock!r} is free and waited for")
        else:
            self.lasts_no_more(("free", lock.key))

    def lasts(self, what: object, bound: float, text: str, *, faults: bool = False) -> None:
        """Fail if *what* was seen at each step for *bound* seconds without faults, or with them."""
        world = self._world
        began, last = self._since.get(what, (world.now, -1))
        if last < world.timeline.steps - 50:
            began = world.now
        self._since[what] = began, world.timeline.steps
        if world.now - (began if faults else max(began, world.disturbed_at)) > bound:
            world.fail(f"for {world.now - began:.3f} s: {text}")

    def lasts_no_more(self, what: object) -> None:
        self._since.pop(what, None)

    # The end.

    def at_rest(self) -> None:
        world, dump = self._world, self._world.network.view()
        if world.schedule.benign and self.moved != self.woken:
            world.fail(f"{self.moved} were notified, and {self.woken} woke")
        kept = {*map(fence_token, world.locks), *self.watcher.lasting}
        dead = {client.session.client_id for client in world.clients if client.crashed}
        for lock in world.locks.values():  # the next one that asks removes the dead of its queue
            if {
                each for each in members(lock, dump) if client_of(each) not in dead
            } <= self._returned:
                kept |= {fair_queue(lock.key), fair_timeouts(lock.key)}
        for key, stored in dump.items():  # nobody leaves a condition for the dead
            if key.startswith("interlock_condition"):
                standing: Any = stored.value
                kept |= {key} if {client_of(each.decode()) for each in standing} <= dead else set()
        if left := [each for each in dump.keys() - kept if not each.startswith(STAYING)]:
            world.fail(f"the server still has {sorted(left)}")
        self.watcher.at_rest(dump)
        if channels := world.network.channels():
            world.fail(f"somebody still listens to {channels}")
        for client in world.clients:
            session = client.session
            garbage = session.garbage
            tables = (session.live, session.calls, garbage.dead, session.lines)
            if not client.crashed and any(tables):
                world.fail(f"{client} still has {tables}")
            if not client.crashed and (places := session.queues.places):
                world.fail(f"{client} still has places: {places}")


def client_of(holder: str) -> str:
    return holder.partition(":")[0]


def writes(holder: str) -> bool:
    return holder.endswith(WRITES)


def holders(lock: Lock, dump: Dump) -> list[str]:
    found = dump.holders.get(lock.key)
    if found is None:
        found = dump.holders[lock.key] = _holders(lock, dump)
    return found


def _holders(lock: Lock, dump: Dump) -> list[str]:
    value: Any = dump[lock.key].value if lock.key in dump else {}
    if isinstance(lock, GroupLock):
        return list({value[each].decode(): None for each in value if b":" not in each})
    return [each.decode() for each in value if each != b"mode"]


def members(lock: Lock, dump: Dump) -> dict[str, float]:
    """Return the members of the queue of *lock* with their scores, in order; "?" is left out."""
    found = dump.members.get(lock.key)
    if found is None:
        found = dump.members[lock.key] = _members(lock, dump)
    return found


def _members(lock: Lock, dump: Dump) -> dict[str, float]:
    if isinstance(lock, FairLock):
        queue = fair_queue(lock.key)
        value: Any = dump[queue].value if queue in dump else []
        return {each.decode(): float(place) for place, each in enumerate(value, 1)}
    value = dump[lock.queue].value if lock.queue in dump else {}
    return in_order(value)


def in_order(queue: dict[bytes, float]) -> dict[str, float]:
    """Return who waits in *queue*, with their scores, in order; "?" is left out."""
    return {each.decode().rstrip("?"): queue[each] for each in sorted(queue, key=queue.__getitem__)}
