"""ADMIT: what a request gets instead of a refusal, the rule about it."""

from typing import TYPE_CHECKING

from ..relation import registry
from ..vocabulary import PERMANENT_REASONS, blocks_alone
from .admit import ClientsAreBounded, Limits, QueuesAreBounded, RatesHold
from .base import TraceRule

if TYPE_CHECKING:
    from ..monitor import Monitor
    from ..tracks import Track
    from ..vocabulary import Delta, Message, Receipt, Request

monitor = registry.monitor


@monitor("ADMIT-11", claims=("alternatives",))
class AlternativesAreRecorded(TraceRule):
    """Who would be refused may be held at the door, go to another pool or a smaller model, or become asynchronous, if
    the door declares it: with a record, at most once, never instead of a plain acceptance, and never for ever: the door
    has decided by the time that it gave, and lets whoever is asynchronous into an empty system.

    Why: what an overloaded door did with about 6 % of the load stood in no record, so nobody saw it
    (https://github.com/sgl-project/sglang/pull/34320).
    """

    def __init__(self) -> None:
        self.ledgers: tuple[Limits, ...] = (QueuesAreBounded(), ClientsAreBounded(), RatesHold())
        self.due_ns: dict[str, int] = {}
        self.asynchronous: dict[str, Request] = {}
        self.strays: list[Delta] = []
        self.is_repeated = False
        self.was_held = False

    # --- what happens --------------------------------------------------------------------------------------------

    def on_call(self, m: "Monitor", message: "Message") -> None:
        self.strays = []
        self.is_repeated = message.kind == "complete" and message.given.step not in m.in_flight
        self.was_held = message.kind == "submit" and message.given.id in m.held

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        for ledger in self.ledgers:
            ledger.on_accept(m, track)

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        for ledger in self.ledgers:
            ledger.on_admit(m, track)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        for ledger in self.ledgers:
            ledger.on_ended(m, track)

    def on_door(self, m: "Monitor", request: "Request | None", delta: "Delta") -> None:
        """`deferred` and `converted` belong into the receipt of the request that they are about."""
        kind, name = delta[0], delta[1]
        if kind in ("deferred", "converted") or request is None:
            self.strays.append(delta)
            return
        due_ns = self.due_ns.pop(name, None)
        self.asynchronous.pop(name, None)
        m.count("ADMIT-11")
        if kind == "expired" and (due_ns is None or m.now_ns <= due_ns):
            says = "who is held is not given up before the time that it was told"
            m.fail("ADMIT-11", "early", says, request=name, due_ns=due_ns, now_ns=m.now_ns)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        for delta in self.strays:
            says = "a deferral or conversion is recorded in the receipt of the request, and of nobody else"
            m.fail("ADMIT-11", "stray", says, request=delta[1], delta=delta[0])
        if message.kind == "submit":
            self._submitted(m, message.given, message.answer)
        if message.kind not in ("observe", "end") and not self.is_repeated:
            self._decided(m)
        if message.kind == "step" and not m.live:
            self._entered(m)

    def on_end(self, m: "Monitor") -> None:
        if m.held:
            says = "when the run ends the door holds nobody"
            m.fail("ADMIT-11", "never", says, held=sorted(m.held)[:5])

    # --- what is asked -------------------------------------------------------------------------------------------

    def _submitted(self, m: "Monitor", request: "Request", receipt: "Receipt") -> None:
        recorded = [d for d in receipt.deltas if d[0] in ("deferred", "converted") and d[1] == request.id]
        said: list[Delta] = []
        if receipt.verdict == "deferred":
            said.append(("deferred", request.id, receipt.decided_after_ns))
        elif receipt.verdict == "converted":
            said.append(("converted", request.id, receipt.how))
        if said != recorded:
            says = "a deferral or conversion is in the receipt and in its deltas, once, and the same in both"
            m.fail("ADMIT-11", "recorded", says, request=request.id, receipt=receipt.verdict, deltas=recorded)
        if not said:
            return
        m.count("ADMIT-11")
        facts = {"request": request.id, "verdict": receipt.verdict, "how": receipt.how, "reason": receipt.reason}
        if request.was_converted or self.was_held:
            m.fail("ADMIT-11", "once", "what was deferred or converted is not deferred or converted again", **facts)
        elif not _is_declared(m, request, receipt, held=len(self.due_ns), asynchronous=len(self.asynchronous)):
            m.fail("ADMIT-11", "declared", "an alternative is one that the door declares, within its limits", **facts)
        elif not self._would_be_refused(m, request, receipt):
            says = "an alternative is for somebody who would be refused"
            m.fail("ADMIT-11", "due", says, **facts, limit=receipt.limit, value=receipt.value)
        if receipt.verdict == "deferred":
            self.due_ns[request.id] = m.now_ns + (receipt.decided_after_ns or 0)
        elif receipt.how == "asynchronous":
            self.asynchronous[request.id] = request

    def _would_be_refused(self, m: "Monitor", request: "Request", receipt: "Receipt") -> bool:
        """A limit that the receipt names is broken; as far as a trace tells."""
        reason, limit, value = receipt.reason, receipt.limit, receipt.value
        if reason is None or limit is None or value is None or limit >= value:
            return False
        if reason in PERMANENT_REASONS:
            return receipt.how in ("pool", "model") and reason in _too_large(m, request)
        if reason == "queue_age":  # nobody waits in an empty system; its own prompt may take too long even there
            return bool(m.live)
        if reason == "first_token":
            return True
        return not all(ledger.has_room(m, request, reason) for ledger in self.ledgers)

    def _decided(self, m: "Monitor") -> None:
        """They are due in the order in which they came, as each waits equally long at most; else the first will do."""
        late = next((name for name, due_ns in self.due_ns.items() if m.now_ns > due_ns), None)
        if late is not None:
            due_ns = self.due_ns.pop(late)
            says = "the door has decided by the time that it gave"
            m.fail("ADMIT-11", "late", says, request=late, due_ns=due_ns, now_ns=m.now_ns)

    def _entered(self, m: "Monitor") -> None:
        """Nobody waits or runs: only a limit that still holds somebody back keeps it at the door."""
        for request in self.asynchronous.values():
            m.count("ADMIT-11")
            if all(ledger.has_room(m, request) for ledger in self.ledgers):
                m.fail("ADMIT-11", "idle", "an empty system lets in whoever is asynchronous", request=request.id)
                return


def _is_declared(m: "Monitor", request: "Request", receipt: "Receipt", *, held: int, asynchronous: int) -> bool:
    door = m.settings.door
    if receipt.verdict == "deferred":
        return held < door.deferred_requests and (receipt.decided_after_ns or 0) <= door.defer_ns
    if receipt.how == "asynchronous":
        return asynchronous < door.asynchronous_requests
    most = {"pool": door.pool_tokens, "model": door.model_tokens}.get(receipt.how or "", 0)
    return request.declared_tokens <= most


def _too_large(m: "Monitor", request: "Request") -> set[str]:
    """The hard limits that the request breaks."""
    s, prompt, output = m.settings, request.prompt_tokens, request.max_output_tokens
    values = {
        "prompt_tokens": (s.max_prompt_tokens, prompt),
        "output_tokens": (s.max_output_tokens, output),
        "model_tokens": (s.max_model_tokens, prompt + output),
        "kv_blocks": (m.world.usable_blocks, blocks_alone(prompt, output, s.block_size)),
        "token_budget": (prompt + output if s.chunked_prefill else s.token_budget, prompt + output - 1),
    }
    return {reason for reason, (limit, value) in values.items() if value > limit}
