"""The page of a failure: on one screen, in words that a stranger can follow, whatever was found."""

import ast
import json
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve

from schedspec.conformance import narrate, report, testing
from schedspec.conformance.check import Check, Depth, Failure
from schedspec.conformance.determinism import Difference
from schedspec.conformance.driver import Driver, replay
from schedspec.conformance.instead import GLOSSARY, INSTEAD, OF_TRANSFERS
from schedspec.conformance.names import short_name
from schedspec.conformance.narrate import MOST_IN_A_ROW, ranges
from schedspec.conformance.page import MOST_LINES, WIDTH, Case, Page
from schedspec.conformance.pasted import as_test
from schedspec.conformance.recorded import case_of, judge, write_recorded
from schedspec.conformance.script import COMPLETE, STEP, Op, Script, cancel, from_json, rounds, submit, to_json
from schedspec.reference import Scheduler, make
from schedspec.reference.faults import factory
from schedspec.spec.catalogue import registry
from schedspec.spec.monitor import Monitor
from schedspec.spec.printed import printed
from schedspec.spec.trace import TraceWriter
from schedspec.spec.transfers import registry as transfers
from schedspec.spec.vocabulary import Capabilities, Header, Lane, Message, Outcome, Plan, Receipt, Request, Settings

FAIR = Settings(
    blocks=6,
    max_output_tokens=2,
    block_size=1,
    policy="lanes",
    prices={"a": 2},
    aging_picks=2,
    aging_credit=5,
    lanes=[
        Lane(name="chat", share_percent=70, order="vtc", max_prompt_tokens=4, burst=8),
        Lane(name="rest", share_percent=30, maximum_percent=50),
    ],
)
ROOT = Path(__file__).parents[2]
NOTHING = Depth(name="none", search_s=0.0, workload_s=None, shrink_s=0.3, examples=0, reruns=False)
HAS_A_SCENARIO = ["KV-7", "KV-11", "KV-12", "KV-13", "STEP-3", "STEP-11", "LIFE-4", "PRE-5", "PRE-7", "ADMIT-1"]


def found(rule: str) -> tuple[Check, Failure]:
    check = Check(name=f"fault:{rule}", factory=factory(rule), seed=0, depth=NOTHING, stop_at=rule)
    check.run()
    return check, check.findings.failures[rule]


def both(case: Case) -> tuple[list[str], list[str]]:
    """Markdown and text, of which neither may be larger than a screen."""
    page = Page(case)
    markdown, text = page.markdown(), [row.text for row in page.text()]
    for lines in (markdown, text):
        assert len(lines) <= MOST_LINES, "\n".join(lines)
        own = [line for line in lines if "/failures/" not in line]  # those are as long as the folder is deep
        assert max(map(len, own)) <= WIDTH, "\n".join(lines)
        assert all(line.isprintable() for line in lines)
    return markdown, text


@pytest.mark.parametrize("rule", HAS_A_SCENARIO)
def test_a_page_says_everything_on_one_screen(rule: str) -> None:
    check, failure = found(rule)
    for lines in both(report.case_of(check, failure, Path("build/report/x"))):
        text = "\n".join(lines)
        assert lines[0].startswith(f"{rule}: ")
        words = ("Subject", "Let", "Then", "However", "Instead", "Why", "Again", "Files", "✗", "mode shipped")
        assert [word for word in words if word not in text] == []
        assert f"schedspec replay-failure build/report/x/failures/{rule}.json" in text


def test_the_test_to_paste_is_the_script_and_imports_what_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [submit("a", 12, 2), submit("b", [5, 5], 1, client="c", priority=2), STEP, COMPLETE, cancel("a")]
    ops += [Op("repeat", back=2), Op("tick", ns=7), submit("a 'quoted' \"id\"", 9, 1, stop_after=1)]
    for some in (ops, ops[:1], ops[2:4], ops[4:6]):
        script = Script(Settings(blocks=7, policy="priority"), 3, some)
        text = "\n".join(as_test("mine:S", "KV-7", script))
        tree = ast.parse(text)
        imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert imported == {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {
            "settings",
            "ops",
            "range",
        }
        assert max(map(len, text.splitlines())) <= WIDTH
        asked: list[Any] = []
        monkeypatch.setattr(testing, "assert_keeps", lambda *arguments, asked=asked: asked.append(arguments))
        names: dict[str, Any] = {}
        exec(compile(text, "test_pasted.py", "exec"), names)
        names["test_kv_7"]()
        assert asked == [("KV-7", "mine:S", script)]


def test_no_test_is_written_that_would_pass(tmp_path: Path) -> None:
    """One run shows no difference between two."""
    check = Check(name="fault:DET-1", factory=make, seed=0, depth=NOTHING)
    run = replay(make, Script(Settings(), 0, [submit("a", 3, 1), STEP]))
    failure = Failure(rule="DET-1", conjunct="DET-1.run", stage="determinism", script=run.script, also=[], run=run)
    failure.difference = Difference(run.script, 2)
    check.findings.failures["DET-1"] = failure
    report.write_report(tmp_path, check)
    assert sorted(path.name for path in (tmp_path / "failures").iterdir()) == [
        "DET-1.json",
        "DET-1.jsonl",
        "DET-1.md",
        "DET-1.perfetto.json",
    ]
    markdown, _ = both(report.case_of(check, failure, tmp_path))
    text = " ".join(markdown)
    assert "in another process, under another hash seed get another answer to message 2" in text
    assert "✗    2  step 1" in text


def test_a_recorded_failure_has_the_same_page(tmp_path: Path) -> None:
    run = replay(factory("KV-7"), Script(Settings(blocks=4, block_size=2), 0, [submit("a", 3, 2), STEP, cancel("a")]))
    file = tmp_path / "run.jsonl"
    with file.open("w") as stream:
        writer = TraceWriter(stream, run.header)
        for message in run.messages:
            writer.write(message)
    judged = judge(file)
    write_recorded(tmp_path, judged)
    ((violation, messages),) = judged.shortened
    markdown, _ = both(case_of(judged, violation, messages, tmp_path))
    assert (tmp_path / "failures/KV-7.md").read_text().splitlines() == markdown
    assert any("schedspec trace" in line and "KV-7.jsonl" in line for line in markdown)


# --- long runs and odd names -------------------------------------------------------------------------------


def long_run() -> Driver:
    """Forty requests, hundreds of messages; the last of them leaks."""
    settings = Settings(blocks=400, block_size=2, seats=64, token_budget=256)
    ops = [submit(f"request-{n:02}", 4, 9) for n in range(40)]
    driver = Driver.start(factory("KV-7"), settings, 0, explain=True)
    driver.run([*ops, *rounds(6), cancel("request-07")])
    assert [v.rule for v in driver.broken][:1] == ["KV-7"]
    return driver


def case(driver: Driver, rule: str) -> Case:
    (violation, *_) = driver.breaks_of(rule)
    return Case(rule=rule, header=driver.header, messages=driver.messages, violation=violation)


def test_a_long_run_is_folded_in_the_middle() -> None:
    _, text = both(case(long_run(), "KV-7"))
    table = "\n".join(text)
    assert "submit request-07 " in table
    assert "✗   53  cancel request-07" in table
    assert re.search(r"…  \d+ messages? left out here", table)
    assert "submit request-39 " not in table


def test_a_long_fact_is_shortened() -> None:
    driver = long_run()
    (violation, *_) = driver.breaks_of("KV-7")
    crowd = [f"request-{n:02}" for n in range(40)]
    crowded = evolve(violation, facts={"request": "request-07", "running": crowd, "free": list(range(400))})
    _, text = both(evolve(case(driver, "KV-7"), violation=crowded))
    told = " ".join(" ".join(text).split())
    assert "request-07, … 32 more]" in told
    assert "free = [0-399]" in told


def test_a_long_answer_keeps_who_matters() -> None:
    driver = long_run()
    lines = narrate.step_table(driver.messages, None, frozenset({"request-07", "request-31"}))
    steps = [line.answer for line in lines if line.call == "step 3"]
    assert all("request-31[" in answer and "others" in answer for answer in steps)
    assert all(len(answer) < 600 for answer in steps)


@pytest.mark.parametrize("id", ["\x1b[31m", "a\nb", "x" * 500, "a | b ` c", "[bold]", ""])
def test_names_from_anybody_do_not_break_the_page(id: str) -> None:
    ops = [submit("b", 3, 2), STEP, submit(id, 3, 2), COMPLETE, STEP, cancel(id)]
    driver = Driver.start(factory("KV-7"), Settings(blocks=8, block_size=2), 0, explain=True)
    driver.run(ops)
    both(case(driver, "KV-7"))


def test_numbers_are_told_as_ranges() -> None:
    assert ranges([1, 2, 3, 4, 9, 7, 8]) == "1-4, 9, 7, 8"
    assert ranges([7, 6, 5]) == "7, 6, 5"
    assert ranges([]) == ""
    assert len(ranges(range(0, 4000, 2))) < 100


def test_prompts_say_what_they_share() -> None:
    ops = [submit("a", range(9), 1), submit("b", [*range(6), 77], 1), submit("c", range(9), 1), submit("d", [5], 1)]
    driver = replay(make, Script(Settings(prefix_caching=True), 0, ops))
    calls = [line.call for line in narrate.step_table(driver.messages, None, caching=True)]
    assert calls == [
        "submit a (9 prompt tokens, up to 1 out)",
        "submit b (7 prompt tokens, the first 6 as in a, up to 1 out)",
        "submit c (9 prompt tokens as in a, up to 1 out)",
        "submit d (1 prompt token, up to 1 out)",
    ]


# --- what would have been right ----------------------------------------------------------------------------


def wrong_read(messages: list[Message]) -> str:
    shown = Capabilities(observes="tables", ordered=True, claims={"prefix_cache"})
    header = Header(settings=Settings(blocks=4, block_size=2, prefix_caching=True), capabilities=shown)
    monitor = Monitor(header, explain=True)
    broken = [violation for message in messages for violation in monitor.feed(message)]
    (violation, *_) = (v for v in broken if v.rule == "KV-12")
    return narrate.instead(header, messages, violation)


def accepted(id: str, *prompt: int) -> Message:
    return Message("submit", 0, Request(id=id, prompt_ids=prompt, max_output_tokens=1), Receipt(verdict="accepted"))


def step(number: int, id: str, start: int, tokens: int, *deltas: Any) -> Message:
    plan = Plan(step=number, request=[id], start=[start], tokens=[tokens], samples=[1], deltas=deltas)
    return Message("step", 0, None, plan)


def complete(number: int, id: str, *deltas: Any) -> Message:
    outcome = Outcome(step=number, request=[id], token=[500], stop=[False])
    return Message("complete", 0, outcome, (("delivered", [id], [500]), *deltas))


def test_a_wrong_read_names_who_wrote_what_is_there() -> None:
    messages = [
        accepted("a", 1, 2),
        step(1, "a", 0, 2, ("took", "a", [0]), ("admitted", "a", 0)),
        complete(1, "a", ("gave", "a", [0]), ("finished", "a", "length")),
        accepted("b", 8, 9),
        step(2, "b", 1, 1, ("took", "b", [0]), ("admitted", "b", 1)),
        complete(2, "b", ("gave", "b", [0]), ("finished", "b", "length")),
    ]
    assert wrong_read(messages) == (
        "when step 2 reads block 0 there should be position 0 of b (prompt token 0), but there is position 0 of a "
        "(prompt token 0), written in step 1"
    )


def test_a_wrong_read_of_nothing_says_so() -> None:
    messages = [
        accepted("b", 8, 9),
        step(1, "b", 1, 1, ("took", "b", [3]), ("admitted", "b", 1)),
        complete(1, "b", ("gave", "b", [3]), ("finished", "b", "length")),
    ]
    assert wrong_read(messages).endswith("position 0 of b (prompt token 0), but nobody had written to that place")


def test_every_sentence_belongs_to_a_conjunct() -> None:
    formulas = {
        (c.rule, printed(c.term, of.names, of.state.sorts)) for of in (registry, transfers) for c in of.conjuncts
    }
    spoken = {rule.statement for rule in registry.rules.values()}
    for path in [*(ROOT / "spec").glob("*.py"), *(ROOT / "spec/rules").glob("*.py")]:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        spoken |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    spoken |= {f"the {name} list names a block once" for name in ("free", "evictable")}
    assert [key for key in INSTEAD if key not in formulas and key[1] not in spoken] == []


def test_most_conjuncts_have_a_sentence() -> None:
    guards = {
        (c.rule, printed(c.term, registry.names, registry.state.sorts)) for c in registry.conjuncts if c.kind == "guard"
    }
    assert len(guards - set(INSTEAD)) <= len(guards) // 4


def test_each_guard_between_two_pools_has_a_sentence() -> None:
    sorts = transfers.state.sorts
    guards = {(c.rule, printed(c.term, transfers.names, sorts)) for c in transfers.conjuncts if c.kind == "guard"}
    assert guards - set(INSTEAD) == set()


def test_the_glossary_speaks_of_variables() -> None:
    fields = {name for event in registry.events.values() for name in event.sorts}
    assert set(GLOSSARY) <= set(registry.state.sorts) | fields
    of_transfers = {name for event in transfers.events.values() for name in event.sorts}
    assert set(OF_TRANSFERS) <= set(transfers.state.sorts) | of_transfers


def test_keys_that_order_requests_are_told_as_pairs() -> None:
    _, failure = found("PRE-2")
    assert failure.violation is not None
    assert failure.run is not None
    told = dict(narrate.proof(failure.run.header, failure.run.messages, failure.violation))
    assert re.search(r"victim_key\[request\] = \(priority 0, number \d\)", told["However"])
    assert not re.search(r"\d{9}", told["However"])


def test_names_of_others_are_escaped_wherever_a_page_shows_them() -> None:
    """In the legend, too, which is an example of what stands above it."""
    name = "\u202ea\x1b[31m\0"
    ops = [submit(name, 3, 3), STEP, cancel(name)]
    driver = replay(factory("KV-7"), Script(Settings(blocks=4, block_size=2), 0, ops), explain=True)
    markdown, text = both(case(driver, "KV-7"))
    for line in (*markdown, *text):
        assert line.isprintable(), line
    assert any("positions 0 to 2 of" in line for line in text)


def test_a_violation_beyond_the_messages_has_a_row() -> None:
    driver = long_run()
    (violation, *_) = driver.breaks_of("KV-7")
    late = evolve(violation, message=len(driver.messages) + 1, facts={"fault": "step: plan is None"})
    _, text = both(evolve(case(driver, "KV-7"), violation=late))
    assert any(line.startswith("✗") and "step: plan is None" in line for line in text)


# --- settings of lanes and prices --------------------------------------------------------------------------


class Taking(Scheduler):
    """A subject that takes everybody, and shows what it was asked for."""

    seen: ClassVar[list[tuple[Settings, Request]]] = []

    def __init__(self, settings: Settings, seed: int) -> None:
        super().__init__(Settings(), seed)
        self.asked = settings

    def capabilities(self) -> Capabilities:
        return Capabilities(name="taking", claims={"drr"}, constants={"quantum": 1_024})

    def submit(self, request: Request, now_ns: int) -> Receipt:
        self.seen.append((self.asked, request))
        return Receipt(verdict="accepted")


ASKED = submit("a", [7, 8], 3, client="a", lane="rest", predicted_output_tokens=2, adapter="x", deadline_ns=5)


def test_a_pasted_test_with_lanes_and_prices_runs() -> None:
    text = "\n".join(as_test(f"{__name__}:Taking", "ADMIT-2", Script(FAIR, 0, (ASKED,))))
    assert "from schedspec.spec.vocabulary import Lane, Settings" in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert 'prices={"a": 2}' in text
    names: dict[str, Any] = {}
    exec(compile(text, "test_pasted.py", "exec"), names)
    Taking.seen.clear()
    with pytest.raises(testing.RuleBroken, match="ADMIT-2"):
        names["test_admit_2"]()
    assert Taking.seen == [(FAIR, ASKED.request)]


def test_a_page_tells_lanes_prices_constants_and_what_a_request_asks_for() -> None:
    driver = replay(Taking, Script(FAIR, 0, (ASKED,)))
    (violation,) = driver.breaks_of("ADMIT-2")
    case = Case(rule="ADMIT-2", header=driver.header, messages=driver.messages, violation=violation)
    for lines in both(case):
        text = " ".join(" ".join(lines).split())
        assert "taking 0, quantum 1,024" in text
        assert "prices [a 2]" in text
        assert "lanes [chat 70 %, order vtc, max_prompt_tokens 4, burst 8; rest 30 %, maximum_percent 50]" in text
        assert "client a, lane rest, deadline 5 ns, 2 predicted, adapter x" in text


def test_a_script_with_lanes_and_prices_survives() -> None:
    script = Script(FAIR, 3, (ASKED, STEP))
    assert from_json(json.loads(json.dumps(to_json(script)))) == script


def test_long_rows_are_read_at_their_ends_only() -> None:
    row = [*range(100), *([7] * 2_000_000), 1, 2, 3]
    short = ranges(row)
    assert short.startswith("0-99, 7, 7, ")
    assert short.endswith(", 7, 1-3")
    assert short.count(", ") == 2 * MOST_IN_A_ROW


def test_the_legend_names_whoever_has_a_long_name() -> None:
    for name in ("a" * 1_000_000, "two words", "[0,7)"):
        driver = replay(make, Script(Settings(blocks=4, block_size=2), 0, [submit(name, 3, 3), STEP]))
        shown = Page(Case(rule="KV-7", header=driver.header, messages=driver.messages)).legend()
        assert (
            " ".join(shown)
            == f"{short_name(name)}[0,3): positions 0 to 2 of {short_name(name)}, counted from 0; *: it samples a token"
        )
