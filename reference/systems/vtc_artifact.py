"""The program with which VTC was measured (Ying1123/VTC-artifact, commit 192c2e20), and where it is not the paper's.

* A round of admissions is tried when nobody runs, or after `DECODES` decode steps since somebody entered; from then on
  in every step until somebody does.
* Memory is LightLLM's future peak, which must stay below the pool; a request counts with a token more than its prompt.
* Clients are told apart by LoRA adapters.  These are never loaded (`--no-lora`), but the test sets `ADAPTER_TOKENS` of
  the pool aside for each client of the batch.
* A client that comes back is lifted to the least counter of those who wait, and not at all if nobody does.
* An output is charged when it is decoded, the first one, of the prefill, is not; and whenever a request ends, all who
  run are charged for their output a second time.
* With `charge_prediction` a request is charged for outputs when it is picked, and only for those beyond when they come;
  a refund may take a counter below everybody's.  What is predicted is an average of the client's requests that have
  ended (`PredictingArtifact`), or the declared length, which in its workloads is the true one.

Requests declare the length that they will have, and no client leaves, as in its workloads.
"""

from collections.abc import Sequence

from attrs import define, field

from ...spec.vocabulary import Delta, Outcome, Settings
from ..decide import Room
from ..job import RUNNING, Job
from ..selection import SharedQueue, Vtc
from ..selection.bill import Bill
from ..selection.race import Member
from ..selection.sharing import Members
from ..state import Admission
from .published import Published, System

DECODES = 10
OLD_PARTS, ALL_PARTS = 4, 5
MILLIONTHS = 1_000_000
ADAPTER_TOKENS = 4 * 8
"""`req_queue.py` counts four tokens a rank; `exp_suite.py` and `launch_server.py` start adapters of rank 8."""

ARTIFACT = System(
    name="vtc-artifact",
    source="Ying1123/VTC-artifact, commit 192c2e20, slora/server/router",
    fixed={
        "reserve": "peak",
        "chunked_prefill": False,
        "batch_mix": "exclusive",
        "phase_first": "prefill",
        "admission_period_steps": DECODES + 1,
    },
    promises=frozenset({"exclusive"}),
    numbers=(
        *("policy", "prices", "charge_prediction", "door"),
        *("request_weight", "input_weight", "output_weight", "product_weight", "square_weight"),
    ),
)


class Lifted(Vtc):
    """Its lift and its refund."""

    def enters(self, queues: Members, member: Member) -> None:
        least = queues.least()
        if least is not None:
            member.counter = max(member.counter, least.counter)

    def picked(self, queues: Members, member: Member) -> None:
        """There is no virtual time."""

    def refund(self, queues: Members, member: Member, amount: int) -> None:
        member.counter -= amount


@define
class ArtifactBill(Bill):
    """`predicted`: outputs that a request was charged for when it was picked; it and `averages` in millionths of an
    output."""

    averages: dict[str, int] = field(factory=dict)
    is_average: bool = False
    predicted: dict[str, int] = field(factory=dict)

    def pick(self, job: Job) -> int:
        client, prompt = job.request.client, job.request.prompt_tokens
        charge = self.tariff.entry(client) + self.tariff.prompt(client, prompt)
        if self.predicts:
            sure = MILLIONTHS * job.request.expected_output_tokens
            self.predicted[job.id] = self.averages.get(client, 0) if self.is_average else sure
            charge += self.tariff.outputs(client, prompt, 0, self._guess(job))
        return charge

    def token(self, job: Job) -> int:
        """Of a decode; the first output comes with the prefill.  It is charged before it runs: what was predicted is
        compared with the outputs that are there by then."""
        return self._output(job, job.outputs - 1) if job.outputs > 1 else 0

    def again(self, job: Job) -> int:
        """What its latest output costs, unless it was predicted."""
        return self._output(job, job.outputs)

    def refund(self, job: Job) -> int:
        """Who ends teaches what to predict of its client."""
        client, guess = job.request.client, self._guess(job)
        ended, old = MILLIONTHS * job.outputs, self.averages.get(client)
        self.averages[client] = ended if old is None else (OLD_PARTS * old + ended) // ALL_PARTS
        return self.tariff.outputs(client, job.request.prompt_tokens, min(job.outputs, guess), guess)

    def _output(self, job: Job, there: int) -> int:
        if MILLIONTHS * there <= self.predicted.get(job.id, 0):
            return 0
        return self.tariff.outputs(job.request.client, job.request.prompt_tokens, there - 1, there)

    def _guess(self, job: Job) -> int:
        """In whole outputs."""
        return (self.predicted.get(job.id, 0) + MILLIONTHS // 2) // MILLIONTHS


class Artifact(Published):
    """The loop of the reference with the deviations."""

    is_average = False

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(ARTIFACT, settings, seed)
        queue = self.state.queue
        if isinstance(queue, SharedQueue):
            bill = queue.bill
            queue.bill = ArtifactBill(bill.tariff, bill.by_chunk, bill.predicts, is_average=self.is_average)
            if isinstance(queue.members.sharing, Vtc):
                queue.members.sharing = Lifted()

    def admit(self, budget: int, blocks: int) -> list[Admission]:
        since = self.state.since_round
        admissions = super().admit(budget, blocks)
        if not admissions:
            self.state.since_round = since
        return admissions

    def peak_fits(self, admission: Admission, room: Room, kept: int) -> bool:
        """Of LightLLM: before each end, all who are still there have as many more tokens."""
        entering = [one.job for one in (*room.entering, admission)]
        lengths = [(_left(job) - 1, job.request.prompt_tokens + job.outputs) for job in room.staying]
        lengths += [(_left(job) - 1, job.request.prompt_tokens + 1) for job in entering]
        clients = {job.request.client for job in (*room.staying, *entering)}
        held = peak = 0
        for there, (left, has) in enumerate(sorted(lengths, key=lambda pair: -pair[0]), start=1):
            held += has
            peak = max(peak, max(left, 0) * there + held)
        pool = self.state.settings.blocks * self.state.settings.block_size
        return peak < pool - ADAPTER_TOKENS * len(clients)

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]:
        batch = [job for job in self.state.running.values() if job.state == RUNNING]
        deltas = super().complete(outcome, now_ns)
        if any(job.id not in self.state.running for job in batch):
            self.charge_again(batch)
        return deltas

    def charge_again(self, batch: Sequence[Job]) -> None:
        queue = self.state.queue
        if isinstance(queue, SharedQueue) and isinstance(queue.bill, ArtifactBill):
            for job in batch:
                queue.members.charge(job, queue.bill.again(job))
                if job.id not in self.state.running:
                    queue.bill.predicted.pop(job.id, None)


def _left(job: Job) -> int:
    return job.request.max_output_tokens - job.outputs


class PredictingArtifact(Artifact):
    """VTC(predict)."""

    is_average = True
