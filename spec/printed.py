"""The printed reading: a term as the formula that stands on the rule's card."""

from collections.abc import Container, Mapping

from .terms import BOOL, Term

_INFIX = {  # the sign, and how tightly it binds
    "mul": ("·", 8),
    "add": ("+", 7),
    "sub": ("-", 7),
    "with": ("∪", 6),
    "without": ("∖", 6),
    "eq": ("=", 5),
    "le": ("≤", 5),
    "lt": ("<", 5),
    "has": ("∈", 5),
    "and": ("∧", 4),
    "or": ("∨", 3),
    "implies": ("⇒", 2),
    "iff": ("⇔", 1),
}
_NEGATED = {"=": "≠", "∈": "∉"}
_TURNED = {"le": "≥", "lt": ">"}  # a literal stands on the right
_TIGHT = 9
# On these sides an operand of the same level needs no parentheses.
_LEFT_OPEN = {"mul", "add", "sub", "and", "or"}
_RIGHT_OPEN = {"mul", "and", "or", "implies"}


def printed(term: Term, names: Mapping[int, str] | None = None, variables: Container[str] = ()) -> str:
    """The formula.  `names` turns literals that stand for something (a phase, say) into words; a field that is
    called like one of the `variables` of the state is printed as `e.step`."""
    return _Printer(names or {}, variables).text(term, 0)


class _Printer:
    """`outer` is how tightly the operator around a term binds: what binds less gets parentheses."""

    def __init__(self, names: Mapping[int, str], variables: Container[str]) -> None:
        self.names = names
        self.variables = variables

    def text(self, term: Term, outer: int) -> str:
        op, args = term.op, term.args
        if op in ("state", "bound", "const"):
            return str(args[0])
        if op == "after":
            return f"{args[0]}′"
        if op == "field":
            return f"e.{args[0]}" if args[0] in self.variables else str(args[0])
        if op == "empty":
            return "∅"
        if op == "select":
            return f"{self.text(args[0], _TIGHT)}[{self.text(args[1], 0)}]"
        if op == "store":
            table, key, value = args
            return f"{self.text(table, _TIGHT)}[{self.text(key, 0)} ↦ {self._beside(table, value, 0)}]"
        if op == "card":
            return f"|{self.text(args[0], 0)}|"
        if op in ("least", "most"):
            values, among, otherwise = (self.text(part, 0) for part in args)
            return f"{'min' if op == 'least' else 'max'}({values} over {among}, else {otherwise})"
        text, level = self._open(term, outer)
        return f"({text})" if level < outer else text

    def _open(self, term: Term, outer: int) -> tuple[str, int]:
        """The text, and how tightly it binds."""
        op, args = term.op, term.args
        if op == "forall":
            return self._forall(term), 0
        if op == "ite":
            condition, then, otherwise = args
            return f"if {self.text(condition, 0)} then {self.text(then, 1)} else {self.text(otherwise, 0)}", 0
        if op != "not":
            return self._infix(term, outer, negated=False)
        if args[0].op == "has" or (args[0].op == "eq" and args[0].args[0].sort != BOOL):
            return self._infix(args[0], outer, negated=True)
        return "¬" + self.text(args[0], _TIGHT), _TIGHT

    def _forall(self, term: Term) -> str:
        bound = []
        while term.op == "forall":
            bound.append(term.args[0].args[0])
            term = term.args[1]
        return f"∀ {', '.join(bound)}: {self.text(term, 0)}"

    def _infix(self, term: Term, outer: int, negated: bool) -> tuple[str, int]:
        op, (left, right) = term.op, term.args
        if op == "has":
            left, right = right, left
        elif op == "eq" and left.sort == BOOL:
            op = "iff"
        sign, level = _INFIX[op]
        if op in _TURNED and left.op == "const":
            sign, left, right = _TURNED[op], right, left
        first = self._beside(right, left, level + (op not in _LEFT_OPEN))
        if op in ("with", "without"):
            return f"{first} {sign} {{{self.text(right, 0)}}}", level
        is_choice = left.op == "after" and right.op == "ite" and outer == 0
        second = self._beside(left, right, 0 if is_choice else level + (op not in _RIGHT_OPEN))
        return f"{first} {_NEGATED[sign] if negated else sign} {second}", level

    def _beside(self, other: Term, term: Term, outer: int) -> str:
        """A literal is a word beside the variable or field that it is a value of."""
        if term.op == "const" and not isinstance(term.args[0], bool) and _is_named(other):
            return self.names.get(term.args[0], str(term.args[0]))
        return self.text(term, outer)


def _is_named(term: Term) -> bool:
    while term.op in ("select", "store"):
        term = term.args[0]
    return term.op in ("state", "after", "field") and term.args[0] in ("phase", "stage")
