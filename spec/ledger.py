"""What each client has got: counters of service, computed from messages alone."""

import heapq
from collections.abc import Collection
from typing import Literal

from attrs import Factory, define, field

from .service import Tariff
from .settings import Settings
from .tracks import Track
from .vocabulary import Capabilities

Cause = Literal["charge", "refund", "return", "empty", "requeue"]
"""Why a counter may change: service; a prediction that was too long; the lift of a client that comes back while others
wait, or while nobody does; the lift of one whose request was preempted."""


@define(eq=False)
class Lowest:
    """The least counter among some clients.  The heap holds lower bounds of counters, and is brought up to date where
    somebody looks; `listed` is the entry of a client that counts."""

    counters: dict[str, int]
    clients: set[str] = Factory(set)
    heap: list[tuple[int, str]] = Factory(list)
    listed: dict[str, int] = Factory(dict)

    def add(self, client: str) -> None:
        self.clients.add(client)
        self.fell(client)

    def remove(self, client: str) -> None:
        self.clients.discard(client)

    def fell(self, client: str) -> None:
        """Its entry must not be above its counter."""
        counter = self.counters[client]
        if client in self.clients and (client not in self.listed or counter < self.listed[client]):
            self.listed[client] = counter
            heapq.heappush(self.heap, (counter, client))

    def least(self, without: Collection[str] = ()) -> int | None:
        passed: list[tuple[int, str]] = []
        while self._has_first() and self.heap[0][1] in without:
            passed.append(heapq.heappop(self.heap))
        least = self.heap[0][0] if self.heap else None
        for entry in passed:
            heapq.heappush(self.heap, entry)
        return least

    def _has_first(self) -> bool:
        """Bring the first entry up to date, if there is one."""
        while self.heap:
            entry, client = self.heap[0]
            if entry != self.listed.get(client):
                heapq.heappop(self.heap)
            elif client not in self.clients:
                heapq.heappop(self.heap)
                del self.listed[client]
            elif entry != (counter := self.counters[client]):
                self.listed[client] = counter
                heapq.heapreplace(self.heap, (counter, client))
            else:
                return True
        return False


@define
class Usage:
    """What a client was charged for since the last snapshot, and what it was not: `recomputed` of which
    `recomputed_prompt` are positions that were computed again."""

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    prompt_cost: int = 0
    output_cost: int = 0
    entry_cost: int = 0
    cached_tokens: int = 0
    recomputed: int = 0
    recomputed_prompt: int = 0

    @property
    def cost(self) -> int:
        return self.entry_cost + self.prompt_cost + self.output_cost


@define(eq=False)
class Running:
    """A client's running requests: how many, their declared length, and what they may still be charged."""

    requests: int = 0
    resident_tokens: int = 0
    committed: int = 0


@define(eq=False)
class Ledger:
    """Counters of clients as Virtual Token Counter keeps them (Sheng et al., OSDI 2024, Algorithm 2) by the declared
    tariff.

    `waiting`: its waiting requests, of each client that has any.  A client is held while a declared cap keeps its first
    waiting request out; `since`: a number for each time that a client came to wait and was not held.
    `virtual_time`: the largest least counter at a pick or lift so far, below which nobody who waits can be.
    `certificate` is U of the trace: the largest charge and commitment of a client at a pick, predicted outputs
    included, and beside it what was passed over at a pick.  `slack`: what a claim lets the counters differ beyond it.
    `causes`, `usage`: why counters may have changed since the last snapshot, and for what.
    """

    tariff: Tariff
    settings: Settings
    slack: int = 0
    counters: dict[str, int] = Factory(dict)
    waiting: dict[str, dict[str, Track]] = Factory(dict)
    running: dict[str, Running] = Factory(dict)
    causes: dict[str, set[Cause]] = Factory(dict)
    usage: dict[str, Usage] = Factory(dict)
    since: dict[str, int] = Factory(dict)
    parked: set[str] = Factory(set)
    heads: dict[str, list[tuple[int, str]]] = Factory(dict)
    last_left: str | None = None
    entered: int = 0
    virtual_time: int = 0
    certificate: int = 0
    everyone: Lowest = field(init=False, default=Factory(lambda self: Lowest(self.counters), takes_self=True))
    backlogged: Lowest = field(init=False, default=Factory(lambda self: Lowest(self.counters), takes_self=True))

    @classmethod
    def of(cls, settings: Settings, capabilities: Capabilities) -> "Ledger":
        return cls(Tariff.of(settings), settings, _slack(capabilities))

    @property
    def bound(self) -> int:
        """How far counters of clients that wait may be apart."""
        return self.certificate + self.slack

    @property
    def charges_chunks(self) -> bool:
        return self.settings.charge_prompt == "chunk"

    @property
    def committed(self) -> dict[str, int]:
        return {client: running.committed for client, running in self.running.items()}

    # --- what happens ------------------------------------------------------------------------------------

    def enter(self, track: Track, *, preempted: bool) -> None:
        """A request waits; its client is lifted if none of it waited before."""
        client = track.client
        self.parked.discard(track.id)
        self.counters.setdefault(client, 0)
        if preempted:
            self._stop(track)
        if client not in self.waiting:
            self._lift(client, preempted=preempted)
        self.waiting.setdefault(client, {})[track.id] = track
        self.everyone.add(client)
        heapq.heappush(self.heads.setdefault(client, []), (track.arrival, track.id))
        self._judge(client)

    def pick(self, track: Track, cached_tokens: int, held_back: Collection[str]) -> int:
        """A request is admitted; what that charges its client.  Clients that are held, or were `held_back`, are passed
        over by right, and U is larger by as much."""
        client = track.client
        passed_over = self._passed_over(client, held_back) if self.waits(track) else 0
        charge = self._pay_at_the_pick(track, cached_tokens)
        self._leave(track)
        self._charge(client, charge)
        running = self.running_of(client)
        running.requests += 1
        running.resident_tokens += track.limit_tokens
        running.committed += self.unpaid(track)
        self.certificate = max(self.certificate, charge + running.committed + passed_over)
        self._judge(client)
        return charge

    def compute(self, track: Track, end: int) -> int:
        """Positions up to `end` are scheduled; what that charges where a prompt is charged chunk by chunk."""
        charge = self._pay_prompt(track, end)
        if charge:
            self._charge(track.client, charge)
            self._spend(track.client, charge)
        return charge

    def serve(self, track: Track) -> int:
        """An output token is delivered; what that charges, which is nothing if it was predicted.  One that was under
        way when its request was preempted is committed no more."""
        charge = self._pay_outputs(track, track.outputs)
        self._charge(track.client, charge)
        if self.waits(track):
            self.certificate += charge
        else:
            self._spend(track.client, charge)
        return charge

    def end(self, track: Track) -> int:
        """A request ends; what its client gets back for outputs that were predicted and not generated."""
        self._depart(track)
        self.parked.discard(track.id)
        refund = self._refund(track)
        self._judge(track.client)
        return refund

    def park(self, track: Track) -> None:
        """A request neither waits nor runs for a while."""
        self._depart(track)
        self.parked.add(track.id)
        self._judge(track.client)

    # --- asking ------------------------------------------------------------------------------------------

    def waits(self, track: Track) -> bool:
        return track.id in self.waiting.get(track.client, ())

    def running_of(self, client: str) -> Running:
        if client not in self.running:
            self.running[client] = Running()
        return self.running[client]

    def usage_of(self, client: str) -> Usage:
        if client not in self.usage:
            self.usage[client] = Usage()
        return self.usage[client]

    def unpaid(self, track: Track) -> int:
        """What an admitted request may still be charged."""
        client, prompt = track.client, track.prompt_tokens
        outputs = self.tariff.outputs(client, prompt, track.paid_outputs, track.limit_tokens - prompt)
        return self.tariff.prompt(client, prompt - track.paid_tokens) + outputs

    def cost(self, track: Track) -> int:
        """What the admission of a waiting request adds: what it is charged at once, and what it may be later."""
        return self.unpaid(track) + (0 if track.epoch else self.tariff.entry(track.client))

    def first(self, client: str) -> Track:
        """The first of a client's waiting requests, by arrival."""
        waiting, heads = self.waiting[client], self.heads[client]
        while heads[0][1] not in waiting:
            heapq.heappop(heads)
        return waiting[heads[0][1]]

    def is_held(self, client: str) -> bool:
        """A declared cap keeps a client with waiting requests out.  Whoever has nothing running may exceed those of
        tokens and cost."""
        s, running = self.settings, self.running_of(client)
        if s.client_seats and running.requests >= s.client_seats:
            return True
        if running.requests < 1 or not (s.client_resident_tokens or s.client_committed_cost):
            return False
        head = self.first(client)
        tokens, cost = running.resident_tokens + head.limit_tokens, running.committed + self.cost(head)
        return _exceeds(tokens, s.client_resident_tokens) or _exceeds(cost, s.client_committed_cost)

    # --- parts -------------------------------------------------------------------------------------------

    def _judge(self, client: str) -> None:
        """A client is backlogged while it waits and is not held."""
        if client in self.waiting and not self.is_held(client):
            if client not in self.since:
                self.entered += 1
                self.since[client] = self.entered
                self.backlogged.add(client)
        elif self.since.pop(client, None) is not None:
            self.backlogged.remove(client)

    def _leave(self, track: Track) -> None:
        client = track.client
        requests = self.waiting.get(client, {})
        requests.pop(track.id, None)
        if not requests and self.waiting.pop(client, None) is not None:
            self.last_left = client
            self.everyone.remove(client)
            del self.heads[client]

    def _depart(self, track: Track) -> None:
        if self.waits(track):
            self._leave(track)
        elif track.id not in self.parked:
            self._stop(track)

    def _stop(self, track: Track) -> None:
        """A running request is that no more."""
        running = self.running_of(track.client)
        running.requests -= 1
        running.resident_tokens -= track.limit_tokens
        running.committed -= self.unpaid(track)

    def _spend(self, client: str, charge: int) -> None:
        """Of what running requests may be charged so much is."""
        self.running_of(client).committed -= charge
        if self.settings.client_committed_cost:
            self._judge(client)

    def _passed_over(self, client: str, held_back: Collection[str]) -> int:
        least, allowed = self.everyone.least(), self.backlogged.least(held_back)
        assert least is not None
        self.virtual_time = max(self.virtual_time, least)
        return (self.counters[client] if allowed is None else allowed) - least

    def _lift(self, client: str, *, preempted: bool) -> None:
        least = self.everyone.least()
        if least is None:
            if self.last_left is None:
                return
            least = self.counters[self.last_left]
        cause: Cause = "requeue" if preempted else "return" if self.waiting else "empty"
        self.causes.setdefault(client, set()).add(cause)
        self.counters[client] = max(self.counters[client], least)
        self.virtual_time = max(self.virtual_time, least)

    def _charge(self, client: str, amount: int) -> None:
        self.counters[client] = self.counters.get(client, 0) + amount
        causes = self.causes.get(client)
        if causes is None:
            causes = self.causes[client] = set()
        causes.add("charge")

    def _refund(self, track: Track) -> int:
        """A refund is no credit: it never takes a counter below the virtual time."""
        client = track.client
        if track.paid_outputs <= track.outputs:
            return 0
        counter = self.counters[client]
        due = self.tariff.outputs(client, track.prompt_tokens, track.outputs, track.paid_outputs)
        self.counters[client] = max(counter - due, min(counter, self.virtual_time))
        self.everyone.fell(client)
        self.backlogged.fell(client)
        self.causes.setdefault(client, set()).add("refund")
        return counter - self.counters[client]

    def _pay_at_the_pick(self, track: Track, cached_tokens: int) -> int:
        usage = self.usage_of(track.client)
        charge = 0
        if track.epoch:
            usage.recomputed += len(track.tokens) - cached_tokens
            usage.recomputed_prompt += track.prompt_tokens
        else:
            usage.requests += 1
            usage.cached_tokens += min(cached_tokens, track.prompt_tokens)
            charge = self.tariff.entry(track.client)
            usage.entry_cost += charge
        if self.settings.charge_prediction:
            charge += self._pay_outputs(track, min(track.expected_tokens, track.limit_tokens - track.prompt_tokens))
        return charge + self._pay_prompt(track, cached_tokens if self.charges_chunks else track.prompt_tokens)

    def _pay_prompt(self, track: Track, end: int) -> int:
        """Each position of the prompt once."""
        tokens = min(end, track.prompt_tokens) - track.paid_tokens
        if tokens <= 0:
            return 0
        track.paid_tokens += tokens
        charge = self.tariff.prompt(track.client, tokens)
        usage = self.usage_of(track.client)
        usage.prompt_tokens += tokens
        usage.prompt_cost += charge
        return charge

    def _pay_outputs(self, track: Track, outputs: int) -> int:
        """Each output once."""
        paid = track.paid_outputs
        if outputs <= paid:
            return 0
        track.paid_outputs = outputs
        charge = self.tariff.outputs(track.client, track.prompt_tokens, paid, outputs)
        usage = self.usage_of(track.client)
        usage.output_tokens += outputs - paid
        usage.output_cost += charge
        return charge


def _exceeds(value: int, cap: int) -> bool:
    return 0 < cap < value


def _slack(capabilities: Capabilities) -> int:
    """Who waited long may be preferred by so much; who shares by quanta gives them in whole turns."""
    claims = capabilities.claims
    aging = capabilities.constant("aging_credit") if "aged_sharing" in claims else 0
    return aging + (capabilities.constant("quantum") if claims & {"drr", "dlpm"} else 0)
