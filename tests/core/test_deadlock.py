"""Deadlocks in a world of random owners with old cards: found if real, never invented."""

from __future__ import annotations

import random

from interlock._core.deadlock import (
    Link,
    Party,
    Sight,
    Told,
    Wait,
    confirmed,
    find_cycle,
    same_cycle,
    youngest,
)

CLIENTS, OWNERS, LOCKS = 3, 2, 4
SEEDS = 10_000


class World:
    """Owners that acquire, wait, give up and release; their clients' cards arrive late.

    Attributes:
        now: seconds.
        held: the owner of each lock that is held.
        waits: what each waiting owner waits for, and since when.
    """

    def __init__(self, seed: int, *, patient: bool) -> None:
        self.chance = random.Random(seed)
        self.patient = patient
        self.now = 0.0
        self.held: dict[str, Party] = {}
        self.waits: dict[Party, tuple[str, float]] = {}
        self.parties = [Party(f"c{c}", o) for c in range(CLIENTS) for o in range(OWNERS)]
        self.cards: dict[str, tuple[int, float, Told]] = {}
        self.answered = dict.fromkeys((f"c{c}" for c in range(CLIENTS)), 0)
        self.under_way: dict[str, tuple[int, Told]] = {}

    def step(self) -> None:
        """Do one thing that may happen next."""
        chance = self.chance
        self.now += chance.random()
        if chance.random() < 0.4:
            self.write(f"c{chance.randrange(CLIENTS)}")
            return
        party = chance.choice(self.parties)
        if party in self.waits:
            key, _ = self.waits[party]
            if key not in self.held:
                self.held[key] = party
                del self.waits[party]
            elif not self.patient and chance.random() < 0.3:
                del self.waits[party]
            return
        mine = [key for key, holder in self.held.items() if holder == party]
        if mine and chance.random() < 0.4:
            del self.held[chance.choice(mine)]
            return
        key = f"lock{chance.randrange(LOCKS)}"
        if key not in self.held:
            self.held[key] = party
        elif self.held[key] != party:
            self.waits[party] = (key, self.now)

    def write(self, client: str) -> None:
        """Compose the next card of *client*, or have the last one arrive, or lose its answer."""
        if client not in self.under_way:
            self.under_way[client] = (self.answered[client] + 1, self.snapshot(client))
            return
        number, told = self.under_way.pop(client)
        self.cards[client] = (number, self.now, told)
        if self.chance.random() < 0.8:
            self.answered[client] = number

    def snapshot(self, client: str) -> Told:
        """Return what *client* knows of itself."""
        owners = {
            (f"{client}:{party.owner}", key): party.owner
            for key, party in self.held.items()
            if party.client_id == client
        }
        waits = {
            party.owner: [Wait(f"{client}:{party.owner}", key, waited=self.now - since)]
            for party, (key, since) in self.waits.items()
            if party.client_id == client
        }
        return Told(None, owners, waits)

    # What a check reads; the world goes on meanwhile.

    def told(self, client: str) -> Told | None:
        """Read a card."""
        for _ in range(self.chance.randrange(3)):
            self.step()
        if client not in self.cards:
            return None
        number, written, told = self.cards[client]
        silent = self.now - written
        waits = {
            owner: [wait._replace(waited=wait.waited + silent) for wait in found]
            for owner, found in told.waits.items()
        }
        return Told(number, told.owners, waits)

    def holders(self, key: str) -> list[str]:
        """Read who holds a lock."""
        for _ in range(self.chance.randrange(2)):
            self.step()
        party = self.held.get(key)
        return [] if party is None else [f"{party.client_id}:{party.owner}"]

    def sight(self, start: Party) -> Sight | None:
        """Return what a check of *start* sees."""
        read: dict[str, Told | None] = {}

        def told(client: str) -> Told | None:
            if client not in read:
                read[client] = self.told(client)
            return read[client]

        links = find_cycle(start, told, self.holders)
        if links is None:
            return None
        seen = {each: known.number for each, known in read.items() if known is not None}
        after = {link.party.client_id: self.cards[link.party.client_id][0] for link in links}
        return Sight(links, seen, dict(after), self.now)

    def is_closed(self, links: tuple[Link, ...]) -> bool:
        """Return whether *links* are a cycle now."""
        for link, following in zip(links, (*links[1:], links[0]), strict=True):
            if self.waits.get(link.party, ("",))[0] != link.key:
                return False
            if self.held.get(link.key) != following.party:
                return False
        return True


def checks(world: World, rounds: int) -> list[tuple[Link, ...]]:
    """Check *world* while it goes on; return the cycles that were confirmed."""
    suspected: dict[Party, tuple[Sight, bool]] = {}
    found: list[tuple[Link, ...]] = []
    for _ in range(rounds):
        for _ in range(world.chance.randrange(12)):
            world.step()
        start = world.chance.choice(world.parties)
        sight = world.sight(start)
        if sight is None:
            suspected.pop(start, None)
            continue
        # A cycle stays closed until one of it gives up, so what counts is the first look.
        first, closed = suspected.get(start, (sight, False))
        if first is sight or same_cycle(first.links) != same_cycle(sight.links):
            suspected[start] = sight, world.is_closed(sight.links)
        elif confirmed(first, sight):
            assert closed, sight.links
            assert not world.patient or world.is_closed(sight.links)
            found.append(sight.links)
    return found


def test_no_deadlock_is_invented() -> None:
    """Over 10,000 seeds every confirmed cycle was closed, however old the cards are."""
    seen = sum(bool(checks(World(seed, patient=seed % 4 == 0), 12)) for seed in range(SEEDS))
    assert seen > 50  # real ones are found on the way


def test_a_lasting_deadlock_is_confirmed() -> None:
    """Owners that never give up and are in a ring are found in the end."""
    for seed in range(200):
        world = World(seed, patient=True)
        parties = world.parties[::OWNERS][:CLIENTS]
        for place, party in enumerate(parties):
            world.held[f"lock{place}"] = party
            world.waits[party] = (f"lock{(place + 1) % len(parties)}", 0.0)
        assert any(same_cycle(links) for links in checks(world, 200)), seed


def test_all_choose_the_same_victim() -> None:
    """The members of a cycle agree on the youngest waiter, though each reads other ages."""
    parties = [Party(f"c{number}", number) for number in range(5)]
    links = [
        Link(party, f"{party.client_id}:1", f"k{number}", "h", waited=9.0 + number / 100)
        for number, party in enumerate(parties)
    ]
    chosen = {youngest([*links[number:], *links[:number]]).party for number in range(len(links))}
    assert chosen == {parties[0]}
    late = Link(parties[3], "c3:1", "k3", "h", waited=5.5)
    assert youngest([*links[:3], late, links[4]]) == late
