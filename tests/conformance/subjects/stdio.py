"""Subjects in another process, in any language: one JSON object per line over stdin and stdout.

The question `{"schema": "schedspec/1", "id": 7, "method": "step", "params": {"now_ns": 5}}` has its answer on
one line, `{"id": 7, "result": …}` or `{"id": 7, "error": {"message": "…"}}`, in order.  The methods are those
of `Subject` and two more: `configure` (settings, seed) starts a fresh scheduler and answers its capabilities,
or the error `{"unsupported": "prefix_caching"}`; `reset` starts a fresh one with the same settings.  What a
process prints for people goes to its stderr, the last line of which is quoted when it dies.

One process serves many runs: starting one costs more than most runs do.
"""

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from attrs import fields_dict

from schedspec.spec.encoding import encode
from schedspec.spec.errors import MISSING, NO_ANSWER, ProtocolError, SubjectFault, shown
from schedspec.spec.hints import did_you_mean
from schedspec.spec.protocol import read_capabilities, read_deltas, read_observation, read_plan, read_receipt
from schedspec.spec.vocabulary import (
    SCHEMA,
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    Settings,
    Unsupported,
)

from ..names import bounded

TIMEOUT_S = 10.0
START_TIMEOUT_S = 60.0  # an interpreter with large libraries takes its time to come up
LONGEST_LINE_BYTES = 64 * 1024 * 1024
LAST_LINES = 20
MOST_LAST_CHUNKS = 64
_LAST_WORDS_BYTES = 4096
_CHUNK_BYTES = 1 << 16
_GRACE_S = 1.0
_ANSWER_KEYS = ("id", "result", "error", "schema")
_TO_STDERR = "stdout carries answers only, so print to stderr"


class StdioFactory:
    """`exec:COMMAND` as a factory: starts the process at the first call and configures it anew at every call.

    A subject is over when the next one is made.  `close`, or a `with`, ends the process; so does the end of
    the interpreter.
    """

    def __init__(self, command: str, timeout_s: float = TIMEOUT_S, start_timeout_s: float = START_TIMEOUT_S) -> None:
        self.command = command
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s
        self._process: _Process | None = None

    def __call__(self, settings: Settings, seed: int) -> "StdioSubject":
        timeout_s = self._timeout_s
        if self._process is None or not self._process.usable():
            self.close()
            self._process = _Process(self.command)
            timeout_s = max(timeout_s, self._start_timeout_s)
        capabilities = _configure(self._process, settings, seed, timeout_s)
        return StdioSubject(self._process, capabilities, self._timeout_s)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def __enter__(self) -> "StdioFactory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _configure(process: "_Process", settings: Settings, seed: int, timeout_s: float) -> Capabilities:
    process.configured += 1
    try:
        answer = process.ask("configure", {"settings": settings, "seed": seed}, timeout_s)
    except ErrorAnswer as error:
        setting = error.answer.get("unsupported")
        if setting is None:
            raise
        if not isinstance(setting, str) or not hasattr(settings, setting):
            hint = did_you_mean(setting, fields_dict(Settings))
            problem = "no setting has this name"
            raise ProtocolError("configure", "unsupported", setting, problem, hint) from None
        raise Unsupported(setting, getattr(settings, setting)) from None
    return read_capabilities(answer, "configure")


class StdioSubject:
    """The scheduler that a process serves since it was last configured.  StdioFactory makes it."""

    def __init__(self, process: "_Process", capabilities: Capabilities, timeout_s: float) -> None:
        self._process = process
        self._capabilities = capabilities
        self._timeout_s = timeout_s
        self._configured = process.configured

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def reset(self) -> None:
        """A fresh scheduler with the same settings."""
        self._ask("reset", {})

    def submit(self, request: Request, now_ns: int) -> Receipt:
        return read_receipt(self._ask("submit", {"request": request, "now_ns": now_ns}))

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        return read_deltas(self._ask("cancel", {"request_id": request_id, "now_ns": now_ns}), "cancel")

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return read_deltas(self._ask("notify", {"event": event, "now_ns": now_ns}), "notify")

    def step(self, now_ns: int) -> Plan:
        return read_plan(self._ask("step", {"now_ns": now_ns}))

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        return read_deltas(self._ask("complete", {"outcome": outcome, "now_ns": now_ns}), "complete")

    def observe(self) -> Observation | None:
        return read_observation(self._ask("observe", {}))

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        if self._process.configured != self._configured:
            problem = "was asked of a subject that is over, since its process was configured again"
            raise SubjectFault(method, problem, "two subjects at a time need two factories")
        return self._process.ask(method, params, self._timeout_s)


class ErrorAnswer(SubjectFault):
    """The subject says itself that it cannot answer: `{"id": 7, "error": {"message": "…"}}`."""

    def __init__(self, method: str, answer: Mapping[str, Any]) -> None:
        text = shown(answer.get("message", dict(answer)))
        super().__init__(method, f"was answered with the error {text}")
        self.args = (method, answer)
        self.answer = answer


class _Process:
    """A child that is asked one thing at a time; ended by a fault after which its lines mean nothing."""

    def __init__(self, command: str) -> None:
        self._child = _start(command)
        self._stdin, self._stdout, self._stderr = _pipes(self._child)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)
        self._owner = os.getpid()
        self._received = bytearray()
        self._printed = bytearray()
        self._asked = 0
        self.configured = 0
        # Also runs when nothing refers to this object any more, and when the interpreter ends.
        self.close = weakref.finalize(self, _end, self._child, self._selector, self._owner)

    def usable(self) -> bool:
        """Not after a fault, and not in a process that was forked since: two would read one pipe."""
        return self.close.alive and self._owner == os.getpid() and self._child.poll() is None

    def ask(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        if not self.close.alive:
            raise SubjectFault(method, "was asked of a process that has ended")
        self._asked += 1
        message = {"schema": SCHEMA, "id": self._asked, "method": method, "params": params}
        try:
            line = self._exchange(method, encode(message).encode() + b"\n", timeout_s)
            answer = _answer(method, line, self._asked)
            self._refuse_more(method)
        except BaseException as error:  # an interrupt too: the answer still to come would be taken for the next one
            self._quote_into(error)
            self.close()
            raise
        if "error" in answer:
            refusal = ErrorAnswer(method, _error(method, answer["error"]))
            self._quote_into(refusal)
            raise refusal
        return answer["result"]

    def _quote_into(self, error: BaseException) -> None:
        """A fault has the end of what the process printed for people beside it: a traceback, as a rule."""
        if isinstance(error, ProtocolError):
            self._listen_to_the_end()
            error.told = bounded(bytes(self._printed).decode(errors="replace").splitlines()[-LAST_LINES:])

    def _exchange(self, method: str, question: bytes, timeout_s: float) -> bytes:
        """Send one line and receive one.  Neither side may block the other, whatever the child does."""
        self._receive()
        self._refuse_more(method)
        deadline = monotonic() + timeout_s
        unsent, searched = self._send(method, memoryview(question)), 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > LONGEST_LINE_BYTES:
                problem = f"was answered with a line of more than {LONGEST_LINE_BYTES >> 20} MiB"
                raise SubjectFault(method, problem, "end every answer with a line break")
            if not self._wait(bool(unsent), deadline):
                raise SubjectFault(method, f"got {NO_ANSWER} {timeout_s:g} s", self._why_no_answer())
            if not self._receive():
                raise self._ended(method)
            unsent = self._send(method, unsent)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _why_no_answer(self) -> str:
        if self._received:
            return f"what came is no whole line, {_quoted(self._received)}; end every answer with a line break"
        return "does it flush its stdout after every line?"

    def _refuse_more(self, method: str) -> None:
        if self._received:
            text = _quoted(self._received)
            raise SubjectFault(method, f"came with a line that nobody asked for, {text}", _TO_STDERR)

    def _send(self, method: str, unsent: memoryview) -> memoryview:
        """What the pipe does not take now is sent later."""
        try:
            while unsent:
                unsent = unsent[os.write(self._stdin, unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise self._ended(method) from None
        return unsent

    def _wait(self, to_send: bool, deadline: float) -> bool:
        """Wait until the child does something, False at the deadline."""
        if to_send:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        ready = self._selector.select(max(0.0, deadline - monotonic()))
        if to_send:
            self._selector.unregister(self._stdin)
        if any(key.fd == self._stderr for key, _ in ready):
            self._listen()
        return bool(ready) and monotonic() < deadline

    def _receive(self) -> bool:
        """Take what stands in stdout, False at its end."""
        try:
            chunk = os.read(self._stdout, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        self._received += chunk
        return bool(chunk)

    def _listen(self) -> bool:
        """Take what stands in stderr, lest the child wait for it to be read; keep its end."""
        try:
            chunk = os.read(self._stderr, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk and self._stderr in self._selector.get_map():
            self._selector.unregister(self._stderr)
        self._printed += chunk
        del self._printed[:-_LAST_WORDS_BYTES]
        return bool(chunk)

    def _listen_to_the_end(self) -> None:
        """What stands in stderr now; whoever writes on and on is not listened to for ever."""
        for _ in range(MOST_LAST_CHUNKS):
            if not self._listen():
                return

    def _ended(self, method: str) -> SubjectFault:
        try:
            status = self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            hint = "keep both open until stdin ends"
            return SubjectFault(method, "got no answer, since the process closed its stdin or stdout", hint)
        self._listen_to_the_end()
        words = bytes(self._printed).decode(errors="replace").strip().splitlines()
        hint = f"the last line of its stderr is {shown(words[-1].strip())}" if words else "its stderr is empty"
        return SubjectFault(method, f"got no answer, since the process ended with {_status(status)}", hint)


def _start(command: str) -> "subprocess.Popen[bytes]":
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SubjectFault("configure", f"cannot read the command {command!r}: {error}") from None
    if not words:
        raise SubjectFault("configure", "has no command to start", "write exec:COMMAND, like exec:./adapter")
    if os.name != "posix":
        raise SubjectFault("configure", f"cannot start {command!r}: exec: needs a POSIX system")
    pipe = subprocess.PIPE
    try:
        # In a session of its own, so that what it starts can be ended with it.
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
    except FileNotFoundError:
        hint = "give its path, like ./adapter" if "/" not in words[0] else "is the path right, and the #! of a script?"
        raise SubjectFault("configure", f"found no command {words[0]!r}", hint) from None
    except OSError as error:
        hint = "is it executable (chmod +x), and has a script its #! line?"
        raise SubjectFault("configure", f"cannot start {words[0]!r}, {error.strerror}", hint) from None


def _pipes(child: "subprocess.Popen[bytes]") -> tuple[int, int, int]:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    stdin, stdout, stderr = child.stdin.fileno(), child.stdout.fileno(), child.stderr.fileno()
    for pipe in (stdin, stdout, stderr):
        os.set_blocking(pipe, False)
    return stdin, stdout, stderr


def _end(child: "subprocess.Popen[bytes]", selector: selectors.BaseSelector, owner: int) -> None:
    """End the child and whatever it started: asked kindly (end of stdin), then less so."""
    if os.getpid() != owner:
        return
    selector.close()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    for grace_s, blow in ((_GRACE_S / 5, signal.SIGTERM), (_GRACE_S, signal.SIGKILL)):
        try:
            child.wait(grace_s)
            return
        except subprocess.TimeoutExpired:
            # It is not reaped yet, so the number of its group is still its own.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, blow)
    child.wait()


def _answer(method: str, line: bytes, asked: int) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except RecursionError:
        raise SubjectFault(method, f"was answered with {_quoted(line)}, which is nested too deeply") from None
    except ValueError:
        raise SubjectFault(method, f"was answered with {_quoted(line)}, which is not JSON", _TO_STDERR) from None
    if not isinstance(answer, dict):
        problem = f"was answered with {_quoted(line)}, which is no object with id and result"
        raise SubjectFault(method, problem, _TO_STDERR)
    found = answer.get("id", MISSING)
    if type(found) is not int or found != asked:
        problem = f"was asked with id {asked} and answered with id {shown(found)}"
        raise SubjectFault(method, problem, "one answer for each line, in order, with the id of its question")
    for key in answer:
        if key not in _ANSWER_KEYS:
            hint = did_you_mean(key, _ANSWER_KEYS)
            raise ProtocolError(method, key, answer[key], "an answer has no such field", hint)
    if ("result" in answer) == ("error" in answer):
        raise SubjectFault(method, f"was answered with {_quoted(line)}", "give either a result or an error")
    return answer


def _error(method: str, error: Any) -> Mapping[str, Any]:
    if not isinstance(error, dict):
        raise ProtocolError(method, "error", error, "must be an object with a message")
    return error


def _status(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _quoted(received: bytes | bytearray) -> str:
    """The first line of it, cut where it is long."""
    line = bytes(received[:200]).split(b"\n")[0]
    return shown(line.decode(errors="replace"))
