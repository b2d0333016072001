"""HighwayHash-128: Redisson's names of values are ours."""

from __future__ import annotations

import pytest
from tests.interop import fixtures

from interlock._core.model.highway_hash import field


@pytest.mark.parametrize("vector", fixtures.read(fixtures.FIELDS), ids=repr)
def test_redissons_names(vector: dict[str, str]) -> None:
    """A value is called in a group what Redisson calls it with a StringCodec."""
    assert field(vector["value"]) == vector["field"]
