"""Units as tasks of a Ray cluster.  Which of them runs where is Ray's business; that each unit counts once, and that
one whose worker dies or hangs is run again, is ours."""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import Factory, define

from .cluster import compare, connected, ensure_answers, ensure_ours, is_gone, pinned_to
from .run import Event, Line
from .signals import held_back
from .units import CampaignError, Unit

TICK_S = 0.5
LISTEN_S = 1.0
START_S = 120.0


@define
class OnRay:
    """`address`: HOST:PORT of a cluster, or nothing for one that is started here.  A task that says nothing for
    `patience_s` is taken for hung; until its worker has started it has START_S more."""

    address: str
    patience_s: float

    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Generator[Event, None, None]:
        ray = connected(self.address)
        try:
            compare(ray)
            yield from Campaign(ray, self.address, units, Line(deque(todo)), self.patience_s).run()
        finally:
            with held_back():
                ray.shutdown()


@define
class Task:
    """A unit that was given out: what it is called by the listener, when it was last heard, and once it has spoken in
    which process of which node it runs."""

    place: int
    key: str
    heard_s: float
    node: str = ""
    pid: int = 0
    said: int = 0

    def is_silent(self, patience_s: float) -> bool:
        limit_s = patience_s if self.pid else patience_s + START_S
        return time.monotonic() - self.heard_s > limit_s


@define(eq=False)
class Campaign:
    ray: Any
    address: str
    units: Sequence[Unit]
    line: Line
    patience_s: float
    running: dict[Any, Task] = Factory(dict)

    def run(self) -> Iterator[Event]:
        """Not more tasks than cores: so a task that was given out runs, and its time is its own."""
        work = self.ray.remote(num_cpus=1, max_retries=0)(_work())
        listener = Listener(self.ray)
        coreless_s = time.monotonic()
        folder = os.getcwd()
        while self.line.waiting or self.running:
            ensure_answers(self.address)
            cores = int(self.ray.cluster_resources().get("CPU", 0))
            while self.line.waiting and len(self.running) < cores:
                place = self.line.take()
                task = Task(place, f"{place}.{self.line.tries[place]}", time.monotonic())
                self.running[work.remote(self.units[place].plain, folder, task.key, listener.actor)] = task
            if cores or self.running:
                coreless_s = time.monotonic()
            elif time.monotonic() - coreless_s > START_S:
                raise CampaignError(f"no node of the Ray cluster has had a core for {START_S:g} s: add a node")
            yield from self._heard()
            listener.tell(self.running.values())
            yield from self._hung()
            yield Event("alive")

    def _heard(self) -> Iterator[Event]:
        if not self.running:
            time.sleep(TICK_S)
            return
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=TICK_S)
        for answer in ready:
            yield self._said(answer, self.running.pop(answer))

    def _said(self, answer: Any, task: Task) -> Event:
        errors = self.ray.exceptions
        try:
            there, is_done, text = self.ray.get(answer)
        except errors.RayTaskError as error:
            return Event("failed", task.place, str(error).strip().splitlines()[-1])
        except errors.RayError as error:
            return self._lost(task, error)
        ensure_ours(there, "a node that came later")
        return Event("done" if is_done else "failed", task.place, text)

    def _lost(self, task: Task, error: Exception) -> Event:
        """Ray gives tasks to a node that has died until it notices: there is no hurry to try again."""
        errors = self.ray.exceptions
        if is_gone(self.ray, self.ray.get_runtime_context().get_node_id()):
            hint = "start it again; what is done is kept, and --resume with the report folder goes on"
            raise CampaignError(f"the Ray node of this machine has died: {hint}")
        by_node = isinstance(error, (errors.NodeDiedError, errors.LocalRayletDiedError))
        by_node = by_node or bool(task.node and is_gone(self.ray, task.node))
        if by_node:
            time.sleep(LISTEN_S)
        return self.line.lost(task.place, f"was lost ({type(error).__name__})", by_node=by_node)

    def _hung(self) -> Iterator[Event]:
        for answer, task in list(self.running.items()):
            if task.is_silent(self.patience_s):
                del self.running[answer]
                self.ray.cancel(answer, force=True)
                self._kill(task)
                yield self.line.lost(task.place, f"said nothing for {self.patience_s:g} s")

    def _kill(self, task: Task) -> None:
        """One that does not even hear that it is cancelled, since it is stopped, would keep its core for ever."""
        if task.pid:
            end = self.ray.remote(num_cpus=0, max_retries=0)(_end())
            end.options(scheduling_strategy=pinned_to(task.node)).remote(task.pid)


class Listener:
    """An actor beside us that is told by each task, about once a second, that it gets on."""

    def __init__(self, ray: Any) -> None:
        here = pinned_to(ray.get_runtime_context().get_node_id())
        actor = ray.remote(num_cpus=0, max_restarts=-1)(_listener())
        self.ray, self.actor = ray, actor.options(scheduling_strategy=here).remote()
        self.asked, self.asked_s = self.actor.told.remote(), time.monotonic()

    def tell(self, tasks: Iterable[Task]) -> None:
        """What it has heard since; it may have been begun anew meanwhile, and know nothing of what was before."""
        if time.monotonic() - self.asked_s < LISTEN_S or not self.ray.wait([self.asked], timeout=0)[0]:
            return
        with suppress(self.ray.exceptions.RayError):
            told = self.ray.get(self.asked)
            for task in tasks:
                node, pid, said = told.get(task.key, ("", 0, 0))
                if said not in (0, task.said):
                    task.node, task.pid, task.said, task.heard_s = node, pid, said, time.monotonic()
        self.asked, self.asked_s = self.actor.told.remote(), time.monotonic()


# --- what runs elsewhere: functions inside of others go there as they are -----------------------------------------


def _listener() -> type:
    class Listening:
        def __init__(self) -> None:
            self.heard: dict[str, tuple[str, int, int]] = {}

        def hear(self, key: str, node: str, pid: int, said: int) -> None:
            self.heard[key] = node, pid, said

        def told(self) -> dict[str, tuple[str, int, int]]:
            return self.heard

    return Listening


def _end() -> Callable[[int], None]:
    def end(pid: int) -> None:
        import os
        import signal
        from contextlib import suppress

        with suppress(ProcessLookupError):  # it has heard that it is cancelled
            os.kill(pid, signal.SIGKILL)

    return end


def _work() -> Callable[..., Any]:
    def work(unit: Mapping[str, Any], folder: str, key: str, listener: Any) -> Any:
        import os
        import time

        import ray

        from schedspec.campaigns.units import done, sentence_of, sources

        node, said, said_s = ray.get_runtime_context().get_node_id(), 0, 0.0

        def beat() -> None:
            nonlocal said, said_s
            if time.monotonic() - said_s > 1.0:
                said, said_s = said + 1, time.monotonic()
                listener.hear.remote(key, node, os.getpid(), said)

        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            beat()
            return sources(), True, done(unit, beat)
        except Exception as error:
            return sources(), False, sentence_of(error)[:2000]

    return work
