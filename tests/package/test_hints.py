"""Hints name our word for another library's, and leave no trace in help."""

from __future__ import annotations

import copy
import inspect
import pydoc
import re
from typing import Any

import pytest

import interlock
import interlock.asyncio
from interlock._hints import KEYWORDS, NAMES, did_you_mean, told

CLASSES = [
    getattr(module, name)
    for module in (interlock, interlock.asyncio)
    for name in ("Lock", "Hold", "Client", "Semaphore", "ReadWriteLock", "CountDownLatch", "Event")
]


@pytest.mark.parametrize("cls", CLASSES)
def test_help_shows_what_users_may_use(cls: type) -> None:
    """No class has a metaclass, a stand-in for an argument, or another library's name in help."""
    assert type(cls) is type
    text = pydoc.plain(pydoc.render_doc(cls))
    for word in ("NOT_GIVEN", "unlock", "tryLock", "getLock", "Suggesting"):
        assert word not in text
    assert not {"unlock", "tryLock", "getLock"} & set(dir(cls))


def test_a_wrapped_call_keeps_its_signature() -> None:
    """The signature of a method that explains keywords is the written one."""
    parameters = inspect.signature(interlock.Client.lock).parameters
    assert list(parameters) == ["self", "name", "timeout", "lease", "reentrant"]


@pytest.mark.parametrize("face", [interlock, interlock.asyncio], ids=["sync", "asyncio"])
def test_an_acquire_keeps_its_signature(face: Any) -> None:
    """What catches keywords of other libraries is not shown."""
    for method in (
        face.Lock.acquire,
        face.Semaphore.acquire,
        face.LeasedSemaphore.acquire,
    ):
        kinds = {each.kind for each in inspect.signature(method).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("face", [interlock, interlock.asyncio], ids=["sync", "asyncio"])
async def test_a_keyword_of_another_library(face: Any) -> None:
    """Factories and acquires name our word for it, and Python's own error does elsewhere."""
    client: Any = face.connect("redis://localhost:1")
    lock, semaphore = client.lock("x"), client.semaphore("x")
    leased = client.leased_semaphore("x")
    calls: tuple[tuple[Any, str, str], ...] = (
        (lambda **more: client.lock("x", **more), "blocking_timeout", "timeout=seconds"),
        (lambda **more: client.multi_lock(lock, **more), "ex", "lease=seconds"),
        (lambda **more: client.election("x", **more), "ttl", "lease=seconds"),
        (lambda **more: client.try_lock("x", **more), "expire", "lease=seconds"),
        (lock.acquire, "auto_renewal", "lease=seconds"),
        (lock.acquire, "force", r"force_release\(\)"),
        (lock.release, "force", r"force_release\(\)"),
        (lambda **more: client.lock("x", **more), "thread_local", "nothing: a hold belongs to"),
        (semaphore.acquire, "wait_time", "timeout=seconds"),
        (leased.acquire, "lease_time", "lease=seconds"),
    )
    for function, keyword, ours in calls:
        with pytest.raises(TypeError, match=rf"keyword argument '{keyword}': use {ours}"):
            await _run(function(**{keyword: 5}))
        with pytest.raises(TypeError, match=r"keyword argument 'nonsense'$"):
            await _run(function(nonsense=5))
    with pytest.raises(TypeError, match="keyword argument 'ttl': use lease=seconds"):
        face.connect("redis://localhost:1", outage_timeout=5, ttl=5)
    with pytest.raises(TypeError, match=r"keyword argument 'ttl'$"):
        await _run(semaphore.acquire(ttl=5))  # its permits have no lease
    with pytest.raises(TypeError, match="keyword argument 'ttl'"):
        await _run(lock.extend(ttl=5))


async def _run(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize("face", [interlock, interlock.asyncio], ids=["sync", "asyncio"])
def test_what_is_answered_exists(face: Any) -> None:
    """The tables name attributes and parameters that are there."""
    classes = [value for name in face.__all__ if inspect.isclass(value := getattr(face, name))]
    for ours in NAMES:
        word = re.split(r"\W", ours)[0]
        assert word == "client" or any(hasattr(cls, word) for cls in classes), ours
    parameters = {
        parameter
        for name, method in vars(face.Client).items()
        if not name.startswith("_") and callable(method)
        for parameter in inspect.signature(method).parameters
    }
    assert {needs for needs, _ in KEYWORDS.values()} <= {"", *parameters}


def test_the_callers_error_is_not_ours() -> None:
    """A TypeError from inside a call goes on as it is."""

    @told
    def work(*, timeout: float) -> None:
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        work(timeout=1)
    mistaken: Any = work
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'ttl'$"):
        mistaken(ttl=1)


def test_an_attribute_that_nobody_has() -> None:
    """A name that no library uses gets Python's own words."""
    with interlock.connect("redis://localhost:1") as client:
        lock: Any = client.lock("x")
        with pytest.raises(AttributeError, match=r"no attribute 'unlock': use release\(\)"):
            _ = lock.unlock
        with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
            _ = lock.nonsense


def test_a_question_names_the_nearest_word() -> None:
    """The nearest word is asked for; if none is near, all are told."""
    assert did_you_mean("timout", ["lease", "timeout"]) == "did you mean 'timeout'?"
    assert did_you_mean("xyz", ["b", "a"]) == "there are a, b"


@pytest.mark.parametrize("name", ["lock", "Redlock", "single"])
def test_an_import_tells_as_an_attribute_does(name: str) -> None:
    """`from interlock import lock` has the words of `interlock.lock`, and is an ImportError."""
    with pytest.raises(ImportError, match=r"use interlock\.connect\(url\)"):
        exec(f"from interlock import {name}", {})
    assert not hasattr(interlock, name)
    with pytest.raises(ImportError, match=r"\(.*__init__\.py\)$"):
        exec("from interlock import nonsense", {})


def test_the_package_knows_the_names_of_its_client() -> None:
    """The package names `connect` for each method of a client that it lacks and that makes things.

    Python itself does not guess another name.
    """
    made = {
        name
        for name, value in vars(interlock.Client).items()
        if callable(value)
        and not name.startswith("_")
        and name.endswith(("lock", "semaphore", "ed", "single", "event"))
    }
    assert {"lock", "try_lock", "locked", "limited", "single", "semaphore"} <= made
    for name in made:
        with pytest.raises(
            AttributeError, match=rf"use interlock\.connect\(url\)\.{name}\("
        ) as told:
            getattr(interlock, name)
        assert told.value.name == ""


def test_what_the_package_names_is_a_method_of_its_client() -> None:
    """Each method that the package names for another word is there."""
    for text in interlock._ELSEWHERE.values():
        for name in re.findall(r"connect\(url\)\.(\w+)", text):
            assert callable(getattr(interlock.Client, name)), text


def test_a_copy_is_refused_as_a_copy() -> None:
    """The message does not speak of pickles alone: users do not know that a copy makes one."""
    with (
        interlock.connect("redis://localhost:1") as client,
        pytest.raises(TypeError, match="cannot be pickled or copied"),
    ):
        copy.copy(client.lock("name"))


@pytest.mark.parametrize("face", [interlock, interlock.asyncio], ids=["sync", "asyncio"])
def test_a_setting_that_comes_too_late_is_told(face: Any) -> None:
    """No object takes an attribute that it would ignore, and none shows one for that."""
    client: Any = face.connect("redis://localhost:1")
    lock = client.lock("x")
    objects = [
        client,
        lock,
        client.read_write_lock("x"),
        client.multi_lock(lock),
        client.condition(lock),
        client.semaphore("x"),
        client.leased_semaphore("x"),
        client.count_down_latch("x"),
        client.event("x"),
        client.barrier("x", 2),
        client.election("x"),
        client.limited("x", 2),
        object.__new__(face.Hold),
        object.__new__(face.Permit),
    ]
    for each in objects:
        with pytest.raises(AttributeError, match="no attribute 'lease_time'"):
            each.lease_time = 5
        assert {"core", "driver"}.isdisjoint(dir(type(each)))
