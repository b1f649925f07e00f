"""What a request is charged: every prompt token and every output once in its life, however often it is preempted."""

from attrs import define

from ...spec.service import Tariff
from ...spec.settings import Settings
from ..job import Job


@define
class Bill:
    """The tariff, and when its prices fall due; how far a request is charged stands in its job."""

    tariff: Tariff
    by_chunk: bool
    predicts: bool

    @classmethod
    def of(cls, settings: Settings) -> "Bill":
        return cls(Tariff.of(settings), settings.charge_prompt == "chunk", settings.charge_prediction)

    def pick(self, job: Job) -> int:
        amount = self._entry(job)
        job.is_charged = True
        if not self.by_chunk:
            amount += self._prompt(job, job.request.prompt_tokens)
        if self.predicts:
            amount += self._outputs(job, job.request.expected_output_tokens)
        return amount

    def chunk(self, job: Job, end: int) -> int:
        """Positions up to `end` are scheduled, or were found in the cache."""
        return self._prompt(job, min(end, job.request.prompt_tokens))

    def token(self, job: Job) -> int:
        """An output was delivered."""
        return self._outputs(job, job.outputs)

    def refund(self, job: Job) -> int:
        """Predicted outputs that were charged and will not come."""
        surplus = self.tariff.outputs(job.request.client, job.request.prompt_tokens, job.outputs, job.charged_outputs)
        job.charged_outputs = job.outputs
        return surplus

    def due(self, job: Job) -> int:
        """What it may still be charged."""
        request = job.request
        prompt = self.tariff.prompt(request.client, request.prompt_tokens - job.charged_prompt)
        outputs = request.prompt_tokens, job.charged_outputs, request.max_output_tokens
        return self._entry(job) + prompt + self.tariff.outputs(request.client, *outputs)

    def _entry(self, job: Job) -> int:
        return 0 if job.is_charged else self.tariff.entry(job.request.client)

    def _prompt(self, job: Job, end: int) -> int:
        first, job.charged_prompt = job.charged_prompt, max(job.charged_prompt, end)
        return self.tariff.prompt(job.request.client, job.charged_prompt - first)

    def _outputs(self, job: Job, last: int) -> int:
        first, job.charged_outputs = job.charged_outputs, max(job.charged_outputs, last)
        return self.tariff.outputs(job.request.client, job.request.prompt_tokens, first, job.charged_outputs)
