"""The page of all commands says what the commands say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.make_commands import PAGE, page, parsers

from interlock.cli import main

OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def test_the_page_is_the_one_that_would_be_written() -> None:
    """`python tools/make_commands.py` changes nothing."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("name", sorted(parsers()))
def test_the_page_agrees_with_the_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What --help really prints has each option and each sentence of the page, and no others."""
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"], {})
    assert ended.value.code == 0
    told = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    section = Path(PAGE).read_text().split(f"## interlock {name}\n")[1].split("\n## ")[0]
    _, description, table, epilog, *_ = [*section.split("```"), ""]
    printed = "".join(told.split())
    for row in re.findall(r"^\| .* \| (.*) \|$", table, re.MULTILINE)[1:]:
        assert "".join(row.replace("\\|", "|").split()) in printed
    for part in (description, epilog):
        assert "".join(part.removeprefix("text").split()) in printed
    rows = "\n".join(re.findall(r"^\| (`.*`) \|", table, re.MULTILINE))
    usage = told.split("\n\n")[0]
    assert set(OPTION.findall(rows)) >= set(OPTION.findall(usage)) - {"-h", "--help"}
    assert all(option in told for option in OPTION.findall(rows))
