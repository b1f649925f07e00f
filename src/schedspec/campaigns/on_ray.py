"""A Ray cluster, or one of this machine's own.  Which task runs where is Ray's business; that each unit counts once,
and that all of them are judged by the same code, is ours."""

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from attrs import define

from .run import Event, Line
from .units import CampaignError, Unit, sources

TICK_S = 0.5
CONNECT_S = 5.0
PROBE_S = 120.0


@define
class OnRay:
    """`address`: HOST:PORT of a cluster, or nothing for one that is started here.  A task that has run for `patience_s`
    without an answer is taken for hung."""

    address: str
    patience_s: float

    def run(self, units: Sequence[Unit], todo: Sequence[int]) -> Generator[Event, None, None]:
        ray = connected(self.address)
        try:
            compare(ray)
            yield from _run(ray, units, todo, self.patience_s)
        finally:
            ray.shutdown()


def connected(address: str) -> Any:
    """Raises CampaignError if there is no Ray, or no cluster at the address, or one that cannot work with us."""
    host, colon, port = address.rpartition(":")
    if address and not (colon and host and port.isdecimal()):
        raise CampaignError(f"--on ray:{address}: write HOST:PORT of the head node, as 10.0.0.1:6379")
    try:
        import ray
    except ImportError:
        raise CampaignError("--on ray needs Ray: pip install 'schedspec[ray]', or use --on local") from None
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quietly = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if not address:
        return begun(lambda: ray.init(address="local", num_cpus=os.cpu_count(), **quietly), ray, "here")
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        hint = "`ray start --head` on that machine prints its address"
        raise CampaignError(f"there is no Ray cluster at {address} ({error}): {hint}") from None
    del quietly["include_dashboard"]
    return begun(lambda: ray.init(address=address, **quietly), ray, f"at {address}")


def begun(init: Callable[[], Any], ray: Any, where: str) -> Any:
    try:
        init()
    except Exception as error:
        if "mismatch" in str(error).lower():
            here = f"Python {'.'.join(map(str, sys.version_info[:3]))} and Ray {ray.__version__}"
            hint = "run the command with the same as the cluster"
            raise CampaignError(f"the Ray cluster {where} has another Python or Ray than {here}: {hint}") from None
        raise CampaignError(f"the Ray cluster {where} does not answer: {str(error).splitlines()[0]}") from None
    return ray


def compare(ray: Any) -> None:
    """The code of each node against ours, before anything is judged by it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0, max_retries=2)(_probe())
    nodes = [node for node in ray.nodes() if node["Alive"]]
    for node in nodes:
        pinned = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        name = node["NodeManagerAddress"]
        try:
            there = ray.get(probe.options(scheduling_strategy=pinned).remote(), timeout=PROBE_S)
        except ray.exceptions.GetTimeoutError:
            raise CampaignError(
                f"node {name} did not answer within {PROBE_S:g} s: leave it out of the cluster"
            ) from None
        except ray.exceptions.RayError as error:
            if _is_gone(ray, node["NodeID"]):
                continue  # it can judge nothing wrongly any more
            raise CampaignError(f"node {name}: {str(error).strip().splitlines()[-1]}") from None
        _ensure_ours(there, f"node {name}")


def _is_gone(ray: Any, node_id: str) -> bool:
    return not any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


def _ensure_ours(there: Any, who: str) -> None:
    if there is None:
        hint = "install it on each node, or start `ray start` where PYTHONPATH has it"
        raise CampaignError(f"{who} has no schedspec: {hint}")
    if there != sources():
        hint = "install the same version on all nodes"
        raise CampaignError(f"{who} has another schedspec (sources {there}, here {sources()}): {hint}")


def _probe() -> Callable[[], Any]:
    """Functions inside of others go to the nodes as they are: they need no schedspec there to be read."""

    def probe() -> Any:
        try:
            from schedspec.campaigns.units import sources
        except ImportError:
            return None
        return sources()

    return probe


def _work() -> Callable[..., Any]:
    def work(unit: Mapping[str, Any], folder: str) -> Any:
        import os

        from schedspec.campaigns.units import done, sentence_of, sources

        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            return sources(), True, done(unit, lambda: None)
        except Exception as error:
            return sources(), False, sentence_of(error)[:2000]

    return work


def _run(ray: Any, units: Sequence[Unit], todo: Sequence[int], patience_s: float) -> Iterator[Event]:
    """Not more tasks than cores: so a task that was given out runs, and its time is its own."""
    task = ray.remote(num_cpus=1, max_retries=0)(_work())
    line = Line(deque(todo))
    running: dict[Any, tuple[int, float]] = {}
    folder = os.getcwd()
    while line.waiting or running:
        room = max(1, int(ray.cluster_resources().get("CPU", 1)))
        while line.waiting and len(running) < room:
            place = line.take()
            running[task.remote(units[place].plain, folder)] = place, time.monotonic()
        ready, _ = ray.wait(list(running), num_returns=1, timeout=TICK_S)
        for answer in ready:
            yield _heard(ray, answer, running.pop(answer)[0], line)
        for answer, (place, since_s) in list(running.items()):
            if time.monotonic() - since_s > patience_s:
                del running[answer]
                ray.cancel(answer, force=True)
                yield line.lost(place, f"said nothing for {patience_s:g} s")
        yield Event("alive")


def _heard(ray: Any, answer: Any, place: int, line: Line) -> Event:
    try:
        there, is_done, text = ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        return Event("failed", place, str(error).strip().splitlines()[-1])
    except ray.exceptions.RayError as error:
        return line.lost(place, f"was lost ({type(error).__name__})")
    _ensure_ours(there, "a node that came later")
    return Event("done" if is_done else "failed", place, text)
