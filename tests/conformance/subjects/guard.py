"""Subjects in process, held to the protocol: every answer is read, no exception and no hang gets out.

A fault of the adapter must not look like a fault of the suite, nor stop it: it becomes a ProtocolError, which
makes the verdict *void*.
"""

import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from schedspec.spec.errors import NO_ANSWER, SubjectFault, shown
from schedspec.spec.protocol import read_capabilities, read_deltas, read_observation, read_plan, read_receipt
from schedspec.spec.vocabulary import (
    Capabilities,
    Delta,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    Settings,
    Subject,
    SubjectFactory,
    Unsupported,
)

from ..names import bounded
from .stdio import StdioFactory

TIMEOUT_S = 10.0
MOST_FRAMES = 12

# A subject may swallow the first exception (`except:` in a loop), so the alarm rings again.
_AGAIN_S = 0.05


class _Hang(BaseException):
    """Raised inside a call that takes too long.  No Exception: a subject's own handlers let it pass."""


def _ring(number: int, frame: FrameType | None) -> NoReturn:
    raise _Hang


def no_timeout_because() -> str:
    """Why calls cannot be cut off here; empty where they can.  Takes the alarm where nobody has it."""
    if not hasattr(signal, "setitimer"):
        return "no timeout: this platform has no signal.setitimer"
    if threading.current_thread() is not threading.main_thread():
        return "no timeout: signals reach the main thread only"
    handler = signal.getsignal(signal.SIGALRM)
    if handler is not _ring and handler not in (signal.SIG_DFL, signal.SIG_IGN):
        return f"no timeout: SIGALRM is taken by {shown(handler)}"
    if handler is not _ring:
        signal.signal(signal.SIGALRM, _ring)
    return ""


class Guarded:
    """A subject whose every call ends, in an answer that follows the protocol or in a ProtocolError.

    A call that stays inside C code is not cut off.  `no_timeout` says why no call is, where that is so.
    """

    def __init__(self, subject: Any, timeout_s: float | None = TIMEOUT_S) -> None:
        self.subject = subject
        self._timeout_s = timeout_s
        self.no_timeout = "no timeout: none was asked for" if timeout_s is None else no_timeout_because()
        if self.no_timeout:
            self._timeout_s = None

    def capabilities(self) -> Capabilities:
        return read_capabilities(self._call("capabilities"))

    def submit(self, request: Request, now_ns: int) -> Receipt:
        return read_receipt(self._call("submit", request, now_ns))

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]:
        return read_deltas(self._call("cancel", request_id, now_ns), "cancel")

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]:
        return read_deltas(self._call("notify", event, now_ns), "notify")

    def step(self, now_ns: int) -> Plan:
        return read_plan(self._call("step", now_ns))

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        return read_deltas(self._call("complete", outcome, now_ns), "complete")

    def observe(self) -> Observation | None:
        if not hasattr(self.subject, "observe"):
            return None
        return read_observation(self._call("observe"))

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            function = getattr(self.subject, method)
        except AttributeError as error:
            problem = f"is no method of {type(self.subject).__name__}"
            hint = "the six methods are capabilities, submit, cancel, notify, step and complete"
            raise SubjectFault(method, problem, hint) from error
        return within(self._timeout_s, method, function, *arguments)


def within(timeout_s: float | None, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call, and turn what goes wrong into a SubjectFault."""
    try:
        if timeout_s is None:
            return function(*arguments)
        try:
            signal.setitimer(signal.ITIMER_REAL, timeout_s, _AGAIN_S)
            return function(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Unsupported:
        raise
    except _Hang as error:
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # again: it may have rung just before the line above
        fault = SubjectFault(method, f"gave {NO_ANSWER} {timeout_s:g} s", "does it wait or loop for ever?")
        fault.told = _where(error)[:-1]  # the exception is ours: where it stood is what tells
        raise fault from error
    except (Exception, SystemExit) as error:
        fault = SubjectFault(method, _raised(error))
        fault.told = _where(error)
        raise fault from error


def _raised(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "(its text cannot be had)"
    return f"raised {type(error).__name__}" + (f": {text}" if text else "")


def _where(error: BaseException) -> tuple[str, ...]:
    """Its traceback, from the subject's first line on: so many frames of each exception, and lines, as can be read."""
    beyond = error.__traceback__ and error.__traceback__.tb_next  # the first frame is the guard's
    try:
        told = traceback.TracebackException(type(error), error, beyond, limit=-MOST_FRAMES, compact=True)
        lines = "".join(told.format()).splitlines()
    except Exception:
        return ()  # an exception that cannot even be printed is told by its name
    return bounded(lines)


def guarded(factory: SubjectFactory, timeout_s: float | None = TIMEOUT_S) -> SubjectFactory:
    """A factory of guarded subjects.  One over stdio guards itself.

    A scheduler that does not import schedspec refuses a setting by `NotImplementedError("prefix_caching")`.
    """
    if isinstance(factory, StdioFactory):
        return factory

    def make(settings: Settings, seed: int) -> Subject:
        alarm = timeout_s if timeout_s is None or not no_timeout_because() else None
        try:
            subject = within(alarm, "configure", factory, settings, seed)
        except SubjectFault as fault:
            setting = str(fault.__cause__)
            if isinstance(fault.__cause__, NotImplementedError) and hasattr(settings, setting):
                raise Unsupported(setting, getattr(settings, setting)) from fault.__cause__
            raise
        return Guarded(subject, timeout_s)

    return make
