"""Who can be killed: processes of a campaign on this machine, or of a Ray cluster on it."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

ROOT = Path(__file__).parents[2]
START_S = 240
SOURCES = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


class Victims(Protocol):
    where: str
    can: tuple[str, ...]

    def come_back(self) -> None:
        """Whoever is to follow those that were killed is there."""

    def has_begun(self, command: int) -> bool:
        """Somebody works; `command`: the process that began the campaign."""

    def strike(self, what: str, draws: random.Random, command: int) -> str:
        """What was done, in words."""


def processes() -> Iterator[tuple[int, int, str]]:
    """(pid, its parent's, its command line)"""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            yield int(folder.name), parent, folder.joinpath("cmdline").read_bytes().decode(errors="replace")


def hit(pids: Sequence[int], what: str, draws: random.Random) -> str:
    if not pids:
        return f"{what}: there was none"
    pid = draws.choice(sorted(pids))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP if what.startswith("stop") else signal.SIGKILL)
    return what


class Local:
    """Two processes of this machine."""

    where = "local:2"
    can: tuple[str, ...] = ("kill a worker", "stop a worker", "interrupt", "kill the command")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def come_back(self) -> None: ...

    def has_begun(self, command: int) -> bool:
        return bool(self._workers(command))

    def strike(self, what: str, draws: random.Random, command: int) -> str:
        return hit(self._workers(command), what, draws)

    def _workers(self, command: int) -> list[int]:
        return [pid for pid, parent, line in processes() if parent == command and "spawn_main" in line]


def new_cluster() -> Any:
    """A head with one core.  Ray gives a node 30 s to start, which one of a busy machine exceeds: here it has START_S.
    It starts them in the main thread alone, for the sake of signals that nobody sends here."""
    from ray._private import services, utils
    from ray.cluster_utils import Cluster

    look = services.get_node

    def get_node(*given: Any) -> Any:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            with suppress(RuntimeError):
                return look(*given)
            time.sleep(0.5)
        return look(*given)

    services.get_node = get_node
    utils.set_sigterm_handler = lambda handler: None
    os.environ |= {"PYTHONPATH": SOURCES, "RAY_agent_register_timeout_ms": str(START_S * 1000)}
    return Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})


class OnRay:
    """A head and two nodes with a core each.  A node that is killed is followed by another one."""

    can: tuple[str, ...] = ("kill a worker", "kill a node", "stop a worker", "interrupt", "kill the command")

    def __enter__(self) -> Self:
        self.cluster = new_cluster()
        self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(2)]
        self.where = f"ray:{self.cluster.address}"
        self.helpers: list[threading.Thread] = []
        return self

    def come_back(self) -> None:
        for helper in self.helpers:
            helper.join()

    def __exit__(self, *_: Any) -> None:
        self.come_back()
        for worker in self._workers():
            with suppress(ProcessLookupError):
                os.kill(worker[0], signal.SIGKILL)  # one that is stopped does not end with the others
        self.cluster.shutdown()

    def has_begun(self, command: int) -> bool:
        return any("work" in line for _, _, line in self._workers())

    def strike(self, what: str, draws: random.Random, command: int) -> str:
        if what == "kill a node":
            if not self.nodes:
                return "kill a node: the next one has not come yet"
            node = self.nodes.pop(draws.randrange(len(self.nodes)))
            self.cluster.remove_node(node, allow_graceful=False)
            self.helpers.append(threading.Thread(target=self._follow))
            self.helpers[-1].start()
            return what
        workers = self._workers()
        at_work = [pid for pid, _, line in workers if "ray::work" in line]
        return hit(at_work or [pid for pid, _, _ in workers], what, draws)

    def _follow(self) -> None:
        """A node that does not get to start on a busy machine is one less."""
        with suppress(Exception):
            self.nodes.append(self.cluster.add_node(num_cpus=1))

    def _workers(self) -> list[tuple[int, int, str]]:
        raylets = {pid for pid, _, line in processes() if "raylet" in line and self.cluster.address in line}
        return [one for one in processes() if one[1] in raylets and one[2].startswith(("ray::work", "ray::IDLE"))]
