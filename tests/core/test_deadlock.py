"""Deadlocks in a world of random owners with old cards: found if real, never invented."""

from __future__ import annotations

import random

from interlock._core.insight.deadlock import (
    Link,
    Party,
    Sight,
    Told,
    Wait,
    confirmed,
    find_cycle,
    same_cycle,
)

SEEDS = range(2_500, 3_500)
"""Among them is one that shows whether a card of one number further would be enough."""
ROUNDS = 12
"""Checks of each seed."""
CLIENTS, OWNERS, LOCKS = 3, 2, 4


class World:
    """Owners that acquire, wait, give up and release; their clients' cards arrive late.

    Attributes:
        now: seconds.
        held: the owners of each lock that is held: one writer, or readers.
        written: the locks that are held by a writer.
        waits: what each waiting owner waits for, whether to write, and since when.
    """

    def __init__(self, seed: int, *, patient: bool) -> None:
        self.seed, self.chance = seed, random.Random(seed)
        self.patient = patient
        self.now = 0.0
        self.held: dict[str, set[Party]] = {}
        self.written: set[str] = set()
        self.waits: dict[Party, tuple[str, bool, float]] = {}
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
            key, writes, _ = self.waits[party]
            if self.take(party, key, writes=writes) or (not self.patient and chance.random() < 0.3):
                del self.waits[party]
            return
        mine = [key for key, holders in self.held.items() if party in holders]
        if mine and chance.random() < 0.4:
            self.drop(party, chance.choice(mine))
            return
        key = f"lock{chance.randrange(LOCKS)}"
        # Of half of the locks there are readers.
        writes = key < f"lock{LOCKS // 2}" or chance.random() < 0.5
        if key not in mine and not self.take(party, key, writes=writes):
            self.waits[party] = (key, writes, self.now)

    def take(self, party: Party, key: str, *, writes: bool = True) -> bool:
        """Take *key* for *party*; return whether it was free for that."""
        if key in self.held and (writes or key in self.written):
            return False
        self.held.setdefault(key, set()).add(party)
        if writes:
            self.written.add(key)
        return True

    def drop(self, party: Party, key: str) -> None:
        """Release *key*, which *party* holds."""
        self.held[key].remove(party)
        if not self.held[key]:
            del self.held[key]
            self.written.discard(key)

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
            for key, holders in self.held.items()
            for party in holders
            if party.client_id == client
        }
        waits = {
            party.owner: [Wait(f"{client}:{party.owner}", key, waited=self.now - since)]
            for party, (key, _, since) in self.waits.items()
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
        return [f"{party.client_id}:{party.owner}" for party in sorted(self.held.get(key, ()))]

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
            if self.waits.get(link.party, ("", True, 0.0))[0] != link.key:
                return False
            if following.party not in self.held.get(link.key, ()):
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
            assert closed, (world.seed, sight.links)
            assert not world.patient or world.is_closed(sight.links)
            found.append(sight.links)
    return found


def test_no_deadlock_is_invented() -> None:
    """Every confirmed cycle was closed, however old the cards are; real ones are found."""
    found = [len(checks(World(seed, patient=seed % 4 == 0), ROUNDS)) for seed in SEEDS]
    assert sum(found) > 3


def test_a_lasting_deadlock_is_confirmed() -> None:
    """Owners that never give up and are in a ring are found in the end."""
    for seed in range(50):
        world = World(seed, patient=True)
        parties = world.parties[::OWNERS][:CLIENTS]
        for place, party in enumerate(parties):
            assert world.take(party, f"lock{place}")
            world.waits[party] = (f"lock{(place + 1) % len(parties)}", True, 0.0)
        assert any(same_cycle(links) for links in checks(world, 200)), seed
