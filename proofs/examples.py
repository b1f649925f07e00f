"""A model of the solver as a step that can be read: the event with its fields, the variables that matter."""

from typing import Any

import z3

from schedspec.spec.printed import printed
from schedspec.spec.registry import Conjunct
from schedspec.spec.terms import Sort

from .obligations import Step, variables
from .smt import Expr, Finite


def shown(step: Step, model: Any, goal: Conjunct, dropped: Conjunct) -> str:
    """The step that breaks the goal, before → after where something changed."""
    assert isinstance(step.reading, Finite)
    registry = step.theory.registry
    value = _Values(step.reading, model)
    fields = registry.events[step.event].sorts
    given = ", ".join(f"{name}={value.text(step.names['field', name], sort)}" for name, sort in fields.items())
    lines = [
        f"without {dropped.name}: {printed(dropped.term, registry.names, registry.state.sorts)}",
        f"  {step.event}({given})",
    ]
    for name in sorted(variables(goal.term) | variables(dropped.term)):
        sort = registry.state.sorts[name]
        before, after = (value.text(step.names[when, name], sort) for when in ("state", "after"))
        lines.append(f"    {name:<12} {before}" + (f"  →  {after}" if after != before else ""))
    return "\n".join([*lines, f"  breaks {goal.name}: {printed(goal.term, registry.names, registry.state.sorts)}"])


class _Values:
    def __init__(self, reading: Finite, model: Any) -> None:
        self.reading, self.model = reading, model

    def text(self, expr: Expr, sort: Sort) -> str:
        if sort.name == "Set":
            held = [str(key) for key in self.reading.keys(sort.args[0]) if self._is_true(z3.Select(expr, key))]
            return f"{{{', '.join(held)}}}"
        if sort.name == "Map" and sort.args[0].name != "Int":
            cells = ((key, self.text(z3.Select(expr, key), sort.args[1])) for key in self.reading.keys(sort.args[0]))
            return ", ".join(f"{key}: {cell}" for key, cell in cells)
        value = self.model.eval(expr, model_completion=True)
        return _function(value) if sort.name == "Map" else str(value)

    def _is_true(self, expr: Expr) -> bool:
        return bool(z3.is_true(self.model.eval(expr, model_completion=True)))


def _function(value: Expr) -> str:
    """A map from integers: what it is at the places that matter, and elsewhere."""
    places: dict[str, str] = {}
    while z3.is_store(value):
        value, place, cell = value.children()
        places.setdefault(str(place), str(cell))
    rest = str(value.children()[0]) if z3.is_K(value) else str(value)
    return f"[{', '.join(f'{place}: {cell}' for place, cell in places.items())}{', ' * bool(places)}else {rest}]"
