"""The reentrant mutex that is let go of while a signal handler waits."""

from __future__ import annotations

import threading

from interlock._drivers.process.mutex import Mutex

SOON = 10.0


def test_the_thread_inside_is_known() -> None:
    """`held_here` is true for the thread inside alone, however often it entered."""
    mutex, found = Mutex(), []
    with mutex.lock, mutex.lock:
        other = threading.Thread(target=lambda: found.append(mutex.held_here()))
        other.start()
        other.join(SOON)
        found.append(mutex.held_here())

    assert found == [False, True]
    assert not mutex.held_here()


def test_others_get_in_while_it_is_let_go_of() -> None:
    """Letting go frees each level at once, and all levels are held again afterwards."""
    mutex, entered = Mutex(), threading.Event()

    def enter() -> None:
        with mutex.lock:
            entered.set()

    other = threading.Thread(target=enter)
    with mutex.lock, mutex.lock:
        with mutex.let_go():
            other.start()
            assert entered.wait(SOON)
            assert not mutex.held_here()
        assert mutex.held_here()
    other.join(SOON)

    assert not mutex.held_here()


def test_an_error_leaves_the_mutex_held() -> None:
    """An error while others are let in ends the wait, and the mutex is held again."""
    mutex = Mutex()
    with mutex.lock:
        try:
            with mutex.let_go():
                raise ZeroDivisionError
        except ZeroDivisionError:
            held = mutex.held_here()

    assert held
