"""A run as a picture knows it: requests against steps, and who holds each block.

Columns are steps, and between two steps what happened until the next one.  It is built from messages alone and believes
them; memory is that of what lives, and of the columns that are kept.
"""

from collections import deque
from collections.abc import Mapping
from typing import Literal

from attrs import Factory, define, frozen

from schedspec.spec.parking import answer_in
from schedspec.spec.vocabulary import Delta, Header, Message, Plan, Receipt, Request

from .holdings import Holding, Holdings, Place
from .names import counted, deltas_of, is_call
from .narrate import Teller

MOST_COLUMNS = 1_200

CALLS = {"submit": "submissions", "cancel": "cancel {}", "notify": "news"}

Doing = Literal["door", "waits", "parked", "runs", "again", "swapped", "between", "over"]
"""Held at the door; waits; parked; has a seat; waits after a preemption; the same, saved in host memory; between two
pools; has ended."""

DOING = {
    "door": "is held at the door",
    "waits": "waits",
    "parked": "is parked",
    "runs": "has a seat, and runs in no part of this step",
    "again": "waits after a preemption",
    "swapped": "waits, saved in host memory",
    "between": "is between the two pools",
    "over": "has ended",
}

MARKS = {
    "refused": "⊘",
    "duplicate": "=",
    "converted": "⤳",
    "accepted": "▸",
    "deferred": "⧗",
    "entered": "▸",
    "admitted": "+",
    "resumed": "+",
    "preempted": "↩",
    "delivered": "•",
    "finished": "✓",
    "cancelled": "✕",
    "failed": "!",
    "expired": "⌛",
    "parked": "‖",
    "unparked": "▸",
    "held": "⇥",
    "transferred": "⇢",
    "cancel": "✕",
    "gone": "✕",
}
"""What may happen to a request, and its sign: of several in one place the last of this order is shown."""
_RANK = {what: rank for rank, what in enumerate(MARKS)}

_TURNS: Mapping[str, Doing] = {
    "entered": "waits",
    "admitted": "runs",
    "resumed": "runs",
    "finished": "over",
    "cancelled": "over",
    "failed": "over",
    "expired": "over",
    "parked": "parked",
    "unparked": "waits",
    "held": "between",
}


@frozen
class Entry:
    """What a request runs in a step: positions [start, start + tokens), and drafts that are verified behind them."""

    start: int
    tokens: int
    samples: int
    decodes: bool
    drafts: int = 0


@define
class Cell:
    """A request in a column: what it did all the while, its entry, what happened to it (in order) and in words."""

    doing: Doing
    entry: Entry | None = None
    why: str = ""
    marks: list[str] = Factory(list)
    says: list[str] = Factory(list)

    @property
    def sign(self) -> str:
        """Of what happened the most telling; "" if nothing did."""
        return MARKS[max(self.marks, key=_RANK.__getitem__)] if self.marks else ""


@define
class Column:
    """A step (its id, and whose), or what came between it and the next one.  `first` and `last`: its messages, as the
    monitor counts them, the latter of this `kind`.  `changed`: places of blocks that changed, with what they are used
    for after it.  `counters`: of clients, as a snapshot shows them."""

    step: int | None
    pool: str
    first: int
    now_ns: int
    last: int = 0
    cells: dict[str, Cell] = Factory(dict)
    changed: dict[Place, Holding | None] = Factory(dict)
    counts: dict[tuple[str, str], int] = Factory(dict)
    tokens: int = 0
    kind: str = ""
    counters: dict[str, int] = Factory(dict)
    calls: list[str] = Factory(list)
    events: list[str] = Factory(list)


@define
class Known:
    """What is remembered of a request that has not ended."""

    number: int
    doing: Doing
    prompt_tokens: int
    why: str = ""

    def decodes(self, start: int, tokens: int) -> bool:
        return tokens == 1 and start >= self.prompt_tokens


@frozen
class Decision:
    """A line of the log: at which message and step, about whom, what, and why as the subject says it."""

    message: int
    step: int
    request: str
    what: str
    says: str
    computed: bool = False


def turn(known: Known, delta: Delta) -> None:
    """What a delta makes of the request that it names."""
    kind = delta[0]
    if kind == "preempted":
        known.doing, known.why = ("swapped" if delta[2] == "swap" else "again"), ""
    elif kind == "transferred" and delta[2] != "done":
        known.doing, known.why = "waits", ""
    elif kind == "waits":
        known.why = delta[2]
    elif kind in _TURNS:
        known.doing, known.why = _TURNS[kind], ""


def at_the_door(header: Header, request: Request, receipt: Receipt) -> Doing:
    """What a request does when it has come."""
    if receipt.verdict == "deferred" or (receipt.verdict == "converted" and receipt.how == "asynchronous"):
        return "door"
    if receipt.verdict != "accepted":
        return "over"
    return "parked" if request.dependencies and header.settings.park_timeout_ns else "waits"


DECISIONS = frozenset(
    [
        "admitted",
        "resumed",
        "preempted",
        "waits",
        "chosen",
        "displaced",
        "spent",
        "parked",
        "unparked",
        "leased",
        "lease_over",
        "deferred",
        "converted",
        "entered",
        "held",
        "pulled",
        "transferred",
        "failed",
        "expired",
        "swapped_out",
        "dropped",
    ]
)


class Timeline:
    """Feed it all messages of a run, in order; what came before message `first` is not drawn.  `apart`: between two
    steps each call has a column of its own, but for submissions in a row; else they share one."""

    def __init__(self, header: Header, first: int = 1, most: int = MOST_COLUMNS, *, apart: bool = False) -> None:
        self.header = header
        self.first = first
        self.apart = apart
        self.message = 0
        self.step = 0
        self.columns: deque[Column] = deque()
        self.most = most
        self.left_out = 0
        self.known: dict[str, Known] = {}
        self.numbers: dict[str, int] = {}
        self.holdings = Holdings(header.settings)
        self.before: dict[Place, Holding] = {}
        self.decisions: deque[Decision] = deque(maxlen=5_000)
        self.shows_blocks = header.capabilities.observes == "tables"
        self._count = 0
        self._teller = Teller()
        self._over: list[str] = []

    def feed(self, message: Message) -> None:
        self.message += 1
        if self.message == self.first:
            self.before = dict(self.holdings.holding)
        if not is_call(message):
            if self.columns:
                self.columns[-1].last = self.message
                self.columns[-1].counters = dict(message.answer.client_counters) if message.answer else {}
            return
        if self._is_drawn:
            self._open(message)
        self._hear(message)
        if self._is_drawn:
            self._close(message)
        else:
            self._forget()
        self.holdings.changed.clear()

    @property
    def _is_drawn(self) -> bool:
        return self.message >= self.first

    # --- columns -----------------------------------------------------------------------------------------

    def _open(self, message: Message) -> None:
        """A step begins a column, and so does the first call after it."""
        if message.kind == "step":
            plan: Plan = message.answer
            self.step = plan.step
            self._add(Column(plan.step, plan.pool or "", self.message, message.now_ns))
        elif not self.columns or self.columns[-1].step is not None or self._is_apart(message):
            self._add(Column(None, "", self.message, message.now_ns))
        if message.kind in CALLS:
            self.columns[-1].calls.append(CALLS[message.kind].format(message.given))
        elif message.kind == "complete":
            self.columns[-1].calls.append(f"complete step {message.given.step}")

    def _is_apart(self, message: Message) -> bool:
        last = self.columns[-1].kind
        return self.apart and (message.kind != "submit" or last != "submit")

    def _add(self, column: Column) -> None:
        self._forget()
        for request, known in self.known.items():
            column.cells[request] = Cell(known.doing, why=known.why)
            self.numbers.setdefault(request, known.number)
        self.columns.append(column)
        if len(self.columns) > self.most:
            gone = self.columns.popleft()
            self.left_out += 1
            for place, holding in gone.changed.items():
                if holding is None:
                    self.before.pop(place, None)
                else:
                    self.before[place] = holding

    def _close(self, message: Message) -> None:
        column = self.columns[-1]
        column.last, column.kind = self.message, message.kind
        column.changed |= {place: self.holdings.holding.get(place) for place in self.holdings.changed}
        column.counts = {key: count for key, count in self.holdings.counts.items() if count}
        if message.kind == "step":
            column.tokens = sum(message.answer.tokens)

    def _forget(self) -> None:
        for request in self._over:
            self.known.pop(request, None)
        self._over.clear()

    # --- what happens ------------------------------------------------------------------------------------

    def _hear(self, message: Message) -> None:
        for delta in deltas_of(message):
            self.holdings.hear(delta)
            self._delta(delta)
        if message.kind == "submit":
            self._submitted(message.given, message.answer)
        elif message.kind == "step":
            self._planned(message.answer)
        elif message.kind == "cancel" and message.given in self.known:
            self._mark(message.given, "cancel", f"cancel {message.given}")
        elif message.kind == "notify":
            self._notified(message)

    def _submitted(self, request: Request, receipt: Receipt) -> None:
        doing = at_the_door(self.header, request, receipt)
        if receipt.verdict != "accepted" and request.id in self.known:
            doing = self.known[request.id].doing
        else:
            self._count += 1
            self.known[request.id] = Known(self._count, doing, request.prompt_tokens)
            self._over += [request.id] if doing == "over" else []
        if self._is_drawn:
            self._mark(
                request.id, receipt.verdict, f"submit {self._teller.request(request)}: {self._teller.receipt(receipt)}"
            )
            self._cell(request.id).doing = doing
            if receipt.verdict != "accepted":
                self._decide(request.id, receipt.verdict, self._teller.receipt(receipt))

    def _planned(self, plan: Plan) -> None:
        if not self._is_drawn:
            return
        for request, start, tokens, samples in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True):
            cell = self._cell(request)
            known = self.known.get(request)
            decodes = known is not None and known.decodes(start, tokens)
            cell.entry = Entry(start, tokens, samples, decodes, plan.drafts.get(request, 0))
            span = f"position {start:,}" if tokens == 1 else f"positions {start:,} to {start + tokens - 1:,}"
            more = ", and samples a token" if samples else ""
            more += f", and verifies {counted(cell.entry.drafts, 'draft')}" if cell.entry.drafts else ""
            cell.says.append(f"{'decodes' if decodes else 'prefill'}, {span}{more}")

    def _notified(self, message: Message) -> None:
        heard = answer_in(message.given)
        request = message.given.get("request")
        if heard is not None:
            self._mark(heard[0], "", f"{heard[1]} {'is there' if heard[2] else 'failed'}")
        elif isinstance(request, str):
            self._mark(request, "gone", "its client is gone")
        elif self._is_drawn and "transfer" in message.given:
            self.columns[-1].events.append(f"{message.given.get('type')} {message.given['transfer']}".replace("_", " "))

    def _delta(self, delta: Delta) -> None:
        kind = delta[0]
        if kind == "unindexed":
            return
        if kind == "delivered":
            for request in delta[1] if self._is_drawn else ():
                self._mark(request, "delivered", "a token is delivered")
            return
        request = delta[1]
        known = self.known.get(request)
        if known is not None:
            turn(known, delta)
            self._over += [request] if known.doing == "over" else []
        if not self._is_drawn:
            return
        says = self._teller.delta(delta)
        self._mark(request, kind if kind in MARKS else "", says)
        cell = self._cell(request)
        if known is not None:
            cell.doing, cell.why = known.doing, known.why
        if kind in DECISIONS:
            self._decide(request, kind, says)

    def _cell(self, request: str) -> Cell:
        column = self.columns[-1]
        if request not in column.cells:
            known = self.known.get(request)
            column.cells[request] = Cell(known.doing if known is not None else "over")
            self.numbers.setdefault(request, known.number if known is not None else 0)
        return column.cells[request]

    def _mark(self, request: str, what: str, says: str) -> None:
        if self._is_drawn:
            cell = self._cell(request)
            cell.marks += [what] if what else []
            cell.says.append(says)

    def _decide(self, request: str, what: str, says: str) -> None:
        self.decisions.append(Decision(self.message, self.step, request, what, says))


def histories(timeline: Timeline) -> dict[Place, list[Holding | None]]:
    """Each place that was ever used while it was drawn: what for, after each column."""
    places = sorted({*timeline.before, *(place for column in timeline.columns for place in column.changed)})
    now: dict[Place, Holding | None] = dict(timeline.before)
    rows: dict[Place, list[Holding | None]] = {place: [] for place in places}
    for column in timeline.columns:
        now |= column.changed
        for place, row in rows.items():
            row.append(now.get(place))
    return rows
