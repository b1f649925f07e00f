"""The door in the scheduler's life: each call first sees whose time is over and who may enter; then somebody comes, or
goes.

What the limits are stands in `admission.py`, and what a request gets instead of a refusal in `alternatives.py`.
"""

from attrs import asdict

from ..spec.vocabulary import Delta, Receipt, Request, blocks_alone
from .alternatives import Refusal
from .job import WAITING, Job
from .log import HELD
from .state import State


class AtTheDoor:
    """Who comes in, who is turned away, and who leaves before its end."""

    state: State

    def end(self, job: Job, event: Delta) -> None:
        """A request that waits or runs has ended."""
        raise NotImplementedError

    # --- who comes ---------------------------------------------------------------------------------------

    def begin_call(self, now_ns: int) -> None:
        """Every call first sees who has waited too long, and who of those whom the door holds may enter."""
        self.state.now_ns = now_ns
        self.state.deltas = []
        self.expire()
        self.let_in()

    def expire(self) -> None:
        gate, now_ns = self.state.gate, self.state.now_ns
        if gate is None:
            return
        for job in gate.overdue(now_ns):
            self.end(job, ("expired", job.id))
        for request in gate.alternatives.over(now_ns):
            self.leave_the_door(request, ("expired", request.id))

    def let_in(self) -> None:
        state = self.state
        if not state.held or state.gate is None:
            return
        for request in state.gate.entering(state.running, state.now_ns):
            state.deltas.append(("entered", request.id))
            self.accept(request)

    def leave_the_door(self, request: Request, event: Delta) -> None:
        """The door held it, and gives it up."""
        assert self.state.gate is not None
        self.state.gate.leaves_the_door(request)
        self.state.deltas.append(event)
        self.log_end(request.id)

    def log_end(self, request_id: str) -> None:
        if self.state.log is not None:
            self.state.deltas.append(self.state.log.ends(request_id, self.state.now_ns))

    def answer(self, request: Request) -> Receipt:
        state, gate = self.state, self.state.gate
        if request.id in state.seen:
            return Receipt(verdict="duplicate", of=request.id)
        if gate is not None and (other := gate.generation_of(request, state.now_ns)) is not None:
            return Receipt(verdict="duplicate", of=other)
        state.seen.add(request.id)
        hard = self.refusal(request)
        refusal = Refusal(*hard) if hard is not None else self.refusal_at_the_gate(request)
        if refusal is None:
            self.accept(request)
            return Receipt(verdict="accepted")
        return self.instead(request, refusal) or Receipt(verdict="refused", **asdict(refusal))

    def refusal_at_the_gate(self, request: Request) -> Refusal | None:
        state, gate = self.state, self.state.gate
        return None if gate is None else gate.refusal(request, iter(state.running.values()), state.now_ns)

    def instead(self, request: Request, refusal: Refusal) -> Receipt | None:
        """What the request gets instead of a refusal."""
        state, gate = self.state, self.state.gate
        if gate is None or not gate.door.has_alternatives:
            return None
        receipt = gate.instead(request, refusal, iter(state.running.values()), state.now_ns)
        if state.log is not None and request.id in state.held:
            state.log.turns(request.id, HELD, state.now_ns)
        return receipt

    def accept(self, request: Request) -> None:
        state = self.state
        state.arrivals += 1
        job = state.jobs[request.id] = Job.of(request, state.arrivals)
        if request.dependencies and state.settings.park_timeout_ns:
            state.parking.park(job, set(request.dependencies), state.now_ns)
        else:
            state.queue.push(job)
        if state.log is not None:
            state.log.turns(job.id, WAITING, state.now_ns)
        if state.log is not None and job.state == WAITING:
            state.log.joins(job.arrival)
        if state.gate is not None:
            state.gate.accepts(job, state.now_ns)

    def refusal(self, request: Request) -> tuple[str, int, int] | None:
        """The first limit that the request breaks: reason, limit, value."""
        s = self.state.settings
        prompt, output = request.prompt_tokens, request.max_output_tokens
        limits = [
            ("prompt_tokens", s.max_prompt_tokens, prompt),
            ("output_tokens", s.max_output_tokens, output),
            ("model_tokens", s.max_model_tokens, prompt + output),
            ("kv_blocks", s.blocks, blocks_alone(prompt, output, s.block_size)),
        ]
        if not s.chunked_prefill:  # recompute after a preemption takes prompt and outputs in one step
            limits.append(("token_budget", s.token_budget, prompt + output - 1))
        return next(((reason, limit, value) for reason, limit, value in limits if value > limit), None)

    # --- who goes ----------------------------------------------------------------------------------------

    def disconnect(self, request_id: str) -> None:
        """Its client is gone, at whatever stage it is."""
        request = self.request_of(request_id)
        if request is not None and not request.survives_disconnect:
            self.end_anywhere(request_id, ("cancelled", request_id))

    def request_of(self, request_id: str) -> Request | None:
        """Of somebody who has not ended, inside or held at the door."""
        job, held = self.state.jobs.get(request_id), self.state.held.get(request_id)
        return job.request if job is not None else held.request if held is not None else None

    def end_anywhere(self, request_id: str, event: Delta) -> None:
        job, held = self.state.jobs.get(request_id), self.state.held.get(request_id)
        if job is not None:
            self.end(job, event)
        elif held is not None:
            self.leave_the_door(held.request, event)
