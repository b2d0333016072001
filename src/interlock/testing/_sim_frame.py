"""An operation under way in the simulator, and whom its effects are addressed to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from interlock._core.effects import Batch, Eval, Gather, Op

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from interlock._core.effects import Client
    from interlock._core.waiter import Waiter
    from interlock.testing._sim_client import SimulatedClient


@dataclass(slots=True)
class Frame:
    """An operation under way.

    Attributes:
        op: the operation.
        client: the client that it is performed for.
        name: what traces call it.
        failed: whether something was raised in it, so that it is cleaning up.
        interrupted: whether that was a Ctrl-C or a cancellation.
        waiting: what to take back at its end.
    """

    op: Op[Any]
    client: SimulatedClient
    name: str
    failed: bool = False
    interrupted: bool = False
    waiting: list[Waiter] = field(default_factory=list["Waiter"])


def home(session: Client) -> SimulatedClient:
    """Return the client that *session* belongs to."""
    return cast("SimulatedClient", session.home)


def addressed(
    effect: Eval[object] | Batch[object] | Gather[object], client: SimulatedClient
) -> list[tuple[SimulatedClient, Sequence[Eval[object]]]]:
    """Return which client sends which scripts in one write, for an *effect* of *client*."""
    if isinstance(effect, Eval):
        return [(client, (effect,))]
    if isinstance(effect, Batch):
        return [(client, effect.evals)]
    return [(home(session), (call,)) for session, call in effect.calls]


def tell(effect: Eval[object] | Batch[object] | Gather[object], replies: Sequence[object]) -> None:
    """Tell of *replies* who wants to know of them first."""
    if isinstance(effect, Eval) and effect.then is not None:
        effect.then(replies[0])


def close(running: Generator[Any, Any, Any]) -> None:
    """Close a generator, whatever its ``finally`` still asks for: there is nobody left to do it."""
    while True:
        try:
            running.close()
        except RuntimeError:
            continue  # it yielded again
        except BaseException:  # noqa: BLE001 - what a dying process raises, nobody hears
            return
        else:
            return
