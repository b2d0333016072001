"""A lock that two owners hold promises what every lock-like does: the cases of tests/objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.objects.conftest import place, stage, whole_place
from tests.objects.kinds import Kind
from tests.objects.test_blocks import (
    test_a_block_is_left_by_another_actor,
    test_a_block_never_masks_its_body,
    test_a_block_that_lost_its_hold_raises,
    test_a_loss_is_told_where_the_block_is_left,
)
from tests.objects.test_holds_and_losses import (
    test_a_forced_release_is_told,
    test_a_hold_is_released_from_anywhere,
    test_a_hold_tells_what_is_held,
    test_a_lease_that_ends_is_a_loss,
    test_listeners_are_called_once_each,
)
from tests.objects.test_lock_likes import (
    test_extend_lengthens_and_never_shortens,
    test_only_the_owner_releases,
    test_the_owner_enters_again,
    test_the_owner_knows_that_it_holds,
    test_who_lost_it_takes_it_anew,
)
from tests.objects.worlds import WORLDS
from tests.operations.room_lock import room_lock

if TYPE_CHECKING:
    from tests.objects.worlds import World

__all__ = [
    "place",
    "stage",
    "test_a_block_is_left_by_another_actor",
    "test_a_block_never_masks_its_body",
    "test_a_block_that_lost_its_hold_raises",
    "test_a_forced_release_is_told",
    "test_a_hold_is_released_from_anywhere",
    "test_a_hold_tells_what_is_held",
    "test_a_lease_that_ends_is_a_loss",
    "test_a_loss_is_told_where_the_block_is_left",
    "test_extend_lengthens_and_never_shortens",
    "test_listeners_are_called_once_each",
    "test_only_the_owner_releases",
    "test_the_owner_enters_again",
    "test_the_owner_knows_that_it_holds",
    "test_who_lost_it_takes_it_anew",
    "whole_place",
]
pytestmark = pytest.mark.usefixtures("room_row")


@pytest.fixture(params=["threads", "asyncio"])
def world(request: pytest.FixtureRequest) -> World:
    """Give each face."""
    return WORLDS[request.param]()


@pytest.fixture
def kind() -> Kind:
    """Give the room lock."""
    return Kind(
        "room", lambda clients, name, **options: room_lock(clients[0], name, **options), shared=True
    )
