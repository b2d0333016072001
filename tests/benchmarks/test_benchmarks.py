"""Each benchmark runs, and its figures make sense."""

from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.__main__ import main
from benchmarks.figures import NothingCountedError, OverlapError, check_exclusive, summarise, turns
from benchmarks.measure import Case
from benchmarks.process import ROOT

from benchmarks import programs, version

if TYPE_CHECKING:
    from pathlib import Path

SHORT = ("--slices", "2", "--seconds", "0.3")


def measured(directory: Path, *words: str) -> list[dict[str, Any]]:
    """Return the results of one benchmark, none of which is an error."""
    assert main([*words, "--output", str(directory)]) == 0
    [results] = json.loads((directory / "report.json").read_text()).values()
    assert results
    return list(results)


def check_scripts(result: dict[str, Any], figures: dict[str, float], expected: int) -> None:
    """Find *expected* scripts a pair, but for those of pairs that were half in the window."""
    edges = 2 * expected * Case.parse(result["case"]).workers / figures["turns"]
    assert figures["scripts"] == pytest.approx(expected, abs=0.3 + edges), result


@pytest.mark.timeout(300)
def test_uncontended_pairs(tmp_path: Path) -> None:
    """A pair of ours is two scripts, and one of redis-py's a SET and a script."""
    words = ("--case", "1x2 threads", "--case", "1x4 tasks", "--peers", "interlock,redis-py")
    results = measured(tmp_path, "uncontended", *words, *SHORT)
    assert [(each["case"], each["lock"]) for each in results] == [
        ("1x2 threads", "interlock"),
        ("1x2 threads", "redis-py"),
        ("1x4 tasks", "interlock"),
        ("1x4 tasks", "redis-py"),
    ]
    for each in results:
        for figures in each["slices"]:
            check_scripts(each, figures, 1 if each["lock"] == "redis-py" else 2)
            assert figures["client"] > 0
            assert figures["server"] > 0
    page = (tmp_path / "report.md").read_text()
    assert "| 1x2 threads | interlock " in page
    assert "![uncontended](uncontended.svg)" in page
    assert "pairs/s" in (tmp_path / "uncontended.svg").read_text()


@pytest.mark.timeout(300)
def test_a_fleet_beside_another_version(tmp_path: Path) -> None:
    """Both versions take turns with python-redis-lock; the table has the ratios."""
    other = tmp_path / "other"
    shutil.copytree(ROOT / "src", other / "src")
    words = ("--against", str(other), "--case", "2x1 threads, 1 ms")
    results = measured(tmp_path, "fleet", *words, *SHORT)
    assert [each["lock"] for each in results] == [
        "interlock",
        "interlock (other)",
        "python-redis-lock",
    ]
    for each in results:
        for figures in each["slices"]:
            assert 0 < figures["rate"] < 1000  # a turn has 1 ms of work
            assert figures["longest"] > 0
            assert figures["uneven"] >= 1
    assert "of the other version" in (tmp_path / "report.md").read_text()


@pytest.mark.timeout(300)
def test_a_hand_over(tmp_path: Path) -> None:
    """A message hands the lock over sooner than a look ten times a second."""
    results = measured(tmp_path, "handoff", "--peers", "interlock", *SHORT)
    assert [each["case"] for each in results] == ["2x1 threads", "2x1 tasks"]
    for each in results:
        assert all(0 < figures["p50"] <= figures["p99"] for figures in each["slices"])


@pytest.mark.timeout(300)
def test_objects(tmp_path: Path) -> None:
    """Objects that need something before their first pair run in both faces: two scripts a pair."""
    names = ("leased semaphore", "re-entry", "extend")
    results = measured(tmp_path, "objects", "--short", "--peers", ",".join(names))
    cases = ("1x1 threads", "1x100 tasks")
    assert [(each["case"], each["lock"]) for each in results] == [
        (case, name) for case in cases for name in names
    ]
    for each in results:
        check_scripts(each, each["slices"][0], 2)


@pytest.mark.needs("go", "java", "postgresql")
@pytest.mark.timeout(600)  # the first build asks registries
def test_the_peers_in_other_languages(tmp_path: Path) -> None:
    """Redisson, rueidislock and PostgreSQL exclude as well, and are measured in the same way."""
    words = ("--peers", "redisson,rueidislock,postgresql", "--case", "2x2 threads, 1 ms")
    results = measured(tmp_path, "fleet", *words, *SHORT)
    assert [each["lock"] for each in results] == ["redisson", "rueidislock", "postgresql"]
    assert all(0 < figures["rate"] < 1000 for each in results for figures in each["slices"])


def test_a_peer_that_fails_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An error stands in the table in place of figures, and in the exit status."""

    def missing(_peer: str) -> None:
        programs.run(["no-such-tool"], tmp_path)

    monkeypatch.setattr(programs, "command", missing)
    assert main(["uncontended", "--peers", "interlock", "--case", "1x1 threads", *SHORT]) == 1
    assert "BuildError: no-such-tool is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fleets"], "no such benchmark: fleets"),
        (["fleet", "--case", "8 threads"], "invalid parse value"),
        (["fleet", "--peers", "zookeeper"], "no such lock: zookeeper"),
        (["fleet", "--against", str(ROOT)], "is this version"),
        (["fleet", "--against", "no-such-commit"], "no-such-commit"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be measured is refused before anything starts."""
    with pytest.raises(SystemExit):
        main(words)
    assert message in capsys.readouterr().err


def test_versions_that_are_not_compiled_alike(tmp_path: Path) -> None:
    """A version without its parts in C is not compared with one that has them."""
    (tmp_path / "src" / "interlock").mkdir(parents=True)
    if version.compiled(ROOT):
        with pytest.raises(ValueError, match=r"setup.py build_ext"), version.other(str(tmp_path)):
            pass


def test_two_holders_are_found() -> None:
    """Turns of any workers that overlap are an error; those that only touch are not."""
    check_exclusive([turns([0, 1, 2, 2, 4, 5]), turns([0, 2, 4])])
    with pytest.raises(OverlapError):
        check_exclusive([turns([0, 1, 9]), turns([0, 2, 3])])


def test_the_figures_of_turns() -> None:
    """Turns count in the window, and waits that overlap it."""
    one, two = turns([0, 1, 2, 2, 6, 7]), turns([1, 2, 3, 3, 4, 5, 5, 12, 13])
    found = summarise([one, two], 1.5, 10)
    assert found["turns"] == 3
    assert found["rate"] == pytest.approx(3 / 8.5)
    assert found["uneven"] == 2
    assert found["longest"] == 7
    assert summarise([one, turns([0, 20, 21])], 0, 10)["uneven"] == math.inf
    with pytest.raises(NothingCountedError):
        summarise([one], 20, 30)


@pytest.mark.parametrize("text", ["8x1 threads", "4x100 tasks, 1 ms", "2x3 threads, 0.5 ms"])
def test_a_case_is_written_as_it_is_read(text: str) -> None:
    """The command line takes what the table prints."""
    assert str(Case.parse(text)) == text
