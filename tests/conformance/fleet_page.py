"""What a report of a fleet says in words: the page of each broken rule of the fleet, and the failures of its engines.

A `Told` is plain data once it is in `report.json`, so that the pages can be made once more from the folder alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from schedspec.spec.fleets.router_log import RouterLog
from schedspec.spec.fleets.rules import RULES, Broken
from schedspec.spec.registry import Rule

from .files import file_name
from .names import counted, printable, short_name
from .page import WIDTH, Row, fenced, item, paragraph, wrapped
from .shown import Shown, stored_failure

MOST_STORY_LINES = 12
MOST_PARTS = 8
INSTEAD = {
    "FLEET-1.twice": "{request} finishes at one engine: whoever sends it again cancels it at the first",
    "FLEET-1.after": "no engine takes {request} in once it has finished",
    "FLEET-1.told_twice": "whoever asked for {request} is told once how it ended",
    "FLEET-1.unheard": "the router calls {request} finished when an engine has finished it",
    "FLEET-1.lost": "the router sends {request} to another engine, or tells its client how it ended",
    "FLEET-1.nowhere": "the router sends {request} to one of the engines that its log names",
    "FLEET-1.unsent": "{request} is taken in where the router sent it: at {sent_to}",
    "FLEET-1.never": "{request} ends: it finishes, fails, or is cancelled",
    "FLEET-2.second": "the second request with this key gets the answer of the first one",
    "FLEET-3.two": "a second engine takes {request} in only after the first has let go of it",
    "FLEET-4.behind": "{waits} is served before {served}, so that it is never more than {bound} behind",
}
"""What would have been right."""
ROUTER_SAYS = {
    "arrived": "it arrives: {detail}",
    "sent": "sends it to {engine}",
    "back": "has it back from {engine}: {detail}",
    "ended": "tells whoever asked: {detail}",
    "end": "the log ends",
}


@frozen
class Told:
    """A broken rule of the fleet.  `story`: what was recorded of the request, as now_ns, who says it, and what; at most
    MOST_STORY_LINES, and `left_out` more."""

    rule: str
    proof: Sequence[Sequence[str]]
    story: Sequence[Sequence[Any]]
    left_out: int = 0

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def title(self) -> str:
        rule: Rule = RULES[self.rule]
        return f"{rule.id}: {rule.statement} ({rule.level})"

    def lines(self) -> list[str]:
        """Of the story, as a table of text."""
        width = max((len(f"{now_ns:,}") for now_ns, *_ in self.story), default=0)
        who = max((len(name) for _, name, _ in self.story), default=0)
        rows = [f"{now_ns:>{width},}  {name:{who}}  {says}" for now_ns, name, says in self.story]
        head = [f"{'now_ns':>{width}}"] if rows else []
        return head + rows + ([f"… {counted(self.left_out, 'line')} more"] if self.left_out else [])

    def text(self, width: int) -> list[Row]:
        """For a terminal, as pages of failures are."""
        width = min(width, WIDTH)
        head = [Row("title", line) for line in wrapped(self.title, width, "", "  ")]
        above = [Row("text", line) for word, says in self.proof for line in paragraph(word, says, width)]
        story = [Row("text", f"     {line}") for line in self.lines()]
        return [*head, *above, *story, *(Row("text", line) for line in paragraph("Why", self.why, width))]

    def markdown(self) -> list[str]:
        head = [*wrapped(self.title, WIDTH, "", ""), "=" * 3, ""]
        story = ["", *fenced(self.lines())] if self.story else []
        return [*head, *(line for pair in self.proof for line in item(*pair)), *story, "", *item("Why", self.why)]

    @property
    def why(self) -> str:
        why: str = RULES[self.rule].why
        return why


def told_of(one: Broken, engines: Sequence[Mapping[str, Any]], router: RouterLog | None) -> Told:
    story = _story(one.request, engines, router)
    left_out = max(0, len(story) - MOST_STORY_LINES)
    return Told(one.rule, [list(pair) for pair in _proof(one)], story[:MOST_STORY_LINES], left_out)


def first_of_each(broken: Sequence[Broken]) -> dict[str, Broken]:
    first: dict[str, Broken] = {}
    for one in broken:
        first.setdefault(one.rule, one)
    return first


def _proof(one: Broken) -> Iterator[tuple[str, str]]:
    facts = {name: _fact(value) for name, value in one.facts.items()}
    here = ", ".join(f"{name} = {value}" for name, value in facts.items())
    yield "However", f"{one.conjunct} asks that {one.says}; here {here}, at now_ns {one.now_ns:,}"
    yield "Instead", INSTEAD[one.conjunct].format(**facts)


def _fact(value: Any) -> str:
    if isinstance(value, str):
        return short_name(value)
    return f"[{', '.join(map(_fact, value))}]" if isinstance(value, (list, tuple)) else str(value)


def _story(request: str, engines: Sequence[Mapping[str, Any]], router: RouterLog | None) -> list[list[Any]]:
    """What engines and router recorded of it, in order of time; of one time who lets go is first, then the router."""
    told: list[tuple[int, int, list[Any]]] = []
    for result in engines:
        for row in result["stays"]:
            if row[0] == request and request:
                name, begin_ns, end_ns = short_name(result["engine"]), row[3], row[4]
                told.append((begin_ns, 2, [begin_ns, name, "takes it in"]))
                told += [(end_ns, 0 if end_ns > begin_ns else 3, [end_ns, name, row[5]])] if end_ns is not None else []
    for event in router.events if router is not None else ():
        if request and event.request == request:
            says = ROUTER_SAYS[event.kind].format(engine=short_name(event.engine), detail=printable(event.detail))
            told.append((event.now_ns, 1, [event.now_ns, "router", says]))
    return [line for *_, line in sorted(told, key=lambda one: one[:2])]


# --- failures of engines -------------------------------------------------------------------------------------


def engine_folder(engine: str) -> Path:
    """Inside of the report's folder, and no two engines have the same: whatever of a name is no name of a folder, or is
    too long for one, is told by a digest."""
    name = "/".join(file_name(part) or "_" for part in engine.split("/")[:MOST_PARTS])
    digest = "" if name == engine else "-" + sha256(engine.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return Path("engines") / (name + digest)


def engine_failure(folder: Path, engine: Mapping[str, Any], rule: str) -> Shown:
    """What the folder of the report has of a rule that one file of an engine breaks."""
    at = engine["broken"][rule]["first_message"]
    shown = stored_failure(
        folder / engine_folder(engine["engine"]) / "failures" / f"{rule}.jsonl", {"mode": "recorded"}
    )
    found = f"found in message {at:,} of {engine['file']}, then shortened"
    return evolve(shown, case=evolve(shown.case, found=found))


def has_failure(folder: Path, engine: str, rule: str) -> bool:
    """Not where it broke too late in a long run to be shortened."""
    return (folder / engine_folder(engine) / "failures" / f"{rule}.jsonl").exists()
