"""The second opinion: cvc5 reads what z3 was asked, as SMT-LIB."""

import time

import cvc5

from .obligations import LIMIT, Obligation, Outcome, Verdict, query
from .theory import Theory


def confirm(theory: Theory, obligation: Obligation, limit: int = LIMIT) -> Outcome:
    start = time.perf_counter()
    # The text is taken before z3 solves: afterwards it would be z3's simplified form.
    verdict = decide(query(theory, obligation).to_smt2(), limit)
    return Outcome(obligation, verdict, time.perf_counter() - start)


def decide(text: str, limit: int = LIMIT) -> Verdict:
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("rlimit-per", str(limit))
    solver.setOption("arrays-exp", "true")  # for constant arrays
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, "(set-logic ALL)" + text, "query")
    answers = []
    while not (command := parser.nextCommand()).isNull():
        answers.append(command.invoke(solver, parser.getSymbolManager()).strip())
    answer = answers[-1]
    if answer == "unsat":
        return "proved"
    return "refuted" if answer == "sat" else "unknown"
