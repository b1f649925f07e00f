"""Campaigns: results in the order of the units, each counted once, whatever happens to workers; and going on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedspec.campaigns import CampaignError, Journal, Unit, Watch, executor_of, run_campaign
from schedspec.campaigns.cluster import begun, ensure_answers
from schedspec.campaigns.local import Local
from schedspec.campaigns.run import MOST_TRIES, Here, Line
from schedspec.campaigns.signals import SIGNALS, held_back, interrupted_by_sigterm

WORK = '''
import os, signal, time
from pathlib import Path


def square(given, beat):
    Path(given["log"]).joinpath(f"{given['number']}-{os.getpid()}-{time.monotonic_ns()}").touch()
    return {"square": given["number"] ** 2}


def first_time(given):
    """True once for each number."""
    try:
        Path(given["log"]).joinpath(f"first-{given['number']}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def dies(given, beat):
    if given["number"] in given["bad"] and first_time(given):
        os.kill(os.getpid(), signal.SIGKILL)
    return square(given, beat)


def hangs(given, beat):
    if given["number"] in given["bad"] and first_time(given):
        os.kill(os.getpid(), signal.SIGSTOP)
    return square(given, beat)


def always_dies(given, beat):
    os.kill(os.getpid(), signal.SIGKILL)


def raises(given, beat):
    raise ValueError("this one cannot be done")


def slow(given, beat):
    time.sleep(0.05)
    return square(given, beat)
'''


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work_of_units.py").write_text(WORK)
    (tmp_path / "log").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "log"


def units(function: str, log: Path, count: int = 6, bad: tuple[int, ...] = (1, 4)) -> list[Unit]:
    given = {"log": str(log), "bad": list(bad)}
    return [Unit(f"unit {n}", f"work_of_units:{function}", {**given, "number": n}) for n in range(count)]


def run(todo: list[Unit], where: object, folder: Path, *, resume: bool = False) -> list[dict[str, int]]:
    return run_campaign(todo, where, Journal(folder, todo, resume=resume), Watch())  # type: ignore[arg-type]


def squares(count: int = 6) -> list[dict[str, int]]:
    return [{"square": n**2} for n in range(count)]


def test_a_worker_that_dies_has_its_unit_run_again(log: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    todo = units("dies", log)
    watch = Watch(hear=lambda unit, event, result: heard.append(event.kind))
    assert run_campaign(todo, Local(2, 60.0), Journal(tmp_path / "r", todo, resume=False), watch) == squares()
    assert heard.count("again") == 2
    assert heard.count("done") == 6


@pytest.mark.deep
def test_a_worker_that_hangs_has_its_unit_run_again(log: Path, tmp_path: Path) -> None:
    assert run(units("hangs", log, bad=(2,)), Local(2, 5.0), tmp_path / "r") == squares()


def test_a_unit_that_always_loses_its_worker_is_given_up_and_the_others_are_done(log: Path, tmp_path: Path) -> None:
    todo = [*units("square", log, 2), Unit("bad", "work_of_units:always_dies", {})]
    with pytest.raises(CampaignError, match=r"bad: its worker died, 3 times, so it is given up"):
        run(todo, Local(2, 60.0), tmp_path / "r")
    assert len(Journal(tmp_path / "r", todo, resume=True).results) == 2


def test_a_unit_that_raises_is_one_sentence(log: Path, tmp_path: Path) -> None:
    todo = [Unit("bad", "work_of_units:raises", {}), *units("square", log, 1)]
    for where in (Here(), Local(1, 60.0)):
        with pytest.raises(CampaignError, match=r"^bad: this one cannot be done$"):
            run(todo, where, tmp_path / "r")


def test_the_journals_of_one_process_and_of_several_say_the_same(log: Path, tmp_path: Path) -> None:
    todo = units("square", log)
    assert run(todo, Here(), tmp_path / "one") == run(todo, Local(2, 60.0), tmp_path / "two")
    told = [sorted((tmp_path / name / "campaign" / "done.jsonl").read_text().splitlines()) for name in ("one", "two")]
    assert told[0] == told[1]


def test_what_is_done_is_not_done_again(log: Path, tmp_path: Path) -> None:
    todo = units("square", log)
    run(todo, Here(), tmp_path / "r")
    done = tmp_path / "r" / "campaign" / "done.jsonl"
    lines = done.read_text().splitlines(keepends=True)
    done.write_text("".join([*lines[:3], lines[1], lines[3][:-5]]))  # one twice, and one that is cut off
    before = len(list(log.iterdir()))
    assert run(todo, Here(), tmp_path / "r", resume=True) == squares()
    assert len(list(log.iterdir())) == before + 3


def test_another_campaign_is_not_gone_on_with(log: Path, tmp_path: Path) -> None:
    todo = units("square", log)
    with pytest.raises(CampaignError, match="no campaign was begun there"):
        Journal(tmp_path / "r", todo, resume=True)
    run(todo, Here(), tmp_path / "r")
    with pytest.raises(CampaignError, match="unit 5 is not what it was"):
        Journal(tmp_path / "r", todo[:-1], resume=True)
    plan = tmp_path / "r" / "campaign" / "units.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"sources": "other"}))
    with pytest.raises(CampaignError, match="another version of schedspec"):
        Journal(tmp_path / "r", todo, resume=True)


@pytest.mark.deep
def test_an_interrupt_keeps_what_is_done(log: Path, tmp_path: Path) -> None:
    todo = units("slow", log, 40)
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from pathlib import Path\n"
        "from schedspec.campaigns import *\n"
        "if __name__ == '__main__':\n"
        "    given = {'log': sys.argv[1], 'bad': [1, 4]}\n"
        "    units = [Unit(f'unit {n}', 'work_of_units:slow', {**given, 'number': n}) for n in range(40)]\n"
        "    run_campaign(units, executor_of('local:2'), Journal(Path(sys.argv[2]), units, resume=False), Watch())\n"
    )
    script = tmp_path / "campaign.py"
    script.write_text(code)
    process = subprocess.Popen(
        [
            sys.executable,
            str(script),
            str(log),
            str(tmp_path / "r"),
            str(tmp_path),
            *os.environ.get("PYTHONPATH", "").split(":"),
        ],
        env={**os.environ, "PYTHONPATH": ":".join([str(Path(__file__).parents[2] / "src"), str(tmp_path)])},
        stderr=subprocess.DEVNULL,
    )
    done = tmp_path / "r" / "campaign" / "done.jsonl"
    deadline = time.monotonic() + 30
    while not (done.exists() and done.read_text().count("\n") >= 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) != 0
    kept = done.read_text().count("\n")
    assert 2 <= kept < 40
    assert run(todo, Here(), tmp_path / "r", resume=True) == squares(40)


@pytest.mark.parametrize("number", SIGNALS)
def test_what_must_be_whole_is_not_interrupted(number: signal.Signals) -> None:
    done = []

    def write() -> None:
        with interrupted_by_sigterm(), held_back():
            signal.raise_signal(number)
            done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["whole"]


def test_who_interrupts_twice_is_told_once() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt("the first")
        finally:
            with held_back():
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="the first"):
        interrupted()


def test_a_cluster_leaves_what_sigterm_does_as_it_is() -> None:
    def init() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    with interrupted_by_sigterm():
        begun(init, SimpleNamespace(__version__="0"), "here")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("where", ["nowhere", "local:0", "local:many", "one:2", "ray:here"])
def test_a_place_that_there_is_not_is_one_sentence(where: str) -> None:
    with pytest.raises(CampaignError, match=f"^--on {where}: "):
        list(executor_of(where).run([], []))


def test_that_its_node_dies_is_not_held_against_a_unit_that_may_still_lose_its_workers() -> None:
    line = Line(deque([0]))
    for _ in range(2 * MOST_TRIES):
        assert line.lost(line.take(), "was lost", by_node=True).kind == "again"
    told = [line.lost(line.take(), "died").kind for _ in range(MOST_TRIES)]
    assert told == ["again"] * (MOST_TRIES - 1) + ["failed"]


def test_a_unit_that_takes_every_node_with_it_is_given_up() -> None:
    line = Line(deque([0]))
    told = ["again"]
    while told[-1] == "again":
        told.append(line.lost(line.take(), "was lost", by_node=True).kind)
    assert told[-1] == "failed"


def test_a_cluster_that_is_gone_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedspec.campaigns.cluster.KNOCKS", 1)
    with pytest.raises(
        CampaignError, match=r"^the Ray cluster at 127\.0\.0\.1:1 is gone: begin it again; what is done"
    ):
        ensure_answers("127.0.0.1:1")
    ensure_answers("")


FIRST_WORKER = """
import signal
from multiprocessing import util
from schedspec.campaigns.local import Worker

def told(*args, begin=util.spawnv_passfds):
    if "--multiprocessing-fork" in args[1]:
        print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
    return begin(*args)

util.spawnv_passfds = told
for worker in [Worker.start(), Worker.start()]:
    worker.process.kill()
"""


def test_the_keys_do_not_reach_a_worker_that_begins() -> None:
    """The first of a process, too: with it a helper of multiprocessing begins, which lets signals through again."""
    command = [sys.executable, "-c", FIRST_WORKER]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == ["True", "True"]
