"""Locks that several owners hold: the cases of every lock-like that do not ask for one holder.

The catalogue tells which locks they are (`Kind.shared`); the side for readers is one, too.
"""

from __future__ import annotations

import pytest
from tests.lock.lock_like import SHARED, Kind
from tests.lock.test_lock_holds import (
    reports,
    test_a_hold_is_released_from_anywhere,
    test_a_hold_tells_what_is_held,
    test_a_lease_that_ends_is_a_loss,
    test_a_lost_hold_says_so,
    test_listeners_are_called_once_each,
    test_repr_tells_name_and_state,
    test_whoever_waits_for_a_loss_is_woken,
    test_with_never_masks_the_body,
    test_with_raises_when_the_hold_was_lost,
)
from tests.lock.test_lock_input import (
    test_a_closed_client,
    test_arguments_of_acquire,
    test_arguments_of_extend,
    test_arguments_of_the_factory,
    test_names,
    test_timeouts_that_threading_takes,
)
from tests.lock.test_lock_owners import (
    test_a_new_hold_survives_what_settles_a_lost_one,
    test_extend_lengthens_and_never_shortens,
    test_only_the_owner_releases,
    test_the_handle_of_a_lost_hold_does_not_end_the_next_one,
    test_the_owner_knows_that_it_holds,
)

__all__ = [
    "reports",
    "test_a_closed_client",
    "test_a_hold_is_released_from_anywhere",
    "test_a_hold_tells_what_is_held",
    "test_a_lease_that_ends_is_a_loss",
    "test_a_lost_hold_says_so",
    "test_a_new_hold_survives_what_settles_a_lost_one",
    "test_arguments_of_acquire",
    "test_arguments_of_extend",
    "test_arguments_of_the_factory",
    "test_extend_lengthens_and_never_shortens",
    "test_listeners_are_called_once_each",
    "test_names",
    "test_only_the_owner_releases",
    "test_repr_tells_name_and_state",
    "test_the_handle_of_a_lost_hold_does_not_end_the_next_one",
    "test_the_owner_knows_that_it_holds",
    "test_timeouts_that_threading_takes",
    "test_whoever_waits_for_a_loss_is_woken",
    "test_with_never_masks_the_body",
    "test_with_raises_when_the_hold_was_lost",
]


@pytest.fixture(params=SHARED, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give each lock that several owners may hold."""
    return request.param
