"""What each lane has got: counters of service per share, computed from messages alone."""

from collections.abc import Collection, Mapping

from attrs import Factory, define

from .service import lane_prices
from .settings import Lane, Settings
from .tracks import Track


@define(eq=False)
class LaneLedger:
    """Counters of lanes, like those of clients in the ledger: service times the lane's price, the inverse of its share.

    A lane of which nothing waited comes back with at most its burst below the least.  `since`: a number for each time
    that a lane came to wait.  `charged` and `owed`: what a request was charged, and what a running one may still be.
    `certificate` is U of the trace: the most that a lane was charged, or could still be charged, at a pick, and beside
    it what was passed over there.
    """

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
    certificate: int = 0

    @classmethod
    def of(cls, settings: Settings) -> "LaneLedger":
        lanes = {lane.name: lane for lane in settings.lanes}
        prices = lane_prices(settings) if lanes else {}
        return cls(lanes, prices, dict.fromkeys(lanes, 0), owed_by_lane=dict.fromkeys(lanes, 0))

    @property
    def whole(self) -> int:
        """Price times share, the same for every lane."""
        return next(self.prices[name] * lane.share_percent for name, lane in self.lanes.items())

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
        lane = track.lane
        least, ready = self.least(), self.least(held)
        passed_over = ready - least if least is not None and ready is not None else 0
        self._owe(track, cost - self.charged.get(track.id, 0))
        self.certificate = max(self.certificate, self.owed_by_lane[lane] * self.prices[lane] + passed_over)

    def charge(self, track: Track, amount: int) -> None:
        weighted = amount * self.prices[track.lane]
        self.counters[track.lane] += weighted
        self.charged[track.id] = self.charged.get(track.id, 0) + amount
        if track.waits:  # it was under way when its request was preempted
            self.certificate += max(0, weighted)
        else:
            self._owe(track, -amount)

    def end(self, track: Track) -> None:
        self._settle(track)
        self.charged.pop(track.id, None)

    def _lift(self, lane: str) -> None:
        least = self.least()
        if least is None and self.last_left is not None:
            least = self.counters[self.last_left]
        if least is not None:
            self.counters[lane] = max(self.counters[lane], least - self.burst(lane))

    def _owe(self, track: Track, amount: int) -> None:
        if amount > 0 or track.id in self.owed:
            self.owed[track.id] = self.owed.get(track.id, 0) + amount
            self.owed_by_lane[track.lane] += amount

    def _settle(self, track: Track) -> None:
        self.owed_by_lane[track.lane] -= self.owed.pop(track.id, 0)
