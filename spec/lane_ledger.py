"""What each lane has got: counters of service per share, computed from messages alone."""

from collections.abc import Collection, Mapping

from attrs import Factory, define

from .service import Tariff, lane_prices
from .settings import Lane, Settings
from .tracks import Track


@define(eq=False)
class LaneLedger:
    """Counters of lanes, like those of clients in the ledger: service times the lane's price, the inverse of its share.

    `virtual_time` is the largest that the least counter of lanes that wait ever was, at a pick or a return.  A lane of
    which nothing waited comes back with at most its burst below it.  `since`: a number for each time that a lane came
    to wait.  `charged` and `owed`: what a request was charged, and what a running one may still be.  `certificate` is U
    of the trace: the most that a lane was charged, or could still be charged, at a pick, and beside it what was passed
    over there.
    """

    tariff: Tariff
    lanes: Mapping[str, Lane]
    prices: Mapping[str, int]
    counters: dict[str, int] = Factory(dict)
    waiting: dict[str, int] = Factory(dict)
    since: dict[str, int] = Factory(dict)
    charged: dict[str, int] = Factory(dict)
    owed: dict[str, int] = Factory(dict)
    owed_by_lane: dict[str, int] = Factory(dict)
    last_left: str | None = None
    entered: int = 0
    virtual_time: int = 0
    certificate: int = 0

    @classmethod
    def of(cls, settings: Settings) -> "LaneLedger":
        lanes = {lane.name: lane for lane in settings.lanes}
        prices = lane_prices(settings) if lanes else {}
        nothing = dict.fromkeys(lanes, 0)
        return cls(Tariff.of(settings), lanes, prices, counters=nothing, owed_by_lane=dict(nothing))

    @property
    def shares(self) -> int:
        return sum(lane.share_percent for lane in self.lanes.values())

    def burst(self, lane: str) -> int:
        return self.lanes[lane].burst * self.prices[lane]

    def slack(self, credit: int) -> int:
        """How far beside U the counters of lanes that wait may be apart."""
        return credit + max(map(self.burst, self.lanes))

    def enter(self, track: Track) -> None:
        """A request waits; its lane is lifted if nothing of it waited before."""
        lane = track.lane
        self._settle(track)
        if lane not in self.waiting:
            self._lift(lane)
            self.entered += 1
            self.since[lane] = self.entered
        self.waiting[lane] = self.waiting.get(lane, 0) + 1

    def leave(self, track: Track) -> None:
        """It waits no longer: it was admitted, or it ended."""
        lane = track.lane
        self.waiting[lane] -= 1
        if not self.waiting[lane]:
            del self.waiting[lane], self.since[lane]
            self.last_left = lane

    def least(self, without: Collection[str] = ()) -> int | None:
        """The least counter of lanes that wait."""
        return min((self.counters[lane] for lane in self.waiting if lane not in without), default=None)

    def pick(self, track: Track, cost: int, held: Collection[str]) -> None:
        """A request enters that costs so much in all.  Lanes that were `held` are passed over by right, and U is larger
        by as much."""
        lane, least, ready = track.lane, self.least(), self.least(held)
        passed_over = ready - least if least is not None and ready is not None else 0
        if least is not None:
            self.virtual_time = max(self.virtual_time, least)
        self._owe(track, cost - self.charged.get(track.id, 0))
        self.certificate = max(self.certificate, self.owed_by_lane[lane] * self.prices[lane] + passed_over)

    def charge(self, track: Track, amount: int) -> int:
        """A charge, and what it is per share."""
        weighted = amount * self.prices[track.lane]
        self.counters[track.lane] += weighted
        self.charged[track.id] = self.charged.get(track.id, 0) + amount
        if track.waits:  # it was under way when its request was preempted
            self.certificate += weighted
        else:
            self._owe(track, -amount)
        return weighted

    def end(self, track: Track) -> int:
        """A request ends; what its lane gets back, per share, for outputs that were predicted and not generated.  A
        refund is no credit: it never takes a counter below the virtual time."""
        self._settle(track)
        self.charged.pop(track.id, None)
        if track.paid_outputs <= track.outputs:
            return 0
        due = self.tariff.outputs(track.client, track.prompt_tokens, track.outputs, track.paid_outputs)
        counter = self.counters[track.lane]
        least = min(counter, self.virtual_time)
        self.counters[track.lane] = max(counter - due * self.prices[track.lane], least)
        return counter - self.counters[track.lane]

    def _lift(self, lane: str) -> None:
        least = self.least()
        if least is None and self.last_left is not None:
            least = self.counters[self.last_left]
        if least is not None:
            self.virtual_time = max(self.virtual_time, least)
        self.counters[lane] = max(self.counters[lane], self.virtual_time - self.burst(lane))

    def _owe(self, track: Track, amount: int) -> None:
        if amount > 0 or track.id in self.owed:
            self.owed[track.id] = self.owed.get(track.id, 0) + amount
            self.owed_by_lane[track.lane] += amount

    def _settle(self, track: Track) -> None:
        self.owed_by_lane[track.lane] -= self.owed.pop(track.id, 0)
