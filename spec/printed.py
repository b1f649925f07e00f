"""The printed reading: a term as the formula that stands on the rule's card."""

from .terms import Term

_INFIX = {
    "add": (" + ", 6),
    "sub": (" - ", 6),
    "mul": (" · ", 7),
    "eq": (" = ", 4),
    "le": (" ≤ ", 4),
    "lt": (" < ", 4),
    "and": (" ∧ ", 3),
    "or": (" ∨ ", 2),
    "implies": (" ⇒ ", 1),
}


def printed(term: Term, names: dict[int, str] | None = None) -> str:
    """The formula.  `names` turns literals that stand for something (a phase, say) into words."""
    return _print(term, 0, names or {})


def _print(term: Term, outer: int, names: dict[int, str]) -> str:
    def inner(part: Term, level: int = 0) -> str:
        return _print(part, level, names)

    op, args = term.op, term.args
    if op == "const":
        return str(args[0]) if isinstance(args[0], bool) else str(args[0])
    if op in ("state", "field", "bound"):
        return str(args[0])
    if op == "after":
        return f"{args[0]}′"
    if op == "eq" and args[1].op == "empty":
        return f"{inner(args[0], 5)} = ∅"
    if op == "eq" and args[1].op == "const" and args[1].args[0] in names and _is_named(args[0]):
        return f"{inner(args[0], 5)} = {names[args[1].args[0]]}"
    if op in _INFIX:
        sign, level = _INFIX[op]
        left = inner(args[0], level + 1 if op in ("sub", "implies", "eq", "le", "lt") and op != "sub" else level)
        text = left + sign + inner(args[1], level if op in ("add", "and", "or", "mul", "implies") else level + 1)
        return f"({text})" if level < outer else text
    if op == "not":
        return _print_not(args[0], outer, names)
    if op == "ite":
        text = f"if {inner(args[0])} then {inner(args[1], 1)} else {inner(args[2], 1)}"
        return f"({text})" if outer > 0 else text
    if op == "select":
        return f"{inner(args[0], 9)}[{inner(args[1])}]"
    if op == "store":
        value = _named(args[2], term, names) or inner(args[2])
        return f"{inner(args[0], 9)}[{inner(args[1])} ↦ {value}]"
    if op == "has":
        text = f"{inner(args[1], 5)} ∈ {inner(args[0], 5)}"
        return f"({text})" if outer > 4 else text
    if op in ("with", "without"):
        text = f"{inner(args[0], 5)} {'∪' if op == 'with' else '∖'} {{{inner(args[1])}}}"
        return f"({text})" if outer > 4 else text
    if op == "empty":
        return "∅"
    if op == "card":
        return f"|{inner(args[0])}|"
    if op in ("least", "most"):
        sign = "min" if op == "least" else "max"
        return f"{sign}({inner(args[0], 9)} over {inner(args[1], 9)}, else {inner(args[2])})"
    if op == "forall":
        text = f"∀ {args[0].args[0]}: {inner(args[1])}"
        return f"({text})" if outer > 0 else text
    raise AssertionError(f"no printed form for {op}")


def _print_not(term: Term, outer: int, names: dict[int, str]) -> str:
    sign = {"eq": " ≠ ", "has": " ∉ "}.get(term.op)
    if sign is None:
        return "¬" + _print(term, 9, names)
    left, right = term.args if term.op == "eq" else reversed(term.args)
    shown = _named(right, left, names) or _print(right, 5, names)
    text = f"{_print(left, 5, names)}{sign}{shown}"
    return f"({text})" if outer > 4 else text


def _is_named(term: Term) -> bool:
    """Literals are words only beside the variable that they are states of."""
    while term.op in ("select", "store"):
        term = term.args[0]
    return term.op in ("state", "after") and term.args[0] == "phase"


def _named(value: Term, beside: Term, names: dict[int, str]) -> str | None:
    if value.op == "const" and _is_named(beside):
        return names.get(value.args[0])
    return None
