"""Which Ray cluster, and whether all of its nodes judge by the same code as we do."""

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .signals import kept_as_it_is
from .units import CampaignError, sources

CONNECT_S = 5.0
PROBE_S = 120.0
DEAD_S = 60.0
KNOCKS = 5


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
        _knock(address)
    except (OSError, OverflowError) as error:
        hint = "`ray start --head` on that machine prints its address"
        raise CampaignError(f"there is no Ray cluster at {address} ({error}): {hint}") from None
    del quietly["include_dashboard"]
    return begun(lambda: ray.init(address=address, **quietly), ray, f"at {address}")


def _knock(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), CONNECT_S).close()


def ensure_answers(address: str) -> None:
    """Ray ends a process whose cluster is gone for a minute, without a word that a person could use."""
    if not address:
        return
    for _ in range(KNOCKS):
        with suppress(OSError):
            return _knock(address)
        time.sleep(1.0)
    hint = "begin it again; what is done is kept, and --resume with the report folder goes on"
    raise CampaignError(f"the Ray cluster at {address} is gone: {hint}")


def begun(init: Callable[[], Any], ray: Any, where: str) -> Any:
    try:
        with kept_as_it_is():
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
    probe = ray.remote(num_cpus=0, max_retries=2)(_probe())
    nodes = [node for node in ray.nodes() if node["Alive"]]
    for node in nodes:
        name = node["NodeManagerAddress"]
        try:
            there = ray.get(probe.options(scheduling_strategy=pinned_to(node["NodeID"])).remote(), timeout=PROBE_S)
        except ray.exceptions.RayError as error:
            if _goes(ray, node["NodeID"]):
                continue  # it can judge nothing wrongly any more
            if isinstance(error, ray.exceptions.GetTimeoutError):
                late = f"node {name} did not answer within {PROBE_S:g} s: leave it out of the cluster"
                raise CampaignError(late) from None
            raise CampaignError(f"node {name}: {str(error).strip().splitlines()[-1]}") from None
        ensure_ours(there, f"node {name}")


def _goes(ray: Any, node_id: str) -> bool:
    """Ray takes a while to notice that a node has died."""
    until_s = time.monotonic() + DEAD_S
    while not (gone := is_gone(ray, node_id)) and time.monotonic() < until_s:
        time.sleep(0.5)
    return gone


def pinned_to(node_id: str) -> Any:
    """Where a task runs that is that node's own."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)


def is_gone(ray: Any, node_id: str) -> bool:
    return not any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


def ensure_ours(there: Any, who: str) -> None:
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
