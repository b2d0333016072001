"""trio's driver keeps what the others keep: the cases of every lock-like, in tasks of trio's.

A driver knows four sorts of waiting, and they run with a lock of each: in a queue, or in pauses.
A multi lock waits at one server after the other, and a red lock at all of them.
"""

from __future__ import annotations

import pytest
from tests.hosts.trio_face import TrioFace
from tests.lock.conftest import (
    other_servers,
    plain,
    stage,
    urls,
)
from tests.lock.lock_like import Kind, kind_of
from tests.lock.test_lock_crowds import (
    test_three_owners_in_turn,
)
from tests.lock.test_lock_holds import (
    reports,
    test_a_hold_entered_again_outlives_its_first_handle,
    test_a_hold_is_released_from_anywhere,
    test_a_hold_released_inside_leaves_the_outer_one,
    test_a_hold_tells_what_is_held,
    test_a_lease_that_ends_is_a_loss,
    test_a_lost_hold_says_so,
    test_an_empty_hold_names_the_holder,
    test_entering_a_lost_hold_raises,
    test_leaving_a_hold_releases_it,
    test_leaving_a_lost_hold_raises,
    test_listeners_are_called_once_each,
    test_one_named_owner_in_many_places,
    test_one_waits_no_longer_than_its_own_timeout,
    test_repr_tells_name_and_state,
    test_try_lock_gives_a_hold,
    test_trying,
    test_two_acquire_at_once_under_one_word,
    test_two_owners_release_one_hold,
    test_whoever_waits_for_a_loss_is_woken,
    test_with_holds_and_releases,
    test_with_never_masks_the_body,
    test_with_raises_when_the_hold_was_lost,
)
from tests.lock.test_lock_input import (
    test_a_closed_client,
)
from tests.lock.test_lock_owners import (
    test_a_hold_without_lease_is_renewed,
    test_a_lease_ends_by_itself,
    test_a_lock_may_be_left_to_its_lease,
    test_a_new_hold_survives_what_settles_a_lost_one,
    test_a_timeout_is_kept,
    test_a_waiter_gets_it_on_release,
    test_close_releases_and_ends_all,
    test_extend_lengthens_and_never_shortens,
    test_force_release_frees_it_for_the_next,
    test_no_other_owner_gets_it,
    test_only_the_owner_releases,
    test_the_handle_of_a_lost_hold_does_not_end_the_next_one,
    test_the_owner_enters_again,
    test_the_owner_knows_that_it_holds,
)

__all__ = [
    "other_servers",
    "plain",
    "reports",
    "stage",
    "test_a_closed_client",
    "test_a_hold_entered_again_outlives_its_first_handle",
    "test_a_hold_is_released_from_anywhere",
    "test_a_hold_released_inside_leaves_the_outer_one",
    "test_a_hold_tells_what_is_held",
    "test_a_hold_without_lease_is_renewed",
    "test_a_lease_ends_by_itself",
    "test_a_lease_that_ends_is_a_loss",
    "test_a_lock_may_be_left_to_its_lease",
    "test_a_lost_hold_says_so",
    "test_a_new_hold_survives_what_settles_a_lost_one",
    "test_a_timeout_is_kept",
    "test_a_waiter_gets_it_on_release",
    "test_an_empty_hold_names_the_holder",
    "test_close_releases_and_ends_all",
    "test_entering_a_lost_hold_raises",
    "test_extend_lengthens_and_never_shortens",
    "test_force_release_frees_it_for_the_next",
    "test_leaving_a_hold_releases_it",
    "test_leaving_a_lost_hold_raises",
    "test_listeners_are_called_once_each",
    "test_no_other_owner_gets_it",
    "test_one_named_owner_in_many_places",
    "test_one_waits_no_longer_than_its_own_timeout",
    "test_only_the_owner_releases",
    "test_repr_tells_name_and_state",
    "test_the_handle_of_a_lost_hold_does_not_end_the_next_one",
    "test_the_owner_enters_again",
    "test_the_owner_knows_that_it_holds",
    "test_three_owners_in_turn",
    "test_try_lock_gives_a_hold",
    "test_trying",
    "test_two_acquire_at_once_under_one_word",
    "test_two_owners_release_one_hold",
    "test_whoever_waits_for_a_loss_is_woken",
    "test_with_holds_and_releases",
    "test_with_never_masks_the_body",
    "test_with_raises_when_the_hold_was_lost",
    "urls",
]


@pytest.fixture
def face() -> TrioFace:
    """Give trio."""
    return TrioFace()


@pytest.fixture(params=["lock", "spin", "multi", "red"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give each of these in turn."""
    return kind_of(request.param)
