"""The examples work, in process and over stdio; adapters that do not are told so in a sentence."""

import ast
import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedspec.conformance import examples
from schedspec.conformance.examples.toy_scheduler import Scheduler
from schedspec.conformance.subjects import stdio
from schedspec.conformance.subjects.guard import Guarded, guarded
from schedspec.conformance.subjects.resolve import UnknownSubject, resolve
from schedspec.conformance.subjects.stdio import StdioFactory
from schedspec.conformance.validate import Check, outcome_of, validate
from schedspec.spec.errors import ProtocolError, SubjectFault
from schedspec.spec.vocabulary import (
    Outcome,
    Plan,
    Receipt,
    Request,
    Settings,
    Subject,
    SubjectFactory,
    Unsupported,
)

EXAMPLES = Path(examples.__file__).parent
SETTINGS = Settings(reserve="declared", blocks=6, block_size=4, seats=2, token_budget=8)
PYTHON = shlex.quote(sys.executable)


@pytest.fixture(scope="session")
def toy_in_c(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no cc to compile toy_adapter.c with")
    program = tmp_path_factory.mktemp("c") / "toy adapter"
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(program)]
    subprocess.run([*command, str(EXAMPLES / "toy_adapter.c")], check=True)
    return f"exec:{shlex.quote(str(program))}"


@pytest.fixture(params=["in process", "over stdio", "in C"])
def toy(request: pytest.FixtureRequest) -> Iterator[SubjectFactory]:
    names = {
        "in process": "schedspec.conformance.examples.toy_scheduler:Scheduler",
        "over stdio": f"exec:{PYTHON} {shlex.quote(str(EXAMPLES / 'toy_stdio.py'))}",
    }
    name = names.get(request.param) or request.getfixturevalue("toy_in_c")
    factory = resolve(name, {})
    yield guarded(factory)
    if isinstance(factory, StdioFactory):
        factory.close()


# --- the examples ------------------------------------------------------------------------------------------


def test_a_session_to_the_end(toy: SubjectFactory) -> None:
    """Two seats and six blocks of four: the third request waits for one of the first two."""
    subject = toy(SETTINGS, 0)
    prompts = {"a": 5, "b \"quoted\" \\ 'x'": 3, "c": 9}
    for number, (id, prompt) in enumerate(prompts.items()):
        assert subject.submit(request(id, prompt, 3), number).verdict == "accepted"
    refused = Receipt(verdict="refused", reason="kv_blocks", limit=6, value=7)
    assert subject.submit(request("d", 20, 9), 3) == refused

    a, b, c = prompts
    assert plans_to_the_end(subject, count=3) == [
        ([(a, 0, 5, 1), (b, 0, 3, 1)], ["took", "admitted"] * 2, ["delivered"] * 2),
        ([(a, 5, 1, 1), (b, 3, 1, 1)], [], ["delivered"] * 2),
        ([(a, 6, 1, 1), (b, 4, 1, 1)], [], ["delivered", "gave", "finished"] * 2),
        ([(c, 0, 8, 0)], ["took", "admitted"], []),
        ([(c, 8, 1, 1)], [], ["delivered"]),
        ([(c, 9, 1, 1)], [], ["delivered"]),
        ([(c, 10, 1, 1)], [], ["delivered", "gave", "finished"]),
    ]


def request(id: str, prompt: int, output: int) -> Request:
    return Request(id=id, prompt_ids=range(prompt), max_output_tokens=output)


Entries = list[tuple[str, int, int, int]]


def plans_to_the_end(subject: Subject, count: int) -> list[tuple[Entries, list[str], list[str]]]:
    """Entries of each step, names of its deltas, names of those of its completion."""
    found: list[tuple[Entries, list[str], list[str]]] = []
    while sum(names.count("finished") for *_, names in found) < count:
        plan = subject.step(10)
        deltas = subject.complete(outcome_of(plan), 10)
        entries = list(zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True))
        found.append((entries, [delta[0] for delta in plan.deltas], [delta[0] for delta in deltas]))
        assert len(found) < 20
    return found


def test_what_is_not_honoured_is_refused_by_name(toy: SubjectFactory) -> None:
    with pytest.raises(Unsupported, match="setting policy='priority' is not supported"):
        toy(Settings(reserve="declared", policy="priority"), 0)
    assert toy(SETTINGS, 0).submit(request("a", 1, 1), 0).verdict == "accepted"


def test_cancel_gives_the_blocks_back(toy: SubjectFactory) -> None:
    subject = toy(SETTINGS, 0)
    subject.submit(request("a", 5, 3), 0)
    subject.submit(request("b", 5, 3), 0)
    plan = subject.step(1)
    ((_, _, blocks),) = [delta for delta in plan.deltas if delta[:2] == ("took", "a")]
    assert subject.cancel("a", 2) == (("gave", "a", blocks), ("cancelled", "a"))
    assert subject.cancel("a", 2) == ()
    outcome = outcome_of(plan)
    assert {delta[1] for delta in subject.complete(outcome, 3)} <= {("b",)}
    assert subject.complete(outcome, 3) == ()


def test_the_examples_are_adapters(toy: SubjectFactory) -> None:
    checks = validate(toy)
    assert [check for check in checks if not check.ok] == []
    assert len(checks) == 15


@pytest.mark.parametrize(("name", "most"), [("toy_scheduler.py", 67), ("toy_stdio.py", 60)])
def test_the_examples_are_short(name: str, most: int) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0].end_lineno
    code = [line for line in text.splitlines()[docstring:] if line.strip() and line.strip()[0] != "#"]
    assert len(code) <= most


def test_the_examples_import_nothing_of_schedspec() -> None:
    for name in ("toy_scheduler.py", "toy_stdio.py"):
        tree = ast.parse((EXAMPLES / name).read_text(encoding="utf-8"))
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
        assert modules <= {"types", "typing", "json", "sys", "importlib"}


# --- adapters over stdio that go wrong ---------------------------------------------------------------------

SERVER = """
import json, os, sys, time

def answer(result):
    print(json.dumps({"id": question["id"], "result": result}), flush=True)

def say(text):
    print(text, flush=True)

for line in sys.stdin:
    question = json.loads(line)
    if question["method"] == "configure":
        CONFIGURE
    elif question["method"] == "step":
        STEP
    else:
        answer([])
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., StdioFactory]]:
    """A subject whose `step` does this.  Only where a hang is expected the timeout is short."""
    factories: list[StdioFactory] = []

    def make(step: str = "answer({'step': 1})", configure: str = "answer({})", timeout_s: float = 30.0) -> StdioFactory:
        path = tmp_path / "server.py"
        path.write_text(SERVER.replace("CONFIGURE", configure).replace("STEP", step), encoding="utf-8")
        factories.append(StdioFactory(f"{PYTHON} {shlex.quote(str(path))}", timeout_s))
        return factories[-1]

    yield make
    for factory in factories:
        factory.close()


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            "raise KeyError(7)",
            "step got no answer, since the process ended with exit status 1: "
            "the last line of its stderr is 'KeyError: 7'",
        ),
        (
            "sys.exit(3)",
            "step got no answer, since the process ended with exit status 3: its stderr is empty",
        ),
        (
            "os.kill(os.getpid(), 9)",
            "step got no answer, since the process ended with signal SIGKILL: its stderr is empty",
        ),
        (
            "os.close(1); time.sleep(60)",
            "step got no answer, since the process closed its stdin or stdout: keep both open until stdin ends",
        ),
        ("pass", "step got no answer within 0.5 s: does it flush its stdout after every line?"),
        (
            "sys.stdout.write('half'); sys.stdout.flush(); time.sleep(60)",
            "step got no answer within 0.5 s: what came is no whole line, 'half'",
        ),
        (
            "question['id'] = 1; answer({'step': 1})",
            "step was asked with id 2 and answered with id 1: "
            "one answer for each line, in order, with the id of its question",
        ),
        (
            "say('{}')",
            "step was asked with id 2 and answered with id missing: "
            "one answer for each line, in order, with the id of its question",
        ),
        (
            "say('step 1 begins'); answer({'step': 1})",
            "step was answered with 'step 1 begins', which is not JSON: "
            "stdout carries answers only, so print to stderr",
        ),
        (
            "say(17)",
            "step was answered with '17', which is no object with id and result: "
            "stdout carries answers only, so print to stderr",
        ),
        (
            "print('x' * 70)\n        while True: print('y' * 70)",
            f"step was answered with '{'x' * 70}', which is not JSON: stdout carries answers only",
        ),
        (
            "say(json.dumps({'id': 2, 'error': {'message': 'no more blocks'}}))",
            "step was answered with the error 'no more blocks'",
        ),
        (
            "say(json.dumps({'id': 2, 'error': 'no more blocks'}))",
            "step: error is 'no more blocks', but must be an object with a message",
        ),
        (
            "say(json.dumps({'id': 2, 'reslt': {}}))",
            "step: reslt is {}, but an answer has no such field: did you mean 'result'?",
        ),
        ("say('{\"id\": 2}')", "step was answered with '{\"id\": 2}': give either a result or an error"),
        ("answer({'step': -1})", "step: step is -1, but must be an integer of at least 0"),
    ],
)
def test_a_fault_over_stdio_is_a_sentence(serve: Callable[..., StdioFactory], step: str, sentence: str) -> None:
    factory = serve(step, timeout_s=0.5 if "within 0.5 s" in sentence else 30.0)
    subject = factory(SETTINGS, 0)
    with pytest.raises(ProtocolError) as caught:
        subject.step(0)
    assert str(caught.value).startswith(sentence)
    again = factory(SETTINGS, 0)  # whatever happened, the next run starts clean
    assert again.cancel("a", 0) == ()


def test_a_line_without_end(serve: Callable[..., StdioFactory], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LONGEST_LINE_BYTES", 1 << 20)
    subject = serve("while True: sys.stdout.write('x' * 1000)")(SETTINGS, 0)
    with pytest.raises(SubjectFault) as caught:
        subject.step(0)
    expected = "step was answered with a line of more than 1 MiB: end every answer with a line break"
    assert str(caught.value) == expected


def test_a_line_that_nobody_asked_for(serve: Callable[..., StdioFactory]) -> None:
    subject = serve("answer({'step': 1}); say('done')")(SETTINGS, 0)

    def ask_on() -> None:
        for _ in range(100):  # the line may come before the next question or after it
            subject.step(0)
            time.sleep(0.01)

    with pytest.raises(SubjectFault, match="came with a line that nobody asked for, 'done': stdout carries"):
        ask_on()


def test_a_banner_at_the_start(serve: Callable[..., StdioFactory]) -> None:
    factory = serve(configure="say('Loading'); answer({})")
    with pytest.raises(SubjectFault, match=r"^configure was answered with 'Loading', which is not JSON"):
        factory(SETTINGS, 0)


def test_a_refused_setting_needs_a_name_that_exists(serve: Callable[..., StdioFactory]) -> None:
    factory = serve(configure="say(json.dumps({'id': question['id'], 'error': {'unsupported': 'seat'}}))")
    with pytest.raises(ProtocolError) as caught:
        factory(SETTINGS, 0)
    expected = "configure: unsupported is 'seat', but no setting has this name: did you mean 'seats'?"
    assert str(caught.value) == expected


def test_neither_side_blocks_the_other(serve: Callable[..., StdioFactory]) -> None:
    """More than a pipe holds, both ways and on stderr, none of it read before all of it is written."""
    subject = serve("sys.stderr.write('x' * 1_000_000); answer({'step': 1, 'request': ['a'] * 200_000})")(SETTINGS, 0)
    subject.cancel("x" * 1_000_000, 0)
    with pytest.raises(ProtocolError, match=r"start is \[\], but has 0 entries where request has 200000"):
        subject.step(0)


def test_an_earlier_subject_of_the_same_process_is_over(serve: Callable[..., StdioFactory]) -> None:
    factory = serve()
    before = factory(SETTINGS, 0)
    factory(SETTINGS, 0)
    with pytest.raises(SubjectFault, match=r"^step was asked of a subject that is over"):
        before.step(0)


def test_one_process_serves_many_runs(serve: Callable[..., StdioFactory]) -> None:
    factory = serve("answer({'step': os.getpid()})")
    assert factory(SETTINGS, 0).step(0).step == factory(SETTINGS, 1).step(0).step


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc to look for processes in")
@pytest.mark.parametrize("end", ["close", "forget", "exit"])
def test_no_process_is_left(serve: Callable[..., StdioFactory], tmp_path: Path, end: str) -> None:
    """Neither the child nor what it started: both ignore the end of stdin here."""
    start = "import subprocess; child = subprocess.Popen(['sleep', '60']); time.sleep(0)"
    wait = f"{start}; answer({{'step': child.pid}}); time.sleep(60)"
    factory = serve(wait)
    if end == "exit":
        program = (
            "from schedspec.conformance.subjects.stdio import StdioFactory\n"
            "from schedspec.spec.vocabulary import Settings\n"
            f"factory = StdioFactory({factory.command!r})\n"
            "print(factory(Settings(), 0).step(0).step)"
        )
        path = os.pathsep.join([str(Path(examples.__file__).parents[3]), *sys.path])
        command = [sys.executable, "-c", program]
        run = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
        )
        pid = int(run.stdout)
    else:
        pid = factory(SETTINGS, 0).step(0).step
        assert exists(pid)
        if end == "close":
            factory.close()
        else:
            factory._process = None
            gc.collect()
    deadline = time.monotonic() + 5
    while exists(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not exists(pid)


def exists(pid: int) -> bool:
    """Runs and is no zombie: nobody may be there to reap it once its parent is gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("./nope", "configure found no command './nope': is the path right, and the #! of a script?"),
        ("nope-at-all", "configure found no command 'nope-at-all': give its path, like ./adapter"),
        ("", "configure has no command to start: write exec:COMMAND, like exec:./adapter"),
        ("'", 'configure cannot read the command "\'": No closing quotation'),
        (
            "/",
            "configure cannot start '/', Permission denied: is it executable (chmod +x), and has a script its #! line?",
        ),
    ],
)
def test_a_command_that_cannot_be_started(command: str, sentence: str) -> None:
    with pytest.raises(SubjectFault) as caught:
        StdioFactory(command)(SETTINGS, 0)
    assert str(caught.value) == sentence


# --- adapters in process that go wrong ---------------------------------------------------------------------


class Broken(Scheduler):
    """What `step` does is set from outside."""

    def __init__(self, step: Callable[[], Any]) -> None:
        super().__init__(SETTINGS, 0)
        self.step = lambda now_ns: step()  # type: ignore[method-assign]


def loop() -> None:
    while True:
        pass


def stubborn_loop() -> None:
    """Swallows the first alarms."""
    for _ in range(3):
        try:
            loop()
        except BaseException:
            continue
    loop()


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (lambda: [][1], "step raised IndexError: list index out of range"),
        (lambda: sys.exit(3), "step raised SystemExit: 3"),
        (lambda: next(iter([])), "step raised StopIteration"),
        (lambda: None, "step: plan is None, but must be a Plan"),
        (lambda: time.sleep(60), "step gave no answer within 0.2 s: does it wait or loop for ever?"),
        (loop, "step gave no answer within 0.2 s: does it wait or loop for ever?"),
        (stubborn_loop, "step gave no answer within 0.2 s: does it wait or loop for ever?"),
    ],
)
def test_a_fault_in_process_is_a_sentence(step: Callable[[], Any], sentence: str) -> None:
    subject = Guarded(Broken(step), 0.2)
    assert subject.no_timeout == ""
    with pytest.raises(ProtocolError) as caught:
        subject.step(0)
    assert str(caught.value).startswith(sentence)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_cause_is_kept() -> None:
    with pytest.raises(SubjectFault) as caught:
        Guarded(Broken(lambda: [][1])).step(0)
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_missing_method_is_named() -> None:
    class Little:
        def capabilities(self) -> Mapping[str, Any]:
            return {}

    subject = Guarded(Little())
    assert subject.capabilities().name == "unnamed"
    assert subject.observe() is None
    with pytest.raises(SubjectFault, match=r"^step is no method of Little: the six methods are capabilities, "):
        subject.step(0)


def test_a_factory_that_raises() -> None:
    def factory(settings: Settings, seed: int) -> Subject:
        raise ValueError("no pool")

    with pytest.raises(SubjectFault, match=r"^configure raised ValueError: no pool$"):
        guarded(factory)(SETTINGS, 0)


def test_an_interrupt_gets_through() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Guarded(Broken(interrupt), 5.0).step(0)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_where_there_is_no_timeout_it_is_said() -> None:
    found: list[Guarded] = []
    thread = threading.Thread(target=lambda: found.append(Guarded(Scheduler(SETTINGS, 0))))
    thread.start()
    thread.join()
    assert found[0].no_timeout == "no timeout: signals reach the main thread only"
    assert found[0].step(0).request == ()
    assert Guarded(Scheduler(SETTINGS, 0), None).no_timeout == "no timeout: none was asked for"

    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    try:
        taken = Guarded(Scheduler(SETTINGS, 0)).no_timeout
    finally:
        signal.signal(signal.SIGALRM, before)
    assert taken.startswith("no timeout: SIGALRM is taken by <function")


# --- names -------------------------------------------------------------------------------------------------


def test_a_built_in_name_comes_first() -> None:
    toy: Any = Scheduler
    assert resolve("toy", {"toy": toy}) is toy


def test_the_current_directory_can_be_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_adapter_here.py").write_text("class Made:\n    def __init__(self, s, seed): pass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    factory = resolve("my_adapter_here:Made", {})
    assert getattr(factory, "__name__", "") == "Made"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("referenc", "there is no subject 'referenc': did you mean 'reference'?"),
        (
            "mine",
            "there is no subject 'mine': a subject is a built-in name, module:factory or exec:COMMAND",
        ),
        ("fault:KV-99", "there is no subject 'fault:KV-99': did you mean 'fault:KV-"),
        (":make", "':make' lacks a side of its colon: write module:factory"),
        ("my/toy.py:make", "'my/toy.py' is a file: write the name of the module, my.toy:FACTORY"),
        ("no_such_module:make", "there is no module 'no_such_module' in "),
        (
            "this_one_is_broken:make",
            "module 'this_one_is_broken' cannot be imported, since it raised ZeroDivisionError: division by",
        ),
        (
            "this_one_lacks:make",
            "module 'this_one_lacks' cannot be imported, since it raised ModuleNotFoundError: "
            "No module named 'not_installed'",
        ),
        ("json:dump_all", "json has no attribute 'dump_all'"),
        ("json:dumqs", "json has no attribute 'dumqs': did you mean 'dumps'?"),
        (
            "math:pi",
            "math:pi is 3.141592653589793, which cannot be called: it must be a function of (settings, seed)",
        ),
        (
            "json:dumps",
            "json:dumps cannot be called with (settings, seed): too many positional arguments",
        ),
    ],
)
def test_a_name_that_leads_nowhere(name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "this_one_is_broken.py").write_text("1 / 0")
    (tmp_path / "this_one_lacks.py").write_text("import not_installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    builtins: dict[str, Any] = {"reference": Scheduler, "fault:KV-1": Scheduler}
    with pytest.raises(UnknownSubject) as caught:
        resolve(name, builtins)
    assert str(caught.value).startswith(sentence)


# --- validate ----------------------------------------------------------------------------------------------


def failures(cls: type, timeout_s: float = 30.0) -> list[Check]:
    return [check for check in validate(cls, timeout_s) if not check.ok]


def test_an_adapter_that_knows_no_cancel_twice() -> None:
    class Eager(Scheduler):
        def cancel(self, request_id: str, now_ns: int) -> Any:
            return [["cancelled", request_id]]

    assert [(check.name, check.sentence) for check in failures(Eager)] == [
        ("cancel", "the second cancel of 'r1' brought ['cancelled', 'r1'], but must change nothing"),
        ("cancel unknown", "cancel of an id that was never submitted brought ['cancelled', 'nobody']"),
        ("cancel in flight", "'r1' was cancelled while its step ran, but 'delivered' came afterwards"),
    ]


def test_an_adapter_that_forgets_its_deltas() -> None:
    class Silent(Scheduler):
        def step(self, now_ns: int) -> Any:
            return {**super().step(now_ns), "deltas": []}

    names = [check.name for check in failures(Silent)]
    assert names == ["step", "blocks"]


def test_an_adapter_that_runs_nothing() -> None:
    class Idle(Scheduler):
        def step(self, now_ns: int) -> Any:
            return {"step": 1}

    sentence = "64 steps ran nothing, although a request waits on an empty system"
    assert {check.sentence for check in failures(Idle)} == {sentence}


def test_a_hang_ends_the_validation() -> None:
    class Slow(Scheduler):
        def step(self, now_ns: int) -> Any:
            time.sleep(60)

    (failed,) = failures(Slow, 0.2)
    assert failed.sentence == "step gave no answer within 0.2 s: does it wait or loop for ever?"


def test_an_adapter_that_takes_no_settings_at_all() -> None:
    class Picky(Scheduler):
        def __init__(self, settings: Any, seed: int) -> None:
            raise NotImplementedError("policy")

    (failed,) = failures(Picky)
    sentence = "setting policy='lanes' is not supported, nor is any other value that was tried"
    assert failed == Check("configure", False, sentence)


def test_outcomes_have_a_row_for_each_sample() -> None:
    plan = Plan(step=3, request=("a", "b"), start=(0, 4), tokens=(4, 1), samples=(0, 1))
    assert outcome_of(plan) == Outcome(step=3, request=("b",), token=(7,), stop=(False,))


def test_who_claims_what_it_does_not_say_is_asked_no_further() -> None:
    class Claims(Scheduler):
        def capabilities(self) -> Any:
            return super().capabilities() | {"claims": ["drr"]}

    subject: Any = Claims
    checks = validate(subject)
    assert [(check.name, check.ok) for check in checks] == [("configure", True), ("capabilities", False)]
    assert checks[-1].sentence.endswith(
        "says nothing without quantum: service that a client gets in its turn (drr, dlpm)"
    )
