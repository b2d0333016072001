"""The wire contract with Redisson: keys and channels."""

from __future__ import annotations

import pytest

from interlock._core.model import names


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (names.prefix_name("p", "orders"), "p:{orders}"),
        (names.prefix_name("p", "{shop}:orders"), "p:{shop}:orders"),
        (names.suffix_name("orders", "s"), "{orders}:s"),
        (names.suffix_name("{shop}:orders", "s"), "{shop}:orders:s"),
        (names.lock_channel("x"), "redisson_lock__channel:{x}"),
        (names.fair_queue("x"), "redisson_lock_queue:{x}"),
        (names.fair_timeouts("x"), "redisson_lock_timeout:{x}"),
        (
            names.waiter_channel("redisson_lock__channel:{x}", "c:1"),
            "redisson_lock__channel:{x}:c:1",
        ),
        (names.fence_token("x"), "redisson_lock_token:{x}"),
        (names.semaphore_channel("x"), "redisson_sc:{x}"),
        (names.permit_leases("x"), "{x}:timeout"),
        (names.latch_channel("x"), "redisson_countdownlatch__channel__{x}"),
        (names.latch_channel("{x}"), "redisson_countdownlatch__channel__{{x}}"),
        (names.latch_ending("x"), "interlock_latch_ending:{x}"),
        (names.event_key("x"), "interlock_event:{x}"),
        (names.event_channel("x{y}"), "interlock_event__channel:x{y}"),
        (names.condition_waiting("x"), "interlock_condition:{x}"),
        (names.condition_leases("x"), "interlock_condition_leases:{x}"),
        (names.condition_channel("x"), "interlock_condition__channel:{x}"),
        (names.barrier_key("x"), "interlock_barrier:{x}"),
        (names.barrier_parties("x"), "interlock_barrier_parties:{x}"),
        (names.barrier_passed("x"), "interlock_barrier_passed:{x}"),
        (names.barrier_channel("x"), "interlock_barrier__channel:{x}"),
        (names.election_key("x"), "interlock_election:{x}"),
        (names.election_token("x"), "interlock_election_token:{x}"),
        (names.election_leader("x"), "interlock_election_leader:{x}"),
        (names.election_candidates("x"), "interlock_election_candidates:{x}"),
        (names.election_channel("x"), "interlock_election__channel:{x}"),
        (names.election_news("x"), "interlock_election__news:{x}"),
        (names.own_request("x", "r1"), "interlock_request:{x}:r1"),
        (names.request_latch("x", "r1"), "redisson_unlock_latch:{x}:r1"),
    ],
)
def test_name_is_the_one_on_the_wire(made: str, expected: str) -> None:
    """Each derived name is, letter by letter, the one on the wire."""
    assert made == expected
