"""What was learnt of one server."""

from __future__ import annotations

from interlock.check.facts import Facts

FACTS = Facts(info={"maxmemory": 7, "role": "master", "odd": "x"})


def test_a_number_of_info_is_0_if_it_is_missing() -> None:
    """A number that the server did not tell, or that is none, is 0."""
    assert (FACTS.number("maxmemory"), FACTS.number("odd"), Facts().number("any")) == (7, 0, 0)


def test_a_word_of_info_is_empty_if_it_is_missing() -> None:
    """A word that the server did not tell is empty."""
    assert (FACTS.word("role"), FACTS.word("any"), Facts().word("any")) == ("master", "", "")
