"""Which decisions are legal: each is told to a monitor of its own, and those are kept that break no MUST.

What follows each is looked at in the same way, so a scenario is a tree; equal parts of it are kept once.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from attrs import Factory, define, evolve, frozen

from schedspec.spec.catalogue import registry
from schedspec.spec.errors import ProtocolError
from schedspec.spec.monitor import Monitor
from schedspec.spec.vocabulary import Capabilities, Header, Message

from .choices import Decision, State, decisions
from .worlds import World


@frozen
class Row:
    """Somebody who runs: from which position, how many tokens, whether a token is sampled, and how many blocks it holds
    then."""

    id: str
    start: int
    tokens: int
    samples: int
    held: int


@frozen
class Choice:
    """A legal decision; `ends`: who has ended when its result is there; `against`: the SHOULDs that it breaks; `then`:
    the node that it leads to, None at the end of what is listed."""

    preempted: tuple[str, ...]
    admitted: tuple[str, ...]
    runs: tuple[Row, ...]
    ends: tuple[str, ...]
    against: tuple[str, ...]
    then: int | None


@frozen
class Node:
    """What happens, and what may then be decided.  `tried`: of so many decisions."""

    comes: tuple[tuple[str, Any], ...]
    legal: tuple[Choice, ...]
    tried: int


@define
class Tree:
    """Nodes by number; number 0 is made last and moved to the front when the tree is whole."""

    world: World
    nodes: list[Node] = Factory(list)
    known: dict[Node, int] = Factory(dict)

    def grown(self) -> list[Node]:
        header = Header(
            settings=self.world.settings,
            capabilities=Capabilities(name="any", observes="tables", ordered=True, claims=frozenset(self.world.claims)),
        )
        self._node(State(self.world.settings), header, (), 0)
        return _from_the_root(self.nodes)

    def _node(self, state: State, header: Header, heard: tuple[Message, ...], step: int) -> int | None:
        comes = self.world.comes[step] if step < len(self.world.comes) else ()
        told: list[Message] = []
        news: list[tuple[str, Any]] = []
        for op in comes:
            if op.request is not None:
                told.append(state.submit(op.request, op.stop_after))
                news.append(("submit", op.request))
            else:
                told.append(state.cancel(op.id))
                news.append(("cancel", op.id))
        if step == self.world.steps or not (state.running or state.waiting or step < len(self.world.comes)):
            return None
        heard = (*heard, *told)
        legal, tried = [], 0
        for decision in decisions(state):
            tried += 1
            after = deepcopy(state)
            messages = [message for message in after.do(decision) if message is not None]
            against = broken(header, (*heard, *messages), len(heard))
            if all(registry.rules[rule].level == "SHOULD" for rule in against):
                then = self._node(after, header, (*heard, *messages), step + 1)
                legal.append(_choice(decision, state, messages, against, then))
        return self._numbered(Node(tuple(news), tuple(legal), tried))

    def _numbered(self, node: Node) -> int:
        if node not in self.known:
            self.known[node] = len(self.nodes)
            self.nodes.append(node)
        return self.known[node]


def broken(header: Header, messages: Sequence[Message], since: int) -> tuple[str, ...]:
    """The rules that are broken by the messages from there on."""
    monitor = Monitor(header)
    rules: set[str] = set()
    for place, message in enumerate(messages):
        try:
            found = monitor.feed(message)
        except ProtocolError as fault:
            raise AssertionError(f"the state made a message that is none: {fault}") from fault
        if place >= since:
            rules |= {violation.rule for violation in found}
    return tuple(sorted(rules))


def _choice(
    decision: Decision,
    before: State,
    messages: Sequence[Message],
    against: tuple[str, ...],
    then: int | None,
) -> Choice:
    plan = messages[0].answer
    held = {job.id: len(job.table) for job in before.running.values()}
    rows = []
    for id, start, tokens, samples in zip(plan.request, plan.start, plan.tokens, plan.samples, strict=True):
        own = 0 if id in decision.admitted else held[id]
        took = sum(len(delta[2]) for delta in plan.deltas if delta[0] == "took" and delta[1] == id)
        rows.append(Row(id, start, tokens, samples, own + took))
    ends = sorted(delta[1] for message in messages[1:] for delta in message.answer if delta[0] == "finished")
    rows.sort(key=lambda row: row.id)
    return Choice(decision.preempted, decision.admitted, tuple(rows), tuple(ends), against, then)


def _from_the_root(nodes: Sequence[Node]) -> list[Node]:
    """Numbered from the root on, in the order in which they are reached."""
    order: dict[int, int] = {}
    todo = [len(nodes) - 1]
    while todo:
        place = todo.pop(0)
        if place not in order:
            order[place] = len(order)
            todo += [choice.then for choice in nodes[place].legal if choice.then is not None]
    return [_renumbered(nodes[place], order) for place in order]


def _renumbered(node: Node, order: Mapping[int, int]) -> Node:
    legal = [evolve(c, then=None if c.then is None else order[c.then]) for c in node.legal]
    return evolve(node, legal=tuple(legal))
