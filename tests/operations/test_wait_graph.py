"""Deadlocks in a world of random owners with old cards: found if real, never invented."""

from __future__ import annotations

import random
from typing import NamedTuple

from interlock.inspection.cards import Card
from interlock.inspection.deadlocks import PATIENCE, Link, rings
from interlock.inspection.info import ClientInfo, HolderInfo, WaiterInfo

SEEDS = range(150)
STEPS = 400
CLIENTS, OWNERS, LOCKS = 3, 2, 4


class Party(NamedTuple):
    """A thread of a client."""

    client: int
    owner: int


class Stay(NamedTuple):
    """A hold or a wait of *party* for *key*, with an id of its own."""

    party: Party
    key: str
    number: int


class World:
    """Owners that acquire, wait, give up and release; their clients' cards arrive late.

    Attributes:
        holds: who holds each lock, since when.
        waits: what each owner waits for, since when.
        lasted: from when to when each hold or wait lasted that is over.
    """

    def __init__(self, seed: int, *, patient: bool) -> None:
        self.chance, self.patient = random.Random(seed), patient
        self.now, self.number = 0.0, 0
        self.holds: dict[Stay, float] = {}
        self.waits: dict[Stay, float] = {}
        self.lasted: dict[Stay, tuple[float, float]] = {}
        self.cards: dict[int, tuple[float, float, dict[Stay, float], dict[Stay, float]]] = {}
        self.parties = [Party(c, o) for c in range(CLIENTS) for o in range(OWNERS)]

    def step(self) -> None:
        """Do one thing that may happen next."""
        self.now += self.chance.random() * 2
        if self.chance.random() < 0.3:
            self.write(self.chance.randrange(CLIENTS))
            return
        party = self.chance.choice(self.parties)
        waits = [wait for wait in self.waits if wait.party == party]
        mine = [hold for hold in self.holds if hold.party == party]
        if waits:
            [wait] = waits
            free = all(hold.key != wait.key for hold in self.holds)
            if free or (not self.patient and self.chance.random() < 0.2):
                self.lasted[wait] = self.waits.pop(wait), self.now
            if free:
                self.holds[wait] = self.now
        elif mine and self.chance.random() < 0.4:
            hold = self.chance.choice(mine)
            self.lasted[hold] = self.holds.pop(hold), self.now
        else:
            key = f"lock {self.chance.randrange(LOCKS)}"
            if all(hold.key != key for hold in mine):
                self.number += 1
                self.waits[Stay(party, key, self.number)] = self.now

    def write(self, client: int) -> None:
        """Let the card of *client* arrive, within a second after it was composed."""
        composed, self.now = self.now, self.now + self.chance.random() * 0.9
        holds = {each: at for each, at in self.holds.items() if each.party.client == client}
        waits = {each: at for each, at in self.waits.items() if each.party.client == client}
        self.cards[client] = composed, self.now, holds, waits

    def rings(self) -> list[tuple[Link, ...]]:
        """Return the deadlocks that the cards tell now."""
        cards: list[Card] = []
        for client, (composed, written, holds, waits) in self.cards.items():
            silent = self.now - written
            about = ClientInfo(f"c{client}", answering=True, silent=silent)
            card = Card(about)
            for each, at in holds.items():
                id_, age = f"c{client}:{each.number}", composed - at + silent
                owner = each.party.owner
                card.holds[id_, each.key] = HolderInfo(id_, about, held_for=age, owner=owner)
            for each, at in waits.items():
                id_, age = f"c{client}:{each.number}", composed - at + silent
                card.waits[id_, each.key] = WaiterInfo(id_, about, age, owner=each.party.owner)
            cards.append(card)
        return rings(cards)

    def lasted_at(self, at: float, entry: HolderInfo | WaiterInfo, *, waited: bool) -> bool:
        """Return whether the hold or wait of *entry* lasted at the time *at*."""
        number = int(entry.holder.partition(":")[2])
        going = self.waits if waited else self.holds
        for each, since in going.items():
            if each.number == number:
                return since <= at
        # A wait that became a hold has the same number: the wait was over first.
        return any(
            since <= at <= until
            for each, (since, until) in self.lasted.items()
            if each.number == number
        )

    def closed(self) -> bool:
        """Return whether there is a deadlock at this moment."""
        holder = {hold.key: hold.party for hold in self.holds}
        wanted = {wait.party: wait.key for wait in self.waits}
        for start in wanted:
            party: Party | None = start
            for _ in self.parties:
                party = holder.get(wanted.get(party, "")) if party is not None else None
                if party == start:
                    return True
        return False


def test_no_deadlock_is_invented() -> None:
    """Whoever waits may give up: each ring that is told was closed at one moment."""
    told = 0
    for seed in SEEDS:
        world = World(seed, patient=False)
        for _ in range(STEPS):
            world.step()
            held = {f"c{each.party.client}:{each.number}" for each in world.holds}
            for ring in world.rings():
                if any(link.hold.holder not in held for link in ring):
                    continue  # the server shows other holders
                clients = {int(link.client.client_id[1:]) for link in ring}
                moment = min(world.cards[each][0] for each in clients)
                for link in ring:
                    assert world.lasted_at(moment, link.wait, waited=True), seed
                    assert world.lasted_at(moment, link.hold, waited=False), seed
                told += 1
    assert told > 30


def test_each_deadlock_is_found() -> None:
    """If nobody gives up, a ring is told once all cards were written a little later."""
    closed = 0
    for seed in SEEDS:
        world = World(seed, patient=True)
        for _ in range(STEPS):
            world.step()
            if world.closed():
                break
        else:
            continue
        closed += 1
        world.now += PATIENCE
        for client in range(CLIENTS):
            world.write(client)
        assert any(world.rings()), seed
    assert closed > 30
