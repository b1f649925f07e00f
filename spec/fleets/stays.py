"""What the trace of one engine says to the rules of a fleet: who stayed here, from when to when, and how it ended; and
for whom it did how much while whom it let wait.

All of it is plain data, much smaller than the trace: it is what is merged over engines.
"""

from typing import Any

from attrs import Factory, define

from ..monitor import Monitor
from ..rules.base import TraceRule
from ..tracks import Track
from ..vocabulary import Delta, Message

NS_PER_WINDOW = 1_000_000_000
HERE = ("accepted", "deferred", "converted")
"""Receipts after which a request is at this engine."""
ENDS = ("finished", "failed", "cancelled", "expired")

Row = list[Any]
"""A stay: request, client, idempotency key or None, `begin_ns`, `end_ns` or None, and one of ENDS or None."""


@define(eq=False)
class Witness:
    """Follows one trace.  `window_ns`: service is added up in windows of that length."""

    window_ns: int = NS_PER_WINDOW
    begin_ns: int | None = None
    end_ns: int = 0
    has_end: bool = False
    rows: list[Row] = Factory(list)
    _here: dict[str, Row] = Factory(dict)
    _service: "Service | None" = None
    _retain_ns: int = 0

    def begin(self, monitor: Any) -> None:
        """Service is observed where the monitor keeps a ledger: who claims nothing about clients is not asked."""
        self._retain_ns = monitor.settings.door.retain_ns
        if isinstance(monitor, Monitor) and monitor.keeps_ledger:
            self._service = Service(self.window_ns)
            monitor.listen(self._service)

    def see(self, message: Message) -> None:
        now_ns = self.end_ns = message.now_ns
        if self.begin_ns is None:
            self.begin_ns = now_ns
        if message.kind == "submit":
            request = message.given
            if message.answer.verdict in HERE and request.id not in self._here:
                row = [request.id, request.client, request.idempotency_key, now_ns, None, None]
                self.rows.append(row)
                self._here[request.id] = row
            self._follow(message.answer.deltas, now_ns)
        elif message.kind == "step":
            self._follow(message.answer.deltas, now_ns)
        elif message.kind == "end":
            self.has_end = True
        elif message.kind != "observe":
            self._follow(message.answer, now_ns)

    def _follow(self, deltas: Any, now_ns: int) -> None:
        delta: Delta
        for delta in deltas:
            if delta[0] in ENDS and (row := self._here.pop(delta[1], None)) is not None:
                row[4:] = [now_ns, delta[0]]

    @property
    def plain(self) -> dict[str, Any]:
        return {
            "begin_ns": self.begin_ns,
            "end_ns": self.end_ns,
            "has_end": self.has_end,
            "retain_ns": self._retain_ns,
            "stays": self.rows,
            "service": None if self._service is None else self._service.plain(self.end_ns),
        }


@define(eq=False)
class Service(TraceRule):
    """Charges of each client by window, and the windows all through which it waited.  Whole windows alone are compared
    later, so nothing is charged to an interval to which it does not belong."""

    window_ns: int
    bound: int = 0
    charged: dict[str, dict[int, int]] = Factory(dict)
    waited: dict[str, list[list[int]]] = Factory(dict)
    _since: dict[str, tuple[int, int]] = Factory(dict)

    def on_charge(self, m: Monitor, track: Track, amount: int) -> None:
        windows = self.charged.setdefault(track.client, {})
        window = m.now_ns // self.window_ns
        windows[window] = windows.get(window, 0) + amount

    def on_answered(self, m: Monitor, message: Message) -> None:
        since, known = m.ledger.since, self._since
        self.bound = m.ledger.bound
        if len(since) == len(known) and all(known.get(c, (0, 0))[0] == number for c, number in since.items()):
            return
        for client in [c for c, (number, _) in known.items() if since.get(c) != number]:
            self._wait_is_over(client, m.now_ns)
        for client, number in since.items():
            known.setdefault(client, (number, m.now_ns))

    def _wait_is_over(self, client: str, now_ns: int) -> None:
        first = self._since.pop(client)[1] // self.window_ns + 1
        last = now_ns // self.window_ns - 1
        if first <= last:
            self.waited.setdefault(client, []).append([first, last])

    def plain(self, end_ns: int) -> dict[str, Any]:
        for client in list(self._since):
            self._wait_is_over(client, end_ns)
        clients = sorted(self.charged.keys() | self.waited.keys())
        told = {
            c: {"charged": sorted(self.charged.get(c, {}).items()), "waited": self.waited.get(c, [])} for c in clients
        }
        return {"bound": self.bound, "clients": told}
