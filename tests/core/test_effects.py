"""What the core asks of the outside world."""

from __future__ import annotations

import hashlib

from interlock._core.model.calls import Script


def test_script_is_named_by_the_digest_of_its_text() -> None:
    """A script's sha is what EVALSHA takes for its text."""
    double = Script("double", "return 2 * ARGV[1]", bool)
    assert double.sha == hashlib.sha1(b"return 2 * ARGV[1]").hexdigest()
    assert repr(double) == "<Script double>"
