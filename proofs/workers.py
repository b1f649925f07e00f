"""Solvers run in processes of their own: one that crashes, or does not stop when it should, takes nothing with it.

Solvers are bounded by the work that they do, which is the same on every machine (`obligations.LIMIT`); the clock is
only for one that does not look at its bound.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as TooLong
from multiprocessing import get_context
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

PROCESSES = 2
LIMIT_S = 300.0

T = TypeVar("T")


def each(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], limit_s: float = LIMIT_S, processes: int = PROCESSES
) -> Iterator[T | None]:
    """What a function makes of each task, in their order; None where its process died or was stopped."""
    context = get_context("forkserver")  # it holds the solvers ready, and has no threads
    context.set_forkserver_preload(["schedspec.proofs.tasks"])
    with ProcessPool(max_workers=processes, context=context) as pool:
        try:
            yield from _answers([pool.schedule(function, args=task, timeout=limit_s) for task in tasks])
        except BaseException:
            pool.stop()  # type: ignore[no-untyped-call]  # else it would finish what nobody waits for
            raise


def _answers(waiting: Iterable[Any]) -> Iterator[Any]:
    for future in waiting:
        try:
            yield future.result()
        except (TooLong, ProcessExpired):
            yield None
