"""The command as a user runs it, with windows as short as they can be."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import redis
from benchmarks.__main__ import main
from benchmarks.compare import Contender
from benchmarks.measure import Case, Pace, measure
from benchmarks.peers import PYTHON, bare
from benchmarks.work import conduct
from benchmarks.works import uncontended
from tests.recorder import Recorder
from tests.support.patience import let_others_run
from tests.support.server import RedisServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

SHORT = ("uncontended", "--seconds=0.1", "--warmup=0.05", "--threads=1,4", "--tasks=1,5")
SLOW = ("portalocker",)  # a tenth of a second a pair
FAST = ",".join(sorted({peer.name for peer in PYTHON} - set(SLOW)))
CASES = [("threads", 1), ("threads", 4), ("tasks", 1), ("tasks", 5)]


@pytest.mark.filterwarnings("default::DeprecationWarning")  # aioredlock's, of distutils
def test_every_peer_is_measured_in_every_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run yields figures and ratios for all contenders, as JSON and as a table."""
    path = tmp_path / "report.json"
    words = ["--rounds=2", "--seed=7", f"--peers={FAST}", "--json", str(path)]
    status = main([*SHORT, *words])
    report = json.loads(path.read_text(encoding="utf-8"))
    results = report["results"]
    assert [result["error"] for result in results if result["error"]] == []
    assert status == 0
    found = [(result["kind"], result["workers"], result["peer"]) for result in results]
    assert found == [
        (*case, peer.name)
        for case in CASES
        for peer in PYTHON
        if peer.kind == case[0] and peer.name not in SLOW
    ]
    for result in results:
        _check_figures(result["figures"]["rate"], rounds=2)
        assert set(result["ratios"]) == {"bare", "redis-py"} - {result["peer"]}
        for ratio in result["ratios"].values():
            _check_figures(ratio, rounds=2)
    table = capsys.readouterr().out
    assert all(
        word in table for word in ("seed 7", "4 threads", "5 tasks", "of bare", *FAST.split(","))
    )
    assert "error" not in table


def _check_figures(figures: dict[str, Any], rounds: int) -> None:
    assert len(figures["rounds"]) == rounds
    order = [figures[name] for name in ("low", "q1", "median", "q3", "high")]
    assert order == sorted(order)
    assert order[0] > 0


def test_json_goes_to_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file --json prints one JSON document; it names the machine and the versions."""
    words = ["--rounds=1", "--threads=1", "--tasks=", "--peers=bare", "--json"]
    assert main([*SHORT, *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["command"]) == (2, "uncontended")
    assert report["columns"].keys() == {"rate", "client", "server"}
    assert set(report["settings"]) == {"rounds", "seconds", "warmup", "seed"}
    assert set(report["server"]) == {"name", "version"}
    assert report["environment"]["cpus"] >= 1
    assert report["environment"]["python"].startswith("CPython 3.")
    assert set(report["peers"]["bare"]) == {"hiredis"}
    (result,) = report["results"]
    assert result["ratios"] == {}


@pytest.mark.parametrize("words", [["--peers=nobody"], ["--threads=0"], ["--rounds=x"]])
def test_a_wrong_option_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An impossible measurement is a usage error, before a server is started."""
    with pytest.raises(SystemExit, match="2"):
        main([*SHORT, *words])
    assert words[0].partition("=")[2] in capsys.readouterr().err


def test_the_server_is_stopped_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is left behind, not even by a run that is interrupted."""
    urls: list[str] = []

    def interrupted(peer: object, workers: int, url: str, pace: Pace) -> None:
        with redis.Redis.from_url(url) as client:
            assert client.ping()
        urls.append(url)
        raise KeyboardInterrupt

    monkeypatch.setattr(uncontended, "measure", interrupted)
    contender = Contender(Case("threads", 1), bare.SYNC)
    work = replace(uncontended.WORK, contenders=(contender,))
    with pytest.raises(KeyboardInterrupt):
        conduct(work, pace=Pace(0, 0.1), rounds=1, seed=1)
    (url,) = urls
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(_connect(urlsplit(url).port))


async def _connect(port: int | None) -> None:
    await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("peer", [bare.SYNC, bare.ASYNC], ids=["threads", "tasks"])
def test_the_bare_limit_is_two_scripts_a_pair(peer: Any) -> None:
    """Every counted pair has cost the server exactly two EVALSHA."""
    with RedisServer() as server, server.client() as client:
        sample = measure(peer, 3, server.url(), Pace(0.0, 1.0))
        assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == 2 * sample.total
        assert 0 < sample.rate <= sample.total


async def test_the_bare_limit_writes_once_a_turn() -> None:
    """The first command leaves at once, the others of one turn of the loop in one write.

    Replies keep their order.
    """
    pipe, recorder = bare.Pipe(), Recorder()
    pipe.connection_made(recorder)
    replies = [pipe.call(command) for command in (b"one", b"two", b"three")]
    assert recorder.writes == [b"one"]
    await let_others_run()
    assert recorder.writes == [b"one", b"twothree"]
    pipe.data_received(b":1\r\n:2\r\n:")
    pipe.data_received(b"3\r\n")
    assert await asyncio.gather(*replies) == [1, 2, 3]


async def test_the_bare_limit_keeps_the_server_busy() -> None:
    """Of many commands in one turn the first leave before its end.

    Further ones leave when they are as many as under way.
    """
    pipe, recorder = bare.Pipe(), Recorder()
    pipe.connection_made(recorder)
    _ = [pipe.call(b"%x" % number) for number in range(15)]
    assert recorder.writes == [b"0", b"1234", b"56789"]
    await let_others_run()
    assert recorder.writes == [b"0", b"1234", b"56789", b"abcde"]
