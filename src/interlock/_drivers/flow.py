"""Who calls: the owner that stands for what runs in the calling thread.

Theory. Threads are pooled, and locks are reentrant. If the thread were the owner, the next job of a
pool would enter the hold that the job before it has left open, as a dependency of FastAPI does. So
the owner is the *flow*: the thread in its present context, and in an event loop the task.

A thread has one owner at first. While that holds something for another flow, the caller is another
owner beside it, and both wait for each other as two threads do.

* When an owner that holds nothing is asked for, it begins a *scope*: a new list of holds, which also
  goes into the context. Who has that list in its context is the same flow. So the next job of a pool
  that runs each job in a context of its own is another one, and so is a context that was copied
  before. A copy that was made since is the same flow: ``copy_context().run()`` in a block.
* Until the first hold is in the scope, None is. A signal handler in another context sees by that
  that its thread may be about to acquire, and is an owner beside that one.
* In place of the list a pool's job has a `Mark` in its context, to which the owner refers weakly.
  When it is gone, the context has ended, and the job of that owner is over.
* Jobs of an executor may share the context of their thread, and so do those that a process of a
  pool takes. So in a pool that is known here, the job must be the same, too. asgiref hands the
  context on from one job of a request to the next, so there the context decides alone.
* A task is an owner whatever its context is. The callbacks of a loop are flows in their contexts.
* A greenlet has a context of its own, so it is a flow, too.

`Holds` enters each hold in the scope of its owner, and takes it out again.

The part in C (`owner_of_flow`) answers for a thread with one owner where no loop runs, which is the
usual case. Nothing else decides what a flow is.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from interlock._core.model.hold import HELD, Owner, Reference
from interlock._drivers.process import lifecycle
from interlock._drivers.process.thread_local import for_each, in_c
from interlock._misuse import warn_in_event_loop
from interlock.errors import ReentryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from interlock._core.locks.base import Lock
    from interlock._core.model.hold import Scope

_modules = sys.modules

_EXECUTOR, _THREAD_POOL = "concurrent.futures.thread", "multiprocessing.pool"
_POOLS = {
    (_EXECUTOR, "_worker"): "work_item",
    ("concurrent.futures.process", "_process_worker"): "call_item",
    (_THREAD_POOL, "worker"): "completed",
    ("billiard.pool", "Worker.workloop"): "completed",
    ("anyio._backends._asyncio", "WorkerThread.run"): "future",
    ("trio._core._thread_cache", "WorkerThread._work"): "",
}
"""The module and the function that takes the jobs of a pool's thread, or of a process that has one.

The variable has the present job, or counts those before. None is needed where each job has a
context of its own.
"""
_ALONE = (
    "job of a pool with this one thread, so nobody could release it: use a whole `with` block "
    "in one job, or in async code interlock.asyncio"
)
_HERE = (
    "context, which cannot go on while this one waits: take it in one of them, or pass the Hold, "
    "and in async code use interlock.asyncio"
)
_LOOP = (
    "task or callback, which cannot go on while this one waits: use interlock.asyncio or "
    "interlock.trio"
)


class Mark:
    """What a context has in place of a scope; it ends with the context.

    Attributes:
        outer: what the context had before, if something is still held by that. asgiref takes the
            context of a job back to the code that called it, which goes on by that.
    """

    __slots__ = ("__weakref__", "outer", "scope")

    def __init__(self, scope: Scope, outer: Mark | Scope | None) -> None:
        self.scope = scope
        self.outer = outer


_scope: ContextVar[Mark | Scope | None] = ContextVar("interlock_flow", default=None)


def _scopes() -> list[Mark | Scope]:
    """Return the scopes of the present context that have holds, the latest first."""
    found: list[Mark | Scope] = []
    each = _scope.get()
    while each is not None:
        if any(each.scope if isinstance(each, Mark) else each):
            found.append(each)
        each = each.outer if isinstance(each, Mark) else None
    return found


_OURS = 3
"""How many references to a scope its owner, the caller and `sys.getrefcount` have."""


def _no_mark() -> None:
    """Return the mark of an owner whose context has its scope."""


class ThreadOwner(Owner):
    """The owner that stands for one flow of a thread.

    Args:
        label: what to call it in messages.
        pool: the frame that takes the jobs of its thread; None if the thread is no pool's.

    Attributes:
        mark: returns the mark of its context, None if that is gone.
        job: returns the task or job that runs beside the context, None if that is gone. It is None
            itself if there is none.
    """

    __slots__ = ("job", "mark", "pool")
    cell: list[Scope]
    mark: Callable[[], Mark | None]
    job: Callable[[], object] | None

    def __init__(self, label: str, pool: FrameType | None, alone_in: int = 0) -> None:
        super().__init__(label, None)
        self.alone_in = alone_in
        self.pool = pool
        self.in_job = pool is not None
        self.cell = [[]]  # pyright: ignore[reportIncompatibleVariableOverride]
        self.mark, self.job = _no_mark, None
        self.reference = Reference(self, lifecycle.owner_ended)

    def begin(self, job: Callable[[], object] | None, former: Scope) -> bool:
        """Stand for the running flow from now on, unless its scope is not *former* any more.

        Then a signal handler has made it the owner of another flow meanwhile.
        """
        scope: Scope = [None]
        scopes = _scopes()
        for inner, outer in pairwise([*scopes, None]):  # those without holds go
            if isinstance(inner, Mark):
                inner.outer = outer
        outer = scopes[0] if scopes else None
        mark = None if outer is None and self.pool is None else Mark(scope, outer)
        if self.cell[0] is not former:
            return False
        self.cell[0] = scope
        self.job, self.in_job = job, self.pool is not None or job is not None
        self.mark = _no_mark if mark is None else weakref.ref(mark)
        _ = _scope.set(scope if mark is None else mark)  # as in C
        return True

    def has_any_of(self, scopes: list[Mark | Scope]) -> bool:
        """Return whether its scope is one of *scopes*."""
        scope, mark = self.cell[0], self.mark()
        # No generator: a Ctrl-C in one is lost.
        return bool([each for each in scopes if each is scope or each is mark])

    def is_wanted(self) -> bool:
        """Return whether another flow may be about to acquire by it, for a caller that has its scope.

        A signal handler in a context of its own may ask between the look for the owner and the
        entry of the hold. If no context has the scope any more, nobody comes back.
        """
        present = _scope.get()
        if present is not None and self.has_any_of([present]):
            return False
        return bool(self.cell[0]) and sys.getrefcount(self.cell[0]) > _OURS

    def ended(self) -> bool:
        """Return whether the job, the task or the context of a pool's job has ended.

        Then nobody comes back for its holds.
        """
        job = None if self.job is None else self.job()
        if self.job is not None and job is None:
            return True
        # Whoever awaits a job may go on before its thread lets go of it.
        done = getattr(getattr(job, "future", job), "done", None)
        if done is not None and done():
            return True
        return self.pool is not None and self.mark() is None

    def lets_caller_release(self) -> bool:
        """Return whether the caller, another flow, may release what it acquired by hand.

        That is so if its job is over, and for jobs of a pool that have the same context. The
        contexts of another thread may release for each other, as with RLock.
        """
        if self.pool is not None:
            return self.ended() or self.has_any_of(_scopes())
        return self.ended() or (self.job is None and self in _owners_here()[1:])

    def refuse_vain_wait(self, lock: Lock, deadline: float) -> None:
        """Raise if only this thread could end a wait for *lock* until *deadline*.

        Raises:
            ReentryError: another flow of this thread holds it, and cannot go on.
        """
        if self.job is not None:
            warn_in_event_loop()
        if self.alone_in or deadline <= lock.session.clock():
            return
        for other in _owners_here()[1:]:
            for hold in () if other is self else [each for each in other.cell[0] if each]:
                # An abandoned one is released with the next renewal.
                lasts = hold.state is HELD and hold.renewed and hold.claimed()
                advice = _never_released(other) if lasts and lock.excludes(hold) else None
                if advice is not None:
                    raise ReentryError(
                        f"{lock.kind} {lock.name!r} is held in this very thread by another {advice}",
                        name=lock.name,
                    )


class _Owners(list[Any]):
    """The owners of a thread that takes jobs; see `_first_owner`."""


def _first_owner() -> list[Any]:
    """Return what is kept for the calling thread before the first flow.

    That is a list of owners. Before them it has the cell of the first one, for the part in C, which
    answers for plain lists of one owner alone.

    `threading.current_thread` would give a thread that `threading` does not know a name, and keep
    it for ever. Such threads are those of C libraries, and of `_thread`.
    """
    ident, pool = threading.get_ident(), _frame_of_pool()
    name = next((each.name for each in threading.enumerate() if each.ident == ident), None)
    label = f"thread {ident if name is None else repr(name)}"
    if pool is not None:
        return _Owners([None, ThreadOwner(label, pool)])
    owner = ThreadOwner(label, None, ident)
    return [owner.cell, owner]


def _frame_of_pool() -> FrameType | None:
    """Return the frame that takes the jobs of the calling thread; None if it is no pool's."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame is not None and _function(frame) not in _POOLS:
        frame = frame.f_back
    return frame


def _function(frame: FrameType) -> tuple[str, str]:
    """Return the module and the name of the function that runs in *frame*."""
    return frame.f_globals.get("__name__", ""), frame.f_code.co_qualname


_owners_here: Any = for_each(_first_owner)


def _owner_of_flow() -> ThreadOwner:
    """Return the owner that stands for the running flow."""
    kept = _owners_here()
    owners: list[ThreadOwner] = kept[1:]
    task = _running_task()
    job = _job(owners[0]) if task is None else weakref.ref(task)
    scopes, idle, former = _scopes(), None, []
    for owner in owners:
        scope = owner.cell[0]
        if not any(scope):
            if idle is None and not owner.is_wanted():
                idle, former = owner, scope
        elif owner.job == job and (task is not None or owner.has_any_of(scopes)):
            return owner
    if idle is None:
        idle = ThreadOwner(owners[0].label, owners[0].pool)
        former = idle.cell[0]
        kept.append(idle)
        owners.append(idle)
        for owner in owners:
            owner.alone_in = 0
    if job is not None:
        # The lock asks for `refuse_vain_wait`, which also warns in a loop. And whoever else runs in
        # this thread may not release for it without a look at who calls.
        idle.alone_in = 0
    return idle if idle.begin(job, former) else _owner_of_flow()


current_owner: Callable[[], ThreadOwner] = _owner_of_flow
"""Return the owner that stands for the running flow. It ends with its thread."""
_get_running_loop: list[Callable[[], object] | None] = [None]
"""asyncio's function that tells which loop runs in this thread, once asyncio is loaded."""
if in_c:
    with suppress(ImportError):  # the C part is older than its source
        from interlock._links._exchange import owner_of_flow

        current_owner = partial(
            owner_of_flow,
            *(_owners_here.args[0], _modules, "greenlet", "trio.lowlevel", "asyncio.events"),
            *(_get_running_loop, _scope.get, _scope.set, _owner_of_flow),
        )


def running_loop() -> object:
    """Return the loop of asyncio that runs in this thread, or None."""
    known = _get_running_loop[0]
    if known is None and "asyncio.events" in _modules:
        # Documented, and does not raise. A module that is just being loaded may lack it.
        known = getattr(_modules["asyncio.events"], "_get_running_loop", None)
        _get_running_loop[0] = known
    return None if known is None else known()


def _running_task() -> object:
    """Return the task of asyncio or trio that runs in this thread, or None."""
    if running_loop() is not None:
        task = getattr(_modules.get("asyncio"), "current_task", lambda: None)()
        if task is not None:
            return task
    trio: Any = _modules.get("trio.lowlevel")
    return trio.current_task() if getattr(trio, "in_trio_task", bool)() else None


def _job(first: ThreadOwner) -> Callable[[], object] | None:
    """Return what runs beside the context, as a weak reference; None if nothing does.

    Outside of tasks that is a loop which calls back, or the job of a pool.
    """
    loop = running_loop()
    if loop is not None:
        return weakref.ref(loop)
    if first.pool is None:
        return None
    name = _POOLS[_function(first.pool)]
    item = _variable(first.pool, name)
    if isinstance(item, int):
        return _Turn(first.pool, name)
    return None if item is None or _hands_context_on(item) else weakref.ref(item)


def _variable(frame: FrameType, name: str) -> Any:
    """Return the local variable *name* of *frame*; None if it is not set."""
    variables = frame.f_locals
    value = variables.get(name)
    if type(variables) is dict:
        variables.clear()  # until Python 3.12 these are copies, which the frame keeps
    return value


class _Turn:
    """A job of a pool, told by how many its thread has completed before."""

    def __init__(self, frame: FrameType, name: str) -> None:
        self._frame, self._name = frame, name
        self._number: int = _variable(frame, name)

    def __call__(self) -> _Turn | None:
        """Return itself while the job runs, as a weak reference would; else None."""
        return self if _variable(self._frame, self._name) == self._number else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turn) and other._number == self._number

    def __hash__(self) -> int:
        return self._number


def _hands_context_on(item: Any) -> bool:
    """Return whether the job *item* is asgiref's."""
    work = getattr(item, "fn", None) or getattr(item, "task", (None,))[0]
    return getattr(getattr(work, "func", None), "__module__", "") == "asgiref.sync"


def _never_released(other: ThreadOwner) -> str | None:
    """Return what *other* is, if only this thread could end its holds; None if others could."""
    if _running_task() is not None or running_loop() is not None:
        return _LOOP
    if _serves_asgiref() or _workers(other) == 1:
        return _ALONE
    return None if other.pool is not None or other.ended() else _HERE


def _serves_asgiref() -> bool:
    """Return whether this thread waits for asgiref's async code, and runs its jobs meanwhile."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__") != _CURRENT_THREAD:
        frame = frame.f_back
    return frame is not None


_CURRENT_THREAD = "asgiref.current_thread_executor"


def _workers(owner: ThreadOwner) -> int:
    """Return how many threads take the jobs that the thread of *owner* takes; 0 if nobody knows."""
    frame = owner.pool
    if frame is None:
        return 0
    module = frame.f_globals["__name__"]
    if module == _EXECUTOR:
        return int(getattr(_variable(frame, "executor_reference")(), "_max_workers", 0))
    if _POOLS[_function(frame)] not in {"completed", "call_item"}:
        return 0
    # The first argument of a thread of `multiprocessing.pool` is the queue. Processes have one
    # thread that takes jobs.
    jobs = _variable(frame, "inqueue") or frame
    given: list[Any] = [getattr(thread, "_args", None) for thread in threading.enumerate()]
    return sum(bool(args) and args[0] is jobs for args in given) or 1
