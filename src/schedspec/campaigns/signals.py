"""Ctrl-C and SIGTERM: what runs is ended by them, and what is done is written down all the same."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Whoever is told to end behaves as if the keys were pressed: what was seen until then is reported."""

    def interrupt(number: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    if not _hears_signals():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[None]:
    """What must not be left by halves: either signal waits until it is over.  Whoever has interrupted already, and does
    so again while what is done is written, is not heard."""
    if not _hears_signals():
        yield
        return
    is_interrupted, came = isinstance(sys.exception(), KeyboardInterrupt), []

    def note(number: int, frame: Any) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came and not is_interrupted:
        raise KeyboardInterrupt


@contextmanager
def kept_as_it_is() -> Iterator[None]:
    """What SIGTERM does here is not changed by what is called, as Ray changes it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if _hears_signals() and callable(before):
            signal.signal(signal.SIGTERM, before)


def ignore_signals() -> None:
    """From now on: the process is about to end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def kept_from_children() -> Iterator[None]:
    """The keys do not interrupt a process that is started meanwhile before it can say that it does not want that."""
    if not _hears_signals():
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
