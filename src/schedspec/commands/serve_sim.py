"""`schedspec serve-sim`: the reference scheduler drives a real engine; what it records is judged as any trace."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import Factory, define

from ..conformance import terminal
from ..spec.vocabulary import Header, Message, Request, Settings
from .parts import counted, one_sentence, read_settings, report_folder, workload_of
from .recorded import judge_file

if TYPE_CHECKING:
    from ..conformance.recorded import Judged
    from ..optimized.engine.alone import Finding, Witness
    from ..optimized.engine.model import Model
    from ..optimized.engine.sampling import Sampling

RANDOM = "random:"
SMALL: Mapping[str, int] = {"blocks": 256, "block_size": 16, "seats": 16, "token_budget": 128}
TRACE = "run.jsonl"


@click.command("serve-sim")
@click.argument("model")
@click.argument("workload")
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE of the scheduler (repeatable).")
@click.option("--first-s", default="10", help="Seconds of the workload.", show_default=True)
@click.option("--rate", default="1", help="How many times as fast requests come: 2, 0.5, 1/3.", show_default=True)
@click.option("--size", default="1", help="Prompts and outputs times this.", show_default=True)
@click.option("--cv", help="Burstiness of times that are drawn: 0 even, 1 Poisson, more is bursts.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--temperature", type=float, default=0.0, help="0 is greedy; else drawn by seed.", show_default=True)
@click.option("--kernels", type=click.Choice(["plain", "triton"]), help="Default: triton where a CUDA device is.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True)
@click.option("--device", help="Where the model lies: cpu, cuda, cuda:1.  Default: cuda where there is one.")
@click.option("--alone", type=click.IntRange(min=0), default=4, help="Requests run alone as well.", show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Folder.  Default: build/report/serve-sim.")
@click.option("--strict", is_flag=True, help="A broken SHOULD or a rule not exercised: exit status 3.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def serve_sim(ctx: click.Context, /, **options: Any) -> None:
    """Serve a workload with a real model: the reference schedules, the engine computes, the trace is judged.

    MODEL is the folder of a checkpoint (Llama architecture, safetensors), or random:SEED, a small one with random
    weights.  WORKLOAD is as for replay; its lengths are real, its prompts drawn from the model's vocabulary.  Time
    passes by the cost model of replay, so a run repeats.  The first --alone requests are also run alone, and must be
    the same bit for bit.  Exit status as for trace.
    """
    with one_sentence(ctx):
        from ..conformance.recorded import result_json, write_recorded
        from ..optimized.engine import require_torch

        require_torch()
        model = _model(options)
        source = workload_of(options, as_json=options["as_json"])
        if source is None:
            raise click.UsageError("serve-sim needs a workload: write KIND:FILE, fitted:NAME or hostile:KIND")
        settings = _settings(options["settings"], model.config.positions)
        count = counted(source, settings.blocks * settings.block_size)
        folder = report_folder(options["report"] or Path("build") / "report" / "serve-sim")
        with terminal.progress(quiet=options["as_json"]) as progress:
            run = _serve(model, settings, source, options, folder / TRACE, _shown(progress, count))
            judged = judge_file(folder / TRACE, progress, plain=False)
        run.tell(judged)
        write_recorded(folder, judged)
        status = judged.exit_status(strict=options["strict"])
        if options["as_json"]:
            click.echo(json.dumps({"run": run.told(), "trace": result_json(judged, strict=options["strict"])}))
        else:
            terminal.print_trace(judged, folder)
            terminal.print_aside(run.sentence())
            for finding in run.findings[:3]:
                terminal.print_aside(str(finding))
    sys.exit(status)


def _shown(progress: Callable[[str, float, str], None], count: int) -> Callable[[int], None]:
    return lambda done: progress("serving", min(1.0, done / max(1, count)), f"{done:,} of {count:,} requests")


@define
class Run:
    """What the engine did, and what it found that no trace shows: tokens, logits, keys and values of requests that
    were also run alone."""

    steps: int = 0
    tokens: int = 0
    outputs: int = 0
    preempted: int = 0
    seconds: float = 0.0
    compared_tokens: int = 0
    compared_positions: int = 0
    compared_tables: int = 0
    findings: list["Finding"] = Factory(list)

    def tell(self, judged: "Judged") -> None:
        """The verdicts of rules about what was computed, which no trace shows."""
        from ..conformance.check import Failure
        from ..conformance.script import Script

        found = judged.findings
        counts = {"OUT-1": self.compared_tokens, "OUT-2": self.compared_tokens, "KV-17": self.compared_tables}
        for rule, count in counts.items():
            found.missing.pop(rule, None)
            found.bound[rule], found.exercised[rule] = 1, count
        script = Script(judged.header.settings, judged.header.seed, ())
        for finding in reversed(self.findings):  # the first one stays
            found.examples_of[finding.rule] = Failure(
                rule=finding.rule, conjunct=f"{finding.rule}.engine", stage="serving", script=script, also=[],
                messages=finding.step,
            )  # fmt: skip

    def sentence(self) -> str:
        same = "differ" if self.findings else "are the same, bit for bit"
        return (
            f"{self.steps:,} steps of {self.tokens:,} tokens, {self.outputs:,} of them sampled, {self.preempted:,}"
            f" preemptions, {self.seconds:.1f} s; of requests that were also run alone {self.compared_tokens:,} tokens"
            f" and their logits, and keys and values that were read at {self.compared_positions:,} positions, {same}"
        )

    def told(self) -> dict[str, Any]:
        findings = [str(finding) for finding in self.findings]
        alone = {"tokens": self.compared_tokens, "positions": self.compared_positions, "findings": findings}
        counted = {name: getattr(self, name) for name in ("steps", "tokens", "outputs", "preempted", "seconds")}
        return counted | {"alone": alone}


def _settings(texts: Iterable[str], positions: int) -> Settings:
    """The door lets nobody in whom the model has no positions for."""
    asked = {**SMALL, "max_model_tokens": positions, **read_settings(texts)}
    settings = Settings(**asked)
    if settings.max_model_tokens > positions:
        raise ValueError(f"max_model_tokens is {settings.max_model_tokens}, but the model has {positions} positions")
    if settings.pools.are_two:
        raise ValueError("serve-sim plays no link between two pools: leave the setting pools out")
    return settings


def _model(options: Mapping[str, Any]) -> "Model":
    import torch

    from ..optimized.engine import ModelConfig, operations
    from ..optimized.engine.model import Model
    from ..optimized.engine.weights import random_tensors

    device = options["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
    kernels = options["kernels"] or ("triton" if device.startswith("cuda") else "plain")
    if kernels == "plain" and device != "cpu":
        raise ValueError(f"the plain twins run on a CPU, not on {device}: leave --kernels or --device out")
    _require_device(device, kernels)
    if kernels == "plain":
        torch.set_num_threads(1)  # tensors are small: threads would wait for each other
    run = operations.plain() if kernels == "plain" else operations.triton()
    place = {"dtype": getattr(torch, options["dtype"]), "device": device}
    name = options["model"]
    if not name.startswith(RANDOM):
        return Model.load(Path(name), run, **place)
    seed = name.removeprefix(RANDOM)
    if not seed.isdecimal():
        raise ValueError(f"{name} is no model: write {RANDOM}0, or another seed, or the folder of a checkpoint")
    config = ModelConfig(vocabulary=256, hidden=32, layers=2, heads=4, kv_heads=2, mlp=64, positions=4_096)
    return Model.of(config, random_tensors(config, int(seed)), run, **place)


def _require_device(device: str, kernels: str) -> None:
    import torch

    is_cpu, is_cuda = device == "cpu", device.partition(":")[0] == "cuda"
    if not (is_cpu or is_cuda):
        raise ValueError(f"device is {device}, but must be cpu, cuda, or one of several as cuda:1")
    if is_cpu and kernels == "triton" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            "Triton's kernels need a CUDA device: leave --kernels out, or set TRITON_INTERPRET=1 to interpret"
        )
    number, count = device.partition(":")[2] or "0", torch.cuda.device_count()
    if is_cuda and not (number.isdecimal() and int(number) < count):
        raise ValueError(f"there is no {device} here, torch sees {count} CUDA devices: leave --device out")


def _serve(
    model: "Model",
    settings: Settings,
    source: Any,
    options: Mapping[str, Any],
    file: Path,
    progress: Callable[[int], None],
) -> Run:
    from ..optimized.engine.alone import Finding, Witness
    from ..optimized.engine.engine import Engine
    from ..optimized.engine.errors import TablesDiffer
    from ..optimized.engine.served import Served
    from ..reference import make
    from ..reference.simulation import DEFAULT, PROFILES, Simulation
    from ..spec.trace import TraceWriter
    from ..spec.workloads import to_requests

    run, witness = Run(), Witness(model)
    engine = Engine(model, settings.blocks, settings.block_size, settings.host_blocks)
    subject = make(settings, options["seed"])
    header = Header(settings=settings, capabilities=subject.capabilities(), seed=options["seed"], subject="reference")

    def executed(plan: Any, sampled: Any) -> None:
        run.steps += 1
        run.tokens += sum(plan.tokens)
        run.outputs += len(sampled.token)
        run.findings += witness.judge(engine, plan, sampled)

    begun = time.monotonic()
    with file.open("w", encoding="utf-8") as lines:
        heard = _heard(TraceWriter(lines, header), run, witness, options)
        served = Served(subject, engine, heard, executed, lambda request: _sampling(request, options))
        depth = settings.overlap_depth if "overlap" in header.capabilities.claims else 1
        simulation = Simulation(served, PROFILES[DEFAULT].cost, depth=depth, fast_forward=False)
        arrivals = to_requests(source.arrivals(), options["seed"], vocabulary_tokens=model.config.vocabulary)
        try:
            simulation.run(arrivals, progress=progress)
            heard(Message("end", simulation.log.now_ns))
        except TablesDiffer as error:
            run.findings.append(Finding("KV-17", run.steps + 1, "", str(error)))
    run.compared_tables = served.compared_tables
    run.seconds = time.monotonic() - begun
    run.compared_tokens, run.compared_positions = witness.compared_tokens, witness.compared_positions
    return run


def _heard(writer: Any, run: Run, witness: "Witness", options: Mapping[str, Any]) -> Callable[[Message], None]:
    left = [options["alone"]]

    def heard(message: Message) -> None:
        writer.write(message)
        if message.kind == "submit" and message.answer.verdict == "accepted" and left[0]:
            left[0] -= 1
            witness.submitted(message.given, _sampling(message.given, options))
        deltas = getattr(message.answer, "deltas", message.answer) or ()
        if message.kind != "observe":
            for name, *fields in deltas:
                run.preempted += name == "preempted"
                if name in ("finished", "cancelled", "failed", "expired"):
                    witness.forget(fields[0])

    return heard


def _sampling(request: Request, options: Mapping[str, Any]) -> "Sampling":
    from ..optimized.engine.sampling import Sampling

    return Sampling(temperature=options["temperature"], seed=options["seed"])
