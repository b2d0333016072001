"""The answers that tasks wait for, in C and in Python: each task goes on once, in order."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
import sys
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import hiredis
import pytest
from tests.links.test_resp import NONSENSE, WHOLE, any_reply, same
from tests.support.patience import let_others_run

from interlock._links import answers as module
from interlock._links.answers import Answers, answers
from interlock._links.resp import NO_REPLY, Replies, ReplyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[[], Answers]

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("NUMBER", default=-1)


@pytest.fixture(params=[pytest.param("C", marks=pytest.mark.needs("gcc")), "Python"])
def make(request: pytest.FixtureRequest) -> Make:
    """Give a function that makes the answers of the running loop, of each kind."""
    if request.param == "Python":
        return lambda: Answers(asyncio.get_running_loop(), ReplyError)
    assert module._in_c is not None
    return lambda: answers(asyncio.get_running_loop())


async def waiting(answer: asyncio.Future[object], told: list[object]) -> None:
    """Wait for *answer*, and tell what came."""
    try:
        told.append(await answer)
    except BaseException as error:
        told.append(type(error))
        raise


async def test_each_task_gets_its_reply_in_its_turn(make: Make) -> None:
    """Many replies of one read wake their tasks in the order of the commands."""
    expected, told = make(), list[object]()
    tasks = [asyncio.create_task(waiting(expected.expect(None), told)) for _ in range(100)]
    await let_others_run()
    assert len(expected) == 100
    assert expected.take(b"".join(b":%d\r\n" % number for number in range(99))) == []
    assert told == []
    await let_others_run()
    assert told == list(range(99))
    assert (len(expected), expected.came, expected.served) == (1, 99, True)
    _ = expected.take(b"$-1\r\n")
    await asyncio.gather(*tasks)
    assert told[99] is None


async def test_all_replies_are_read_at_once(make: Make) -> None:
    """If a part of another reply follows, its place is told, and how much of it is missing."""
    expected, told = make(), list[object]()
    reader = hiredis.Reader()
    reader.feed(b"".join(WHOLE))
    for _ in range(1000):
        _ = expected.expect(told.append)
    assert expected.take(b"".join(WHOLE)) == []
    assert len(told) == len(WHOLE)
    assert all(same(value, cast("object", reader.gets())) for value in told)
    assert expected.take(b"") == []
    assert expected.take(b":1\r\n$4\r\nab") == ([], 4, 4)
    assert expected.take(b":1\r\n:2\r\n:") == ([], 8, 1)
    assert told[-3:] == [1, 1, 2]
    for nonsense in NONSENSE:
        assert expected.take(b":1\r\n" + nonsense) == ([], 4, -1)


@pytest.mark.parametrize("seed", range(20))
async def test_pieces_are_joined(make: Make, seed: int) -> None:
    """However the network cuts a stream of replies, all come out as soon as they are whole."""
    chance = random.Random(seed)
    expected, told = make(), list[object]()
    for _ in range(20):
        _ = expected.expect(told.append)
    stream = b"".join(any_reply(chance) for _ in range(20))
    ours, theirs = Replies(expected.take), hiredis.Reader()
    while stream:
        size = chance.randint(1, 60)
        theirs.feed(stream[:size])
        assert ours.read(stream[:size]) == []
        for found in told:
            assert same(found, cast("object", theirs.gets()))
        told.clear()
        stream = stream[size:]
        assert theirs.gets() is False
    assert (ours.wrong, len(expected)) == ("", 0)


async def test_nonsense_follows_whole_replies(make: Make) -> None:
    """The replies before it still count."""
    expected, told = make(), list[object]()
    for _ in range(3):
        _ = expected.expect(told.append)
    replies = Replies(expected.take)
    assert replies.read(b":1\r\n:") == []
    assert told == [1]
    assert replies.read(b"2\r\nnonsense\r\n") == []
    assert told == [1, 2]
    assert replies.wrong == NO_REPLY


async def test_a_reply_before_the_wait_is_kept(make: Make) -> None:
    """Who waits later gets it at once, and as often as it is asked for."""
    expected = make()
    answer = expected.expect(None)
    with pytest.raises(asyncio.InvalidStateError):
        answer.result()
    with pytest.raises(asyncio.InvalidStateError):
        answer.exception()
    assert not answer.done()
    _ = expected.take(b":7\r\n")
    assert (answer.done(), answer.cancelled(), answer.exception()) == (True, False, None)
    assert (await answer, await answer, answer.result()) == (7, 7, 7)
    assert not answer.cancel()


@pytest.mark.parametrize("reply", [b"*2\r\n:1\r\n:2\r\n", b"*0\r\n", b"-ERR no\r\n"])
async def test_a_traced_task_gets_the_same(make: Make, reply: bytes) -> None:
    """A debugger, or a measurement of coverage, makes Python step tasks in another way."""
    expected, told = make(), list[object]()
    former = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        task = asyncio.create_task(waiting(expected.expect(None), told))
        await let_others_run()
        _ = expected.take(reply)
        await task
    finally:
        sys.settrace(former)
    untraced = expected.expect(None)
    _ = expected.take(reply)
    assert str(told) == str([await untraced])


async def test_each_task_goes_on_in_its_own_context(make: Make) -> None:
    """One callback wakes many tasks, and each sees its own context variables."""
    expected, told = make(), list[object]()

    async def numbered(number: int) -> None:
        _ = NUMBER.set(number)
        await expected.expect(None)
        told.append(NUMBER.get())

    tasks = [asyncio.create_task(numbered(number)) for number in range(3)]
    await let_others_run()
    _ = NUMBER.set(9)
    _ = expected.take(b":0\r\n:0\r\n:0\r\n")
    await asyncio.gather(*tasks)
    assert told == [0, 1, 2]


async def test_a_cancelled_task_leaves_its_answer_behind(make: Make) -> None:
    """The reply is dropped when it comes, and the next one goes to the next task."""
    expected, told = make(), list[object]()
    first, second = (asyncio.create_task(waiting(expected.expect(None), told)) for _ in range(2))
    await let_others_run()
    _ = first.cancel("enough")
    _ = first.cancel("again")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await first
    _ = expected.take(b":1\r\n:2\r\n")
    await second
    assert told == [asyncio.CancelledError, 2]


async def test_a_cancellation_comes_even_if_the_reply_has(make: Make) -> None:
    """A task that is cancelled between its reply and its turn is cancelled."""
    expected, told = make(), list[object]()
    task = asyncio.create_task(waiting(expected.expect(None), told))
    await let_others_run()
    _ = expected.take(b":1\r\n")
    assert task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == [asyncio.CancelledError]


async def test_an_error_is_raised_for_the_task(make: Make) -> None:
    """All that was forgotten may be failed, once."""
    expected, told = make(), list[object]()
    task = asyncio.create_task(waiting(expected.expect(None), told))
    await let_others_run()
    [answer] = expected.forget()
    assert len(expected) == 0
    answer.set_exception(ConnectionError("lost"))
    with pytest.raises(asyncio.InvalidStateError):
        answer.set_exception(ConnectionError("twice"))
    with pytest.raises(ConnectionError, match="lost"):
        await task
    with pytest.raises(ConnectionError, match="lost"):
        answer.result()
    assert isinstance(answer.exception(), ConnectionError)
    assert told == [ConnectionError]


async def test_a_reply_that_nobody_waits_for_is_an_error(make: Make) -> None:
    """The replies before it count, and so does what is no whole reply."""
    expected = make()
    answer = expected.expect(None)
    assert expected.take(b"") == []
    assert expected.take(b":1\r\n$4\r\nab") == ([], 4, 4)
    assert await answer == 1
    with pytest.raises(IndexError):
        _ = expected.take(b":2\r\n")
    _ = expected.expect(None), expected.expect(None)
    assert expected.take(b"-ERR no\r\nnonsense\r\n") == ([], 9, -1)


async def test_an_error_of_the_server_is_a_reply(make: Make) -> None:
    """It does not say that the server serves."""
    expected = make()
    answer = expected.expect(None)
    _ = expected.take(b"-ERR no\r\n")
    assert isinstance(await answer, ReplyError)
    assert (expected.came, expected.served) == (1, False)


async def test_who_asked_first_is_told_first(make: Make) -> None:
    """`then` is called while the reply is read; not for an answer that was given up."""
    expected, told = make(), list[object]()
    kept, dropped = expected.expect(told.append), expected.expect(told.append)
    _ = dropped.cancel()
    _ = expected.take(b":1\r\n:2\r\n")
    assert told == [1]
    assert kept.done()

    def give_up(_: object) -> None:
        _ = late.cancel()

    late = expected.expect(give_up)
    _ = expected.take(b":3\r\n")
    assert late.cancelled()


async def test_who_is_told_hears_of_the_error_in_place_of_a_reply(make: Make) -> None:
    """Before its task goes on; not for an answer that was given up or has come."""
    expected, told = make(), list[object]()
    came, lost, dropped = (expected.expect(told.append) for _ in range(3))
    _ = expected.take(b":1\r\n")
    _ = dropped.cancel()
    error = ConnectionError("lost")
    assert expected.forget() == [lost, dropped]
    for slot in (came, lost, dropped):
        with suppress(asyncio.InvalidStateError):
            slot.set_exception(error)
    assert told == [1, error]
    assert lost.exception() is error
    assert came.result() == 1


async def test_an_answer_is_freed_with_its_last_reference(make: Make) -> None:
    """Whom it told may know it: that makes no work for the garbage collector."""

    class Knows:
        slot: object = None

        def told(self, _: object) -> None:
            pass

    expected, knows = make(), Knows()
    knows.slot = expected.expect(knows.told)
    gone = weakref.ref(knows)
    _ = expected.take(b":1\r\n")
    del knows
    assert gone() is None


async def test_asyncio_takes_it_for_a_future(make: Make) -> None:
    """`wait`, `wait_for`, `gather` and `shield` work, and callbacks may be taken back."""
    expected, told = make(), list[object]()
    answers = [expected.expect(None) for _ in range(3)]
    assert all(map(asyncio.isfuture, answers))
    done, pending = await asyncio.wait(answers, timeout=0)
    assert (done, pending) == (set(), set(answers))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(answers[0]), 0.001)
    for callback in (told.append, print, told.append):
        answers[0].add_done_callback(callback)
    assert answers[0].remove_done_callback(print) == 1
    assert answers[0].remove_done_callback(print) == 0
    _ = expected.take(b":1\r\n:2\r\n:3\r\n")
    assert await asyncio.wait_for(answers[0], 60) == 1
    assert await asyncio.gather(*answers) == [1, 2, 3]
    answers[2].add_done_callback(told.append)
    await let_others_run()
    assert told == [answers[0], answers[0], answers[2]]
    assert (await asyncio.wait(answers))[0] == set(answers)


async def test_asyncio_can_tell_which_task_is_slow() -> None:
    """In its debug mode, each task is woken by a callback of its own."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    try:
        assert isinstance(answers(loop), Answers)
    finally:
        loop.set_debug(False)


async def test_a_task_that_gathers_answers_can_be_cancelled(make: Make) -> None:
    """The last answer is asked for the error, whether or not that was given up."""
    expected = make()
    for came in (b"", b":1\r\n"):
        answers = [expected.expect(None) for _ in range(2)]
        task = asyncio.ensure_future(asyncio.gather(*answers, return_exceptions=True))
        await let_others_run()
        _ = expected.take(came)
        _ = task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        assert answers[0].cancelled() is (came == b"")
        _ = expected.forget()


async def test_an_answer_that_a_ctrl_c_struck_is_forgotten_with_the_others(make: Make) -> None:
    """Its reply is lost, and its task must hear of that."""
    expected = make()

    def strike(_: object) -> None:
        _ = [expected.expect(None) for _ in range(40)]
        raise KeyboardInterrupt

    struck = expected.expect(strike)
    second = expected.expect(None)
    with pytest.raises(KeyboardInterrupt):
        _ = expected.take(b":1\r\n:2\r\n")
    assert expected.forget()[:2] == [struck, second]


async def test_a_callback_that_fails_stops_no_other(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is told of it."""
    expected, told, complaints = make(), list[object](), list[Any]()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_exception_handler", complaints.append)
    answer, another = expected.expect(None), expected.expect(None)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    answer.add_done_callback(fail)
    answer.add_done_callback(told.append)
    another.add_done_callback(told.append)
    _ = expected.take(b":1\r\n:2\r\n")
    await let_others_run()
    assert told == [answer, another]
    assert [type(each["exception"]) for each in complaints] == [ZeroDivisionError]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Give a loop that does not run."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """Run one turn of *loop*."""
    loop.call_soon(loop.stop)
    loop.run_forever()


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_ctrl_c_in_one_task_loses_no_other(
    loop: asyncio.AbstractEventLoop, error: type[BaseException]
) -> None:
    """It leaves the loop, and the others are woken when the loop goes on."""
    expected, told = answers(loop), list[object]()
    slots = [expected.expect(None) for _ in range(4)]

    def strike(_: object) -> None:
        _ = expected.take(b":4\r\n")
        raise error

    slots[0].add_done_callback(told.append)
    slots[1].add_done_callback(strike)
    slots[1].add_done_callback(told.append)
    slots[2].add_done_callback(told.append)
    slots[3].add_done_callback(told.append)
    _ = expected.take(b":1\r\n:2\r\n:3\r\n")
    with pytest.raises(error):
        turn(loop)
    assert told == slots[:1]
    turn(loop)
    assert told == slots


@pytest.mark.needs("gcc")
def test_a_ctrl_c_before_the_loop_knows_is_made_up_for(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next answer tells the loop of both."""
    expected, told = answers(loop), list[object]()
    slots = [expected.expect(None) for _ in range(2)]
    for slot in slots:
        slot.add_done_callback(told.append)

    def strike(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loop, "call_soon", strike)
        _ = expected.take(b":1\r\n:2\r\n")
    for slot in expected.forget():
        slot.set_exception(ConnectionError("lost"))
    turn(loop)
    assert told == slots
    assert slots[0].result() == 1


@pytest.mark.needs("gcc")
def test_a_ctrl_c_before_the_loop_knows_of_the_last_answer(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other answer may come, so the loop is told at once."""
    expected, told, strikes = answers(loop), list[object](), [KeyboardInterrupt()]
    slot = expected.expect(None)
    slot.add_done_callback(told.append)
    call_soon: Any = loop.call_soon

    def strike(callback: object) -> object:
        if strikes:
            raise strikes.pop()
        return call_soon(callback)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loop, "call_soon", strike)
        _ = expected.take(b":1\r\n")
    turn(loop)
    assert told == [slot]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("then", ["another comes", "it is given up", "another is given up"])
def test_a_ctrl_c_where_the_loop_begins_to_wake_tasks(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """The loop drops the callback, and another one is made as soon as anything happens."""
    expected, told = answers(loop), list[object]()
    came, other = (expected.expect(None) for _ in range(2))
    for slot in (came, other):
        slot.add_done_callback(told.append)
    call_soon: Any = loop.call_soon
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon", lambda callback: call_soon(callback).cancel() or 1)
        _ = expected.take(b":1\r\n")
    turn(loop)
    assert told == []
    if then == "another comes":
        _ = expected.take(b":2\r\n")
    else:
        given_up = came if then == "it is given up" else other
        assert given_up.cancel() is (given_up is other)
    turn(loop)
    assert told == ([came] if then == "it is given up" else [came, other])


async def test_what_nobody_refers_to_is_freed(make: Make) -> None:
    """Answers that never came keep nothing alive."""

    class Told:
        def __call__(self, reply: object) -> None:
            """Take *reply*."""

    expected, then = make(), Told()
    answer, gone = expected.expect(then), weakref.ref(then)
    answer.add_done_callback(partial(print, answer))
    del expected, then, answer
    _ = gc.collect()
    assert gone() is None


@pytest.mark.needs("gcc")
async def test_wrong_arguments_are_refused() -> None:
    """They raise, and nothing else happens."""
    expected: Any = answers(asyncio.get_running_loop())
    answer = expected.expect(None)
    for call, arguments in (
        (type(expected), ()),
        (type(answer), ()),
        (expected.take, ("text",)),
        (answer.cancel, (1, 2)),
        (answer.add_done_callback, ()),
        (answer.add_done_callback, (1, 2)),
    ):
        with pytest.raises(TypeError):
            call(*arguments)
    with pytest.raises(asyncio.InvalidStateError):
        answer.set_exception("no error")
    assert not answer.done()


async def test_a_cancellation_by_a_handler_while_a_reply_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler may cancel a task just when its reply is read; the next reply still comes.

    No handler runs within the part in C.
    """
    expected = Answers(asyncio.get_running_loop(), ReplyError)
    first, second = expected.expect(None), expected.expect(None)
    stricken = Mock(wraps=first)
    stricken.done.side_effect = lambda: first.cancel() and False
    monkeypatch.setattr(expected, "_slots", deque([stricken, second]))
    assert expected.take(b":1\r\n:2\r\n") == []
    assert first.cancelled()
    assert await second == 2
