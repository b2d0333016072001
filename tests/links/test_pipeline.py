"""When the connection that all tasks share writes.

It writes together what gathers, but not so late that the server has nothing to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import let_others_run

from interlock._links.endpoint import Endpoint
from interlock._links.multiplexer import Multiplexer
from interlock._links.pipeline import Pipeline
from interlock._links.resp import ReplyError, pack
from interlock._links.urls import open_url
from interlock.errors import ServerUnavailableError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def abort(self) -> None:
        """Be closed."""


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def pipeline(recorder: Recorder) -> Pipeline:
    pipeline = Pipeline(Endpoint.from_url("redis://localhost:1"), 60.0)
    pipeline.connection_made(recorder)
    return pipeline


def receive(pipeline: Pipeline, data: bytes) -> None:
    pipeline.get_buffer(-1)[: len(data)] = data
    pipeline.buffer_updated(len(data))


async def test_few_commands_are_written_together(pipeline: Pipeline, recorder: Recorder) -> None:
    """The first command leaves at once, and all others of a loop turn in one write.

    Each reply goes to its own waiter.
    """
    replies = [pipeline.send(command) for command in (b"one", b"two", b"three")]
    assert recorder.writes == [b"one"]
    await let_others_run()
    assert recorder.writes == [b"one", b"twothree"]

    receive(pipeline, b":1\r\n:2\r\n:")
    receive(pipeline, b"3\r\n")
    assert await asyncio.gather(*replies) == [1, 2, 3]
    pipeline.close()


async def test_many_commands_do_not_wait_for_the_end_of_the_turn(
    pipeline: Pipeline, recorder: Recorder
) -> None:
    """Commands leave when as many have gathered as are under way: a thousand take few writes."""
    replies = [pipeline.send(b"%x" % number) for number in range(15)]
    assert recorder.writes == [b"0", b"1234", b"56789"]
    await let_others_run()
    assert recorder.writes == [b"0", b"1234", b"56789", b"abcde"]

    receive(pipeline, b":7\r\n" * 15)
    assert await asyncio.gather(*replies) == [7] * 15
    _ = [pipeline.send(b"x") for _ in range(1000)]
    await let_others_run()
    assert [len(write) for write in recorder.writes[4:]] == [1, 4, 5, 10, 20, 40, 80, 160, 320, 360]
    pipeline.close()


async def test_a_command_in_a_hurry_has_its_time_however_it_is_written(
    pipeline: Pipeline, recorder: Recorder
) -> None:
    """At once, before the turn ends or with it: it is given up like any other."""
    replies = [pipeline._within(0.01, pipeline.send(b"x")) for _ in range(6)]
    await let_others_run()
    assert recorder.writes == [b"x"] * 6

    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*replies, return_exceptions=True)
    for outcome in outcomes:
        assert isinstance(outcome, ServerUnavailableError)
        assert outcome.sent
    pipeline.close()


async def test_who_wants_to_know_first_is_told_first(pipeline: Pipeline) -> None:
    """*then* is called before the waiter of the reply goes on.

    A reply is dropped if its waiter has gone.
    """
    told: list[object] = []
    first, dropped, refused, never = [pipeline.send(b"x", told.append) for _ in range(4)]
    waiting = asyncio.create_task(asyncio.wait_for(first, 10))
    await let_others_run()
    dropped.cancel()
    receive(pipeline, b":1\r\n:2\r\n-ERR no\r\n")
    assert told[0] == 1
    assert not waiting.done()
    assert await waiting == 1
    assert isinstance(await refused, ReplyError)
    assert [str(reply) for reply in told[1:]] == ["ERR no"]
    pipeline.close()
    with pytest.raises(ServerUnavailableError):
        await never
    assert len(told) == 2


def strike(_: object) -> None:
    """Take the place of a function that a Ctrl-C interrupts."""
    raise KeyboardInterrupt


async def test_a_ctrl_c_while_replies_are_read_ends_the_connection(pipeline: Pipeline) -> None:
    """A reply may be lost by it, and then each later one would be another's."""
    told: list[object] = []

    def strike_once(reply: object) -> None:
        told.append(reply)
        if reply == 1:
            raise KeyboardInterrupt

    struck = pipeline.send(b"x", strike_once)
    second = pipeline.send(b"two")
    with pytest.raises(KeyboardInterrupt):
        receive(pipeline, b":1\r\n:2\r\n")
    assert told == [1]
    receive(pipeline, b":3\r\n")
    for slot in (struck, second):
        with pytest.raises(ServerUnavailableError):
            await slot
    with pytest.raises(ServerUnavailableError):
        _ = pipeline.send(b"three")


def test_a_ctrl_c_before_replies_are_read_ends_the_connection(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are received before that, and asyncio drops them."""
    loop = asyncio.new_event_loop()
    pipeline = loop.run_until_complete(Pipeline.open(Endpoint.from_url(redis_url), 60.0))
    slot = pipeline.send(pack(("PING",)))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(pipeline, "buffer_updated", strike)
        loop.run_forever()
    late = pipeline.send(pack(("PING",)))  # it would get what was sent before
    with pytest.raises(ServerUnavailableError):
        loop.run_until_complete(late)
    with pytest.raises(ServerUnavailableError):
        loop.run_until_complete(slot)
    assert pipeline.dead
    loop.run_until_complete(let_others_run())
    loop.close()


async def test_a_ctrl_c_loses_what_begins_with_zero(pipeline: Pipeline) -> None:
    """As the middle of a TLS record may, of which a read gets the rest."""
    slot = pipeline.send(b"x")
    pipeline.get_buffer(-1)[:4] = b"\0:1\r"  # asyncio drops it
    receive(pipeline, b":2\r\n")
    with pytest.raises(ServerUnavailableError, match="interrupted"):
        await slot


async def test_the_last_answers_are_waited_for_within_the_time_out(recorder: Recorder) -> None:
    """Also if the time of the last command began late in a turn of the timer."""
    timeout, loop = 1.0, asyncio.get_running_loop()
    pipeline = Pipeline(Endpoint.from_url("redis://localhost:1"), timeout)
    pipeline.connection_made(recorder)
    _ = pipeline.send(b"one")
    receive(pipeline, b":1\r\n")
    slot, began = pipeline.send(b"two"), loop.time()
    await pipeline.finish()
    assert timeout <= loop.time() - began < 1.8 * timeout
    with pytest.raises(ServerUnavailableError, match="no reply in 1 s"):
        await slot


async def test_a_handler_that_cancels_a_task_ends_no_connection(pipeline: Pipeline) -> None:
    """The replies to other tasks would be lost with it."""

    def cancel(_: object) -> None:
        _ = cancelled.cancel()

    cancelled = pipeline.send(b"x", cancel)
    another = pipeline.send(b"another")
    receive(pipeline, b":1\r\n:2\r\n")
    assert await another == 2
    assert not pipeline.dead
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_ctrl_c_while_a_command_is_sent_ends_the_connection(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it was written, and whose the next reply is."""
    first = pipeline.send(b"one")

    monkeypatch.setattr(pipeline, "_write", strike)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(9):
            _ = pipeline.send(b"many")
    with pytest.raises(ServerUnavailableError):
        _ = pipeline.send(b"another")
    with pytest.raises(ServerUnavailableError):
        await first


async def test_a_ctrl_c_while_waiters_are_told_leaves_none_behind() -> None:
    """The loop goes on with the others when it reports the end of the connection."""
    pipeline = Pipeline(Endpoint.from_url("redis://localhost:1"), 60.0)
    pipeline.connection_made(Recorder())
    slots = [pipeline.send(b"x") for _ in range(3)]
    failing = pipeline._fail

    def struck(slot: asyncio.Future[object], why: str) -> None:
        pipeline._fail = failing  # type: ignore[method-assign]
        raise KeyboardInterrupt

    pipeline._fail = struck  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        pipeline.close()
    pipeline.connection_lost(None)
    for slot in slots:
        with pytest.raises(ServerUnavailableError, match="the client closed it"):
            await slot


async def test_a_ctrl_c_leaves_the_rest_to_the_timer(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sends anything more, and no reply comes."""
    pipeline = Pipeline(Endpoint.from_url("redis://localhost:1"), 0.05)
    pipeline.connection_made(recorder)
    first = pipeline.send(b"one")
    monkeypatch.setattr(pipeline, "_write", strike)
    with pytest.raises(KeyboardInterrupt):
        _ = pipeline.send(b"two")
        pipeline._flush()
    async with asyncio.timeout(30):
        with pytest.raises(ServerUnavailableError):
            await first


def _eager(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object], **_: object
) -> asyncio.Future[Any]:
    """Perform *work*, which waits for nothing, as `asyncio.eager_task_factory` does."""
    ended = loop.create_future()
    try:
        work.send(None)
    except StopIteration as stop:
        ended.set_result(stop.value)
    except ServerUnavailableError as error:
        ended.set_exception(error)
    return ended


async def test_an_eager_task_that_cannot_connect_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may end before its caller gets it: a Unix socket is there at once, or is not.

    The next command connects again.
    """
    tried = 0

    async def refuse(*_: object) -> None:
        nonlocal tried
        tried += 1
        raise ServerUnavailableError("nobody listens")

    monkeypatch.setattr(Pipeline, "open", refuse)
    endpoint = open_url("redis://localhost:1", Options())[0]
    assert isinstance(endpoint, Endpoint)
    whole = Multiplexer(endpoint, 60.0)
    loop = asyncio.get_running_loop()
    loop.set_task_factory(_eager)
    try:
        for _ in range(2):
            with pytest.raises(ServerUnavailableError):
                await whole.connected(endpoint, 60.0)
    finally:
        loop.set_task_factory(None)
    assert tried == 2


async def test_tasks_that_wait_for_one_connection_get_errors_of_their_own() -> None:
    """Each may change its error, and no error has the frames of two tasks."""
    endpoint = Endpoint.from_url("redis://localhost:1")
    whole = Multiplexer(endpoint, 60.0)
    waiting = [whole.connected(endpoint, 60.0) for _ in range(2)]
    first, second = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, ServerUnavailableError)
    assert isinstance(second, ServerUnavailableError)
    assert first is not second
    assert (str(first), first.__cause__) == (str(second), second.__cause__)
