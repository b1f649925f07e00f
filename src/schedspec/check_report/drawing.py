"""A failure's run as a table: which rows and columns there are, what each cell shows and says, and what is folded away.

All texts are short here; that they are escaped is the template's business.
"""

from collections.abc import Callable, Iterator, Sequence

from attrs import Factory, define, frozen

from ..conformance.holdings import STATES, Holding
from ..conformance.names import Names, counted, printable, short_name
from ..conformance.narrate import ranges
from ..conformance.timeline import DOING, Cell, Column, Timeline, histories

MOST_COLUMNS_SHOWN, FIRST_COLUMNS, AROUND = 44, 6, 4
MOST_ROWS_SHOWN = 16
MOST_BLOCK_ROWS_SHOWN = 24
MOST_LOG_SHOWN = 30
MOST_ROWS = 400
MOST_CELLS = 80_000
"""Beyond that a browser is slow, and columns at the beginning are left out."""
MOST_LETTERS = 600
HUES = 8
MOST_CLIENTS = 16


@frozen
class Head:
    """Of a column: what stands above it, and what it is."""

    label: str
    title: str
    is_step: bool
    is_bad: bool
    is_folded: bool


@frozen
class Spot:
    """A cell: its classes, what it shows, what it says, and for a bar how it is filled."""

    classes: str
    text: str
    says: str
    style: str = ""


NOTHING, FREE, EVICTABLE = Spot("", "", ""), Spot("b", "", ""), Spot("b evictable", "", "")
"""Cells of which there are many: the script knows what to say of them."""


@frozen
class Row:
    """`tag`: what stands in cells of blocks for a request."""

    label: str
    title: str
    is_folded: bool
    spots: Sequence[Spot]
    hue: str = ""
    tag: str = ""


@frozen
class Entry:
    """A line of the decision log."""

    number: int
    step: int
    says: str
    is_computed: bool
    is_bad: bool


@define
class Drawing:
    """`left_out`: columns and rows that are nowhere on the page."""

    heads: list[Head]
    requests: list[Row]
    counters: list[Row]
    bars: list[Row]
    blocks: list[Row]
    log: list[Entry]
    notes: list[str] = Factory(list)

    @property
    def folded_columns(self) -> int:
        return sum(head.is_folded for head in self.heads)

    @property
    def folded_rows(self) -> int:
        return sum(row.is_folded for row in (*self.requests, *self.blocks))

    @property
    def step_px(self) -> int:
        """How wide a step is: few of them need not be small."""
        return 27 if len(self.heads) > 24 else 42 if len(self.heads) > 12 else 72

    @property
    def folded_steps(self) -> int:
        return sum(head.is_folded and head.is_step for head in self.heads)

    @property
    def bad_place(self) -> int | None:
        return next((place for place, head in enumerate(self.heads) if head.is_bad), None)

    @property
    def focused_row(self) -> Row | None:
        """Which row the keyboard enters first: of the first request that does something in the column of the break."""
        at = len(self.heads) - 1 if self.bad_place is None else self.bad_place
        rows = (row for row in self.requests if not row.is_folded and len(row.spots) > at and row.spots[at].classes)
        return next(rows, None)

    @property
    def folds(self) -> list[tuple[int, int]]:
        """The first and the last column of each row of columns that are folded away."""
        found: list[tuple[int, int]] = []
        for place, head in enumerate(self.heads):
            if head.is_folded and found and found[-1][1] == place - 1:
                found[-1] = (found[-1][0], place)
            elif head.is_folded:
                found.append((place, place))
        return found

    @property
    def folded_log(self) -> int:
        return max(0, len(self.log) - MOST_LOG_SHOWN)

    @property
    def signs(self) -> str:
        return "".join(spot.text for row in self.requests for spot in row.spots)

    @property
    def kinds(self) -> set[str]:
        """What the legend has to explain."""
        rows = (*self.requests, *self.blocks)
        return {word for classes in {spot.classes for row in rows for spot in row.spots} for word in classes.split()}


class Drawer:
    """`bad`: the message that breaks the rule, as the monitor counts; `number`: how the step table counts one; `clock`:
    how times are written, where the clock moves."""

    def __init__(
        self,
        timeline: Timeline,
        bad: int | None,
        matter: frozenset[str],
        names: Names,
        number: Callable[[int], int],
        clock: Callable[[int], str] | None = None,
    ) -> None:
        self.timeline = timeline
        self.bad = bad
        self.matter = matter
        self.names = names
        self.number = number
        self.clock = clock
        self.columns, self.cut = _fitting(list(timeline.columns), bad)
        self.bad_place = next((n for n, column in enumerate(self.columns) if _has(column, bad)), None)
        self.shown = _shown_columns(len(self.columns), self.bad_place)
        present = {request for column in self.columns for request in column.cells}
        self.order = sorted(present, key=lambda request: (timeline.numbers.get(request, 0), request))
        self.tags = _tags(self.order)

    def drawing(self) -> Drawing:
        blocks = self._blocks() if self.timeline.shows_blocks else []
        return Drawing(
            heads=[self._head(place, column) for place, column in enumerate(self.columns)],
            requests=self._requests(),
            counters=list(self._counters()),
            bars=list(self._bars()) if self.timeline.shows_blocks else [],
            blocks=blocks,
            log=list(self._log()),
            notes=list(self._notes(len(blocks))),
        )

    # --- columns -----------------------------------------------------------------------------------------

    def _head(self, place: int, column: Column) -> Head:
        label = "" if column.step is None else f"{column.step}"
        is_bad = place == self.bad_place
        told = self._short("; ".join(column.events or dict.fromkeys(column.calls)))
        return Head(
            label,
            self._when(place) + (f" ({told})" if told else ""),
            column.step is not None,
            is_bad,
            place not in self.shown,
        )

    def _when(self, place: int) -> str:
        column = self.columns[place]
        if column.step is not None:
            pool = f" of the {column.pool} pool" if column.pool else ""
            return f"step {column.step}{pool}"
        before = next((c.step for c in reversed(self.columns[:place]) if c.step is not None), None)
        return f"after step {before}" if before is not None else "before the first step that is drawn"

    # --- requests ----------------------------------------------------------------------------------------

    def _requests(self) -> list[Row]:
        kept = self._kept_requests()
        rows = []
        for request in self.order[:MOST_ROWS]:
            spots = [self._spot(column.cells.get(request), column) for column in self.columns]
            while request not in kept and spots and spots[-1] is NOTHING:
                spots.pop()
            label, tag = short_name(request) or "(no name)", self.tags[request]
            title = label if tag == label else f"{tag} is {label}"
            rows.append(Row(label, title, request not in kept, spots, self._hue(request), tag))
        return rows

    def _kept_requests(self) -> set[str]:
        """All of a few; else who matters, and who does something near the break."""
        if len(self.order) <= MOST_ROWS_SHOWN:
            return set(self.order)
        near = self.columns[-2 * AROUND :] if self.bad_place is None else self._near(self.bad_place)
        busy = [r for column in near for r, cell in column.cells.items() if cell.entry is not None or cell.marks]
        seen = [request for place in sorted(self.shown, reverse=True) for request in self.columns[place].cells]
        wanted = [*(r for r in self.order if r in self.matter), *busy, *seen]
        return set(list(dict.fromkeys(wanted))[:MOST_ROWS_SHOWN])

    def _near(self, place: int) -> list[Column]:
        return self.columns[max(0, place - AROUND) : place + AROUND]

    def _spot(self, cell: Cell | None, column: Column) -> Spot:
        if cell is None:
            return NOTHING
        is_step = column.step is not None
        classes = f"q {cell.doing}"
        text = cell.sign
        if cell.entry is not None:
            classes = f"q {'decode' if cell.entry.decodes else 'prefill'}"
            text += "" if cell.entry.decodes else f"{cell.entry.tokens}{'*' if cell.entry.samples else ''}"
            text += f"~{cell.entry.drafts}" if cell.entry.drafts else ""
        if not is_step and cell.doing == "over":
            classes = "q ends"
        return Spot(classes, text, self._short(self._in_words(cell)))

    def _in_words(self, cell: Cell) -> str:
        doing = DOING[cell.doing] + (
            f" for {cell.why}" if cell.why and cell.doing in ("waits", "again", "swapped") else ""
        )
        if cell.doing == "runs" and not cell.says:
            return doing
        waits = (
            [doing]
            if cell.doing not in ("runs", "over") and cell.entry is None and "preempted" not in cell.marks
            else []
        )
        return "; ".join([*cell.says, *waits]) or doing

    def _short(self, text: str) -> str:
        text = printable(self.names.short(text))
        return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "…"

    def _hue(self, request: str) -> str:
        return f"h{self.timeline.numbers.get(request, 0) % HUES}"

    def _counters(self) -> Iterator[Row]:
        """Of each client, where snapshots show any: written where it changes."""
        clients = dict.fromkeys(client for column in self.columns for client in column.counters)
        for client in list(clients)[:MOST_CLIENTS]:
            spots, last = [], None
            for column in self.columns:
                now = column.counters.get(client, last)
                text = "" if now == last else f"{now:,}"
                spots.append(Spot("n", text, f"{now:,}") if now is not None else NOTHING)
                last = now
            yield Row(short_name(client), f"counter of {short_name(client)}", False, spots)

    # --- blocks ------------------------------------------------------------------------------------------

    def _bars(self) -> Iterator[Row]:
        holdings = self.timeline.holdings
        for pool in holdings.pools:
            size = holdings.size(pool)
            spots = [self._bar(pool, size, column) for column in self.columns]
            yield Row(f"{pool} pool" if pool else "all", counted(size, "block"), False, spots)

    def _bar(self, pool: str, size: int, column: Column) -> Spot:
        counts = {state: column.counts.get((pool, state), 0) for state in STATES[:4]}
        free = max(0, size - sum(counts.values()))
        told = ", ".join(f"{count:,} {state.replace('aside', 'set aside')}" for state, count in counts.items() if count)
        says = f"{told + ', ' if told else ''}{free:,} free of {size:,}"
        begin, stops = 0.0, []
        for state in ("held", "cached", "aside", "evictable"):
            share = 100 * counts[state] / max(size, 1)
            stops.append(f"var(--{state}) {begin:.1f}% {begin + share:.1f}%")
            begin += share
        stops.append(f"transparent {begin:.1f}%")
        return Spot("bar", "", says, f"background-image:linear-gradient(to top,{','.join(stops)})")

    def _blocks(self) -> list[Row]:
        """A row for each history: blocks that are always used alike share one."""
        alike: dict[tuple[bool, tuple[Holding | None, ...]], list[int]] = {}
        for place, history in histories(self.timeline).items():
            seen = tuple(history[self.cut :])
            if any(holding is not None for holding in seen):
                alike.setdefault((place[0], seen), []).append(place[1])
        rows = sorted(alike.items(), key=lambda item: (item[0][0], item[1]))[:MOST_ROWS]
        kept = _first_rows([self._rank(history) for (_, history), _ in rows])
        return [self._block_row(*key, blocks, place not in kept) for place, (key, blocks) in enumerate(rows)]

    def _rank(self, history: Sequence[Holding | None]) -> int:
        """0: changes near the break, or is in the hands of who matters; 1: somebody holds it where it is seen."""
        at = len(history) - 1 if self.bad_place is None else self.bad_place
        near = history[max(0, at - AROUND) : at + AROUND]
        if any(h is not None and not self.matter.isdisjoint(h.owners) for h in near):
            return 0
        held = any(h is not None and h.owners for h in (history[place] for place in self.shown))
        return 0 if held and len(set(near)) > 1 else 1 if held else 2

    def _block_row(self, in_host: bool, history: Sequence[Holding | None], blocks: list[int], is_folded: bool) -> Row:
        host, numbers = "host " if in_host else "", ranges(sorted(blocks))
        label, title = f"{host}{numbers}", f"{host}{'block' if len(blocks) == 1 else 'blocks'} {numbers}"
        if not self.timeline.holdings.strange.keys().isdisjoint(blocks):
            label, title = f"{label} ⚠", f"{title} (not in the pool)"
        is_named = [self._is_named(history, place) for place in range(len(history))]
        goes_on = [not later for later in is_named[1:]] + [False]
        spots = map(self._block, history, is_named, goes_on)
        return Row(label, title, is_folded, list(spots))

    def _is_named(self, history: Sequence[Holding | None], place: int) -> bool:
        """Where somebody else begins to hold it, at the break, and where columns begin again behind a fold."""
        holding, before = history[place], history[place - 1] if place else None
        is_other = before is None or holding is None or holding.owners != before.owners
        return is_other or place == self.bad_place or (place in self.shown and place - 1 not in self.shown)

    def _block(self, holding: Holding | None, is_named: bool, goes_on: bool) -> Spot:
        """`goes_on`: the cell behind it has the same owner and no name, so this one's may reach into it."""
        if holding is None or not holding.owners:
            return FREE if holding is None else EVICTABLE
        owner = holding.owners[0]
        text = self.tags.get(owner, "") if len(holding.owners) < 2 else f"{len(holding.owners)}×"
        classes = f"b {holding.state} {self._hue(owner)}{' on' if goes_on else ''}"
        says = self._short(holding.says(map(short_name, holding.owners)))
        return Spot(classes, text if is_named else "", says)

    # --- the rest ----------------------------------------------------------------------------------------

    def _log(self) -> Iterator[Entry]:
        for one in self.timeline.decisions:
            is_bad = one.message == self.bad
            yield Entry(self.number(one.message), one.step, self._short(one.says), one.computed, is_bad)

    def _notes(self, block_rows: int) -> Iterator[str]:
        if out := self.cut + self.timeline.left_out:
            yield f"{counted(out, 'column')} at the beginning of the run are left out of this page."
        if len(self.order) > MOST_ROWS:
            yield f"{counted(len(self.order) - MOST_ROWS, 'request')} that came later have no row on this page."
        if block_rows >= MOST_ROWS:
            yield f"Blocks are used in more ways than {MOST_ROWS}: the others have no row on this page."
        if not self.timeline.shows_blocks:
            yield "The scheduler shows no blocks (its capabilities do not say tables), so none are drawn."
        if strange := self.timeline.holdings.strange:
            s = self.timeline.header.settings
            last = s.blocks + s.pools.decode_blocks - 1
            yield (
                f"The run names {'a block that does' if len(strange) == 1 else 'blocks that do'} not exist: "
                f"{ranges(sorted(strange))}; the pool has 0 to {last:,}. What is drawn is what the run says."
            )


def _has(column: Column, message: int | None) -> bool:
    return message is not None and column.first <= message <= column.last


def _fitting(columns: list[Column], bad: int | None) -> tuple[list[Column], int]:
    """As many of the last columns as a browser can bear, and how many are left out."""
    cells, kept = 0, 0
    blocks = min(MOST_ROWS, len({place for column in columns for place in column.changed}))
    for column in reversed(columns):
        cells += len(column.cells) + blocks
        if cells > MOST_CELLS and kept > 2 * AROUND:
            break
        kept += 1
    cut = len(columns) - kept
    return columns[cut:], cut


def _shown_columns(total: int, bad: int | None) -> set[int]:
    """All of a few; else the beginning, and what is around the break: the middle is folded."""
    if total <= MOST_COLUMNS_SHOWN:
        return set(range(total))
    end = min(total, (total - 1 if bad is None else bad) + AROUND + 1)
    return {*range(FIRST_COLUMNS), *range(max(0, end - (MOST_COLUMNS_SHOWN - FIRST_COLUMNS)), end)}


def _first_rows(ranks: Sequence[int]) -> set[int]:
    """Places of the rows that are shown at first: the least ranks, as many as there is room for."""
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    return set(order[:MOST_BLOCK_ROWS_SHOWN])


def _tags(requests: Sequence[str]) -> dict[str, str]:
    """What stands in a block's cell for who holds it: its name if all are short, else its number."""
    if all(0 < len(request) <= 4 and request.isprintable() for request in requests):
        return {request: request for request in requests}
    return {request: f"#{place}" for place, request in enumerate(requests, start=1)}
