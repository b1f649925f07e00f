"""A campaign on a Ray cluster of this machine's processes, of which one node is killed in the middle.

`make ray` runs it: Ray is large, and its processes take long to start.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schedspec.campaigns import CampaignError, Journal, Unit, Watch, executor_of, run_campaign
from schedspec.campaigns.on_ray import begun
from schedspec.cli import cli
from schedspec.reference.faults import factory
from schedspec.reference.fleet import STEP_NS, arrivals, new_fleet
from schedspec.reference.router import Router

ray = pytest.importorskip("ray", reason="Ray is not installed here: `make ray` installs it beside the suite")
pytestmark = [
    pytest.mark.deep,
    # Ray's own: files and sockets of the processes that it starts and, when they are killed, does not close.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SOURCES = os.pathsep.join(str(Path(__file__).parents[2] / name) for name in ("src", "."))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ |= {"PYTHONPATH": SOURCES, "RAY_agent_register_timeout_ms": "240000"}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight engines, the third of which breaks KV-8."""
    fleet = new_fleet(8, 1, router=Router, factories={2: factory("KV-8")}, patience_ns=8 * STEP_NS)
    fleet.run(arrivals(60, 1, gap_ns=STEP_NS // 8))
    fleet.write(tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    return Path("logs")


def tree(name: str) -> dict[str, bytes]:
    files = (path for path in Path(name).rglob("*") if path.is_file() and "campaign" not in path.parts)
    return {path.relative_to(name).as_posix(): path.read_bytes() for path in files}


def when(condition: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    def wait() -> None:
        deadline = time.monotonic() + 240
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_node_that_is_killed_changes_no_byte_of_the_report(cluster: Any, logs: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    done = Path("ray/campaign/done.jsonl")
    killer = when(
        lambda: done.exists() and bool(done.read_text()), lambda: cluster.remove_node(node, allow_graceful=False)
    )
    on_ray = CliRunner().invoke(cli, ["trace", "logs", "--report", "ray", "--on", f"ray:{cluster.address}"])
    killer.join()
    on_one = CliRunner().invoke(cli, ["trace", "logs", "--report", "one"])
    assert (on_ray.exit_code, on_one.exit_code) == (1, 1), on_ray.output
    assert tree("ray") == tree("one")
    assert done.read_text().count("\n") == 8


def test_a_node_without_schedspec_is_one_sentence(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    todo = [Unit("one", "schedspec.commands.units:judge_engine", {})]
    try:
        with pytest.raises(CampaignError, match=r"has no schedspec: install it on each node"):
            run_campaign(todo, executor_of(f"ray:{cluster.address}"), Journal(tmp_path, todo, resume=False), Watch())
    finally:
        cluster.remove_node(node)


def test_another_schedspec_is_one_sentence(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.campaigns.on_ray.sources", lambda: "mine")
    todo = [Unit("one", "schedspec.commands.units:judge_engine", {})]
    with pytest.raises(CampaignError, match=r"has another schedspec \(sources \w{16}, here mine\)"):
        run_campaign(todo, executor_of(f"ray:{cluster.address}"), Journal(tmp_path, todo, resume=False), Watch())


def test_another_python_is_one_sentence() -> None:
    def init() -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.12.1")

    with pytest.raises(CampaignError, match=r"has another Python or Ray than Python 3\.\d+\.\d+ and Ray"):
        begun(init, ray, "at head:6379")


def test_no_cluster_at_the_address_is_one_sentence(logs: Path) -> None:
    result = CliRunner().invoke(cli, ["trace", "logs", "--on", "ray:127.0.0.1:1"])
    assert (result.exit_code, "there is no Ray cluster at 127.0.0.1:1" in result.stderr) == (2, True)
