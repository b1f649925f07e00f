"""An answer that is none, said in one sentence."""

import reprlib


class ProtocolError(ValueError):
    """An answer that is none.

    >>> str(ProtocolError("step", "tokens[3]", 2.0, "must be an integer", "write 2 instead of 2.0"))
    'step: tokens[3] is 2.0, but must be an integer: write 2 instead of 2.0'

    `rule` names the rule that such an answer breaks beside the protocol, if there is one; `told`: what the subject left
    beside it, the lines of a traceback or the end of its stderr.
    """

    told: tuple[str, ...] = ()

    @property
    def is_hang(self) -> bool:
        """There was no answer in time."""
        return NO_ANSWER in str(self)

    def __init__(
        self, method: str, field: str, value: object, problem: str, hint: str = "", rule: str | None = None
    ) -> None:
        super().__init__(method, field, value, problem, hint, rule)
        self.rule = rule
        self.method = method
        self.field = printable(cut(field))
        self.value = value
        self.problem = printable(cut(problem))
        self.hint = printable(cut(hint, 4 * LONGEST_PART))

    def __str__(self) -> str:
        return f"{self.method}: {self.field} is {shown(self.value)}, but {self.problem}" + _tail(self.hint)


class SubjectFault(ProtocolError):
    """No answer at all: the subject raised, hung or died.

    >>> str(SubjectFault("step", "raised ValueError: no such block"))
    'step raised ValueError: no such block'
    """

    def __init__(self, method: str, problem: str, hint: str = "") -> None:
        super().__init__(method, "", None, problem, hint)
        self.args = (method, problem, hint)  # what pickle calls the class with

    def __str__(self) -> str:
        return f"{self.method} {self.problem}" + _tail(self.hint)


NO_ANSWER = "no answer within"
LONGEST_PART = 240


def cut(text: str, most: int = LONGEST_PART) -> str:
    """A subject may raise, or name a field, at any length: of a long text both ends."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 4 :]}"


def printable(text: str) -> str:
    """Names come from anybody: what would move the cursor, or turn a line around, is shown as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _tail(hint: str) -> str:
    return f": {hint}" if hint else ""


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxdict = 6


def shown(value: object) -> str:
    """A value as an error prints it: one line, cut where it is long."""
    return " ".join(_short.repr(value).split())
