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
from schedspec.campaigns.cluster import begun
from schedspec.cli import cli
from schedspec.reference.faults import factory
from schedspec.reference.fleet import STEP_NS, arrivals, new_fleet
from schedspec.reference.router import Router

from .chaos import is_the_same
from .hanging import WAYS
from .victims import OnRay, new_cluster

ray = pytest.importorskip("ray", reason="Ray is not installed here: `make ray` installs it beside the suite")
pytestmark = [
    pytest.mark.deep,
    # Ray's own: files and sockets of the processes that it starts and, when they are killed, does not close.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    cluster = new_cluster()
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


def test_a_unit_that_hangs_is_run_again_and_one_that_is_slow_is_not(cluster: Any, tmp_path: Path) -> None:
    hanging = [{"log": str(tmp_path), "way": way} for way in WAYS]
    todo = [Unit("slow", "tests.ray.hanging:is_slow", {"seconds": 2 * PATIENCE_S})]
    todo += [Unit(str(given["way"]), "tests.ray.hanging:hang_once", given) for given in hanging]
    again: list[str] = []
    watch = Watch(hear=lambda unit, event, _: again.append(unit.name) if unit and event.kind == "again" else None)
    where = executor_of(f"ray:{cluster.address}", PATIENCE_S)
    assert run_campaign(todo, where, Journal(tmp_path, todo, resume=False), watch) == ["done"] * len(todo)
    assert again == list(WAYS)


def test_a_campaign_under_fire_leaves_what_one_process_leaves() -> None:
    """`python -m tests.ray.chaos` has all campaigns, and other seeds."""
    seed = int(os.environ.get("SCHEDSPEC_SEED", "0"))
    with OnRay() as victims:
        assert is_the_same("trace", victims, seed, 4)


def test_a_node_without_schedspec_is_one_sentence(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "schedspec").mkdir()
    (tmp_path / "schedspec" / "__init__.py").touch()  # in front of the one that is installed
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    todo = [Unit("one", "schedspec.commands.units:judge_engine", {})]
    try:
        with pytest.raises(CampaignError, match=r"has no schedspec: install it on each node"):
            run_campaign(todo, executor_of(f"ray:{cluster.address}"), Journal(tmp_path, todo, resume=False), Watch())
    finally:
        cluster.remove_node(node)


def test_another_schedspec_is_one_sentence(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.campaigns.cluster.sources", lambda: "mine")
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
