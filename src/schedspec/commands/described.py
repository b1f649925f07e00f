"""`schedspec subjects`: schedulers that are there by name."""

import json
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING

import click
from attrs import asdict, field, frozen

from ..conformance import terminal
from .subjects import builtin_subjects

if TYPE_CHECKING:
    from ..reference.systems import System


@frozen
class Described:
    """A subject, or a family of them that stands behind `name:`.  `settings`: what it fixes; `claims`: promises of its
    paper."""

    name: str
    what: str
    source: str
    settings: Mapping[str, object] = field(factory=dict)
    claims: tuple[str, ...] = ()


OURS = "this project"
DESCRIBED = (
    Described("reference", "one legal scheduler, pure Python: all settings", OURS),
    Described("optimized", "the reference's decisions from arrays (extra `optimized`)", OURS),
    Described("kernels", "the reference's decisions on a device, by Triton (extra `kernels`)", OURS),
    Described("vllm", "the release's own scheduler behind its front end's checks (`make vllm`)", "vLLM 0.33.0"),
    Described("vllm-raw", "the release's scheduler class alone (`make vllm`)", "vLLM 0.33.0"),
    Described("vllm-v1", "our model of the release's scheduler", "vLLM 0.33.0"),
    Described("vllm-v1-raw", "the same without the front end's checks", "vLLM 0.33.0"),
    Described("vllm-v1-wrong", "the model with one change: the comparison has to see each", OURS),
    Described("distserve", "prefill and decode in two pools, KV pulled over a link", "DistServe, OSDI 2024, section 4"),
    Described("vtc-artifact", "the program that VTC's paper measured, with its deviations", "Ying1123/VTC-artifact"),
    Described("sketch", "the loop as people draw it on a board: with eight faults, one of them, or none", OURS),
    Described("fault", "the reference with one small change: breaks the rule of that name", OURS),
)


def describe() -> list[Described]:
    """All built-in subjects, families once, systems of the literature with their papers."""
    from ..reference.systems import COMPARED, SYSTEMS

    pairs = [
        Described(f"{own.name}:{other.name}", f"{own.name}, held to the promises of {other.name}", other.source)
        for own, other in COMPARED
    ]
    return [*DESCRIBED, *map(_of_system, SYSTEMS.values()), *pairs]


def _of_system(system: "System") -> Described:
    fixed = ", ".join(f"{name}={value}" for name, value in system.fixed.items())
    claims = tuple(sorted(system.promises))
    return Described(system.name, f"the reference with {fixed}", system.source, dict(system.fixed), claims)


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def subjects(name: str | None, as_json: bool) -> None:
    """Schedulers that are there by name, for check, replay and the like: what each is, and its paper.

    With a NAME: the settings that it fixes, and what its paper promises.
    """
    from ..spec.hints import did_you_mean

    found = {one.name: one for one in describe()}
    if name is not None and name not in found:
        raise click.UsageError(
            f"there is no built-in subject {name!r}: {did_you_mean(name, found, '`schedspec subjects`')}"
        )
    chosen = [found[name]] if name is not None else list(found.values())
    if as_json:
        click.echo(json.dumps({"schema": "schedspec-subjects/1", "subjects": [asdict(one) for one in chosen]}))
        return
    for line in _lines(found) if name is None else _card(found[name]):
        terminal.out.print(line, markup=False, highlight=False, soft_wrap=True)


def members(family: str, described: Container[str]) -> list[str]:
    """Names behind `family:` that are described by it alone."""
    return [name for name in builtin_subjects() if name.startswith(f"{family}:") and name not in described]


def _lines(described: Mapping[str, Described]) -> Iterator[str]:
    for one in described.values():
        family = members(one.name, described)
        count = f"; {len(family)} behind {one.name}:, such as {family[0]}" if family else ""
        yield f"{one.name:22} {one.what}{count}  [{one.source}]"


def _card(one: Described) -> Iterator[str]:
    yield f"{one.name}: {one.what}"
    yield f"  source    {one.source}"
    if one.settings:
        yield "  settings  " + ", ".join(f"{name}={value}" for name, value in one.settings.items())
    if one.claims:
        yield "  promises  " + ", ".join(one.claims)
    yield f"  check it  schedspec check {one.name}"
