"""What a person sees: verdicts, pages of failures, progress.  Everything else is for machines.

Whoever only asks for cards needs no Hypothesis, so what judges is imported by those who print a judgement.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import markup
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from schedspec.spec.catalogue import registry

from .names import counted, printable, short_name

if TYPE_CHECKING:
    from .check import Check, Failure, Findings, RuleResult
    from .fleet import FleetReport
    from .matrix import Outcome
    from .page import Case, Row
    from .recorded import Judged
    from .small_scope.cases import Found
    from .stored import Again
    from .validate import Check as AdapterCheck

out = Console(emoji=False)
err = Console(stderr=True, emoji=False)

LOG_EVERY_S = 60.0
WIDEST = 10_000

COLOURS = {
    "pass": "green",
    "fail": "bold red",
    "void": "bold red",
    "known": "magenta",
    "unknown": "yellow",
    "not exercised": "yellow",
}


def safe(text: str) -> str:
    """Others chose some of it: nothing in it moves the cursor, changes a colour, or turns a line around."""
    return "\n".join(printable(line) for line in text.split("\n"))


def escape(text: str) -> str:
    """The same where markup is read."""
    return markup.escape(safe(text))


def print_table(table: Table) -> None:
    """Whole where there is no screen that it has to fit on: nothing is cut in a file or a pipe."""
    if out.is_terminal:
        out.print(table)
        return
    width = out.measure(table, options=out.options.update(max_width=WIDEST)).maximum
    Console(file=out.file, width=width, emoji=False).print(table)


def print_check(check: "Check", folder: Path) -> None:
    from .check import results
    from .report import headline, void_page

    findings = check.findings
    out.print(verdicts(findings))
    for failure in findings.told():
        _print_failure(check, failure, folder)
    for rule, result in results(findings).items():
        if result.verdict == "known":
            _line(f"[magenta]known[/]  {rule}: {_known(result)}")
    for sentence in findings.stale:
        _line(f"[bold red]baseline[/]  {escape(sentence)}")
    for note in findings.notes:
        _line(f"note: {escape(note)}")
    if findings.refused_settings:
        refused = ", ".join(sorted(findings.refused_settings))
        _line(f"settings that the subject refuses, so not tried: {escape(refused)}")
    _line(escape(findings.coverage.in_short()))
    for sentence in searched(check):
        _line(escape(sentence))
    unseen = [rule for rule, result in results(findings).items() if result.verdict == "not exercised"]
    claimed = [rule for rule in unseen if registry.rules[rule].binding.claims]
    if claimed:
        _line(
            f"claimed and not exercised, so nothing is known of them: {', '.join(claimed)} (pin what switches them on)"
        )
    for name, replayed in findings.workloads.items():
        cut = " (cut short: time was up)" if replayed.cut_short else ""
        _line(f"{escape(name)}: {counted(replayed.requests, 'request')}, {counted(replayed.steps, 'step')}{cut}")
    if findings.fault_run is not None:
        print_page(void_page(findings.fault_run, folder))
    for fault in sorted({str(fault) for fault in findings.faults}):
        print_void(fault)
    _line(
        f"[bold {_colour(findings)}]{escape(check.name)}: {headline(findings)}[/]  seed {check.seed}, "
        f"{counted(findings.runs, 'run')}, {check.seconds:.1f} s; report in {escape(str(folder))}"
    )


def searched(check: "Check") -> Iterator[str]:
    """What a search that goes on for long says of itself."""
    told = check.findings.searched
    if told.get("kind") == "soak":
        sizes = ", ".join(f"{size['runs']:,} {kind}" for kind, size in told["sizes"].items())
        memory = told["memory_mib"]
        yield (
            f"soak: {counted(told['runs'], 'run')} ({sizes}), "
            f"{told['pairs']:,} pairs, {told['pairs_per_s']:,} pairs/s; memory "
            f"{memory['when_settled']:,} MiB after some rounds, {memory['at_the_end']:,} at the end"
        )
        for conjunct, times in told["failed"].items():
            again = f"; again: {check.again(times['first_run'])}" if times["first_run"] is not None else ""
            yield f"  {conjunct} broke in {counted(times['runs'], 'run')}{again}"
        yield f"  run number K alone: {check.again('K')}"
    if told.get("kind") == "small scope":
        looked = [case for case in told["cases"] if case["outcome"] != "refused"]
        yield (
            f"small scopes: {counted(len(looked), 'case')} of {len(told['cases'])} (others refused), "
            f"{told['states']:,} states, "
            f"{told['transitions']:,} transitions, {told['calls']:,} calls judged; {told['runs']:,} runs from the start"
        )
        for case in told["cases"]:
            size = counted(case["states"], "state") if "states" in case else counted(case.get("runs", 0), "run")
            why = f": {case['why']}" if case["why"] else ""
            yield f"  {case['case']} ({case['says']}): {size}, {case['outcome']}{why}"
        if not told["whole"]:
            yield "  time was up before all was looked at, so nothing passes: give it more by --seconds"


def print_matrix(outcomes: Sequence["Outcome"], folder: Path, seconds: float) -> None:
    from .matrix import header, only_raw, row

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header(outcomes):
        table.add_column(name, justify="right" if name in ("runs", "seconds") else "left")
    for outcome in outcomes:
        table.add_row(*(escape(cell) for cell in row(outcome)), style="red" if outcome.status in (1, 2) else "")
    out.print(table)
    for subject, rules in only_raw(outcomes):
        _line(f"only {escape(subject)}: {', '.join(rules) or 'nothing'}")
    _line(
        f"{counted(len(outcomes), 'check')} in {seconds:.0f} s "
        f"(in brackets: messages of the shortest trace); reports in {folder}"
    )


def print_cases(found: "Sequence[Found]", *, stories: bool) -> None:
    """A table of what is exhausted in which scope, and if wanted the story of each counterexample."""
    width = max((len(one.case.name) for one in found), default=0)
    _line(f"[bold]{'case':{width}}  work       progress   starvation   states  transitions  seconds[/]")
    for case in (one.case for one in found):
        verdicts = "".join(f"{verdict or '–':<11}" for verdict in (case.work, case.progress, case.starvation))
        sizes = f"{case.states:>8,}{case.transitions:>13,}{case.seconds:>9.1f}"
        _line(f"{escape(case.name):{width}}  {verdicts}{sizes}")
    for one in found:
        if one.refused:
            _line(f"{escape(one.case.name)}: not looked at, since {escape(one.refused)}")
        for question, why in one.why.items():
            _line(f"{escape(one.case.name)}: {question} is unknown: {escape(why)}")
        for question, lines in one.stories.items() if stories else ():
            out.print()
            _line(f"[bold]{escape(one.case.name)}[/] ({escape(one.case.says)}): {question} is refuted")
            for line in lines:
                _line("  " + escape(line))
    _print_judged(found)
    states, transitions = (sum(getattr(one.case, count) for one in found) for count in ("states", "transitions"))
    _line(f"{counted(len(found), 'case')}: {counted(states, 'state')}, {counted(transitions, 'transition')}")


def _print_judged(found: "Sequence[Found]") -> None:
    """Rules that were judged on every transition: how often each was exercised, and which cases break it."""
    cases = [one.case for one in found]
    judged = {rule for case in cases for rule in (*case.exercised, *case.broken)}
    if judged:
        _line(f"[bold]{'rule':9}{'exercised':>10}  in cases  broken in[/]")
    for rule in sorted(judged, key=lambda rule: registry.rules[rule].order):
        kept = [case for case in cases if rule in case.exercised and rule not in case.broken]
        broken = [case.name for case in cases if rule in case.broken]
        times = sum(case.exercised[rule] for case in kept)
        _line(f"{rule:9}{times:>10,}{len(kept):>10}  {escape('; '.join(broken)) or '–'}")


MOST_CLIENTS = 8


def print_replay(run: "dict[str, Any]", *, with_load: bool) -> None:
    """One run: everybody, then lanes and the largest clients if there are several.  Percentiles in ms."""
    whole = run["metrics"]
    title = escape(run["system"] + (f" at load {run['load']}" if with_load else ""))
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    names = _named_groups(whole)
    table.add_column("", overflow="fold", min_width=min(12, max(map(len, names), default=0)))
    for name in ("requests", "in time", "TTFT 50/95/99 %", "ITL 50/95/99 %", "queue 95 %", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("all", *_replay_row(whole))
    for name, group in names.items():
        table.add_row(escape(name), *_replay_row(group), style="dim")
    print_table(table)
    for sentence in [*_replay_notes(whole), *_intervals_note(run.get("intervals"))]:
        _line(f"  {sentence}")


def _named_groups(whole: "dict[str, Any]") -> "dict[str, Any]":
    """Lanes, and the largest clients, if there are several."""
    named: dict[str, Any] = {}
    for kind in ("lanes", "clients"):
        groups = sorted(whole[kind].items(), key=lambda item: (-item[1]["tokens"]["useful"], item[0]))
        if len(groups) > 1:
            named |= {f"{kind[:-1]} {name}": group for name, group in groups[:MOST_CLIENTS]}
    return named


def _replay_row(group: "dict[str, Any]") -> list[str]:
    return [
        f"{group['requests']:,}",
        f"{group['goodput']['share']:.1%}",
        in_ms(group["ttft_ns"], "p50", "p95", "p99"),
        in_ms(group["itl_ns"], "p50", "p95", "p99"),
        in_ms(group["queue_ns"], "p95"),
        f"{group['tokens']['outputs_per_s']:,.0f}",
    ]


def in_ms(found: "dict[str, int] | None", *percentiles: str) -> str:
    """From ten seconds on in seconds."""
    if found is None:
        return "–"
    values = [found[percentile] for percentile in percentiles]
    return " ".join(f"{value / 1e6:.0f}" if value < 10**10 else f"{value / 1e9:.0f}s" for value in values)


def _instead(whole: "dict[str, Any]") -> str:
    """What requests got instead of a refusal, if any did."""
    words = {"deferred": "held at the door"}
    counts: dict[str, int] = whole["instead"]
    return "".join(f"{count:,} {words.get(how, f'converted ({how})')}, " for how, count in counts.items())


def _intervals_note(found: "dict[str, Any] | None") -> list[str]:
    """Of enough requests: 95 % of what percentiles and goodput are."""
    if not found or not found["blocks"]:
        return []
    told = []
    for name, title in (("ttft_ns", "TTFT 95 %"), ("itl_ns", "ITL 95 %")):
        if ends := found[name].get("p95"):
            told.append(f"{title} {in_ms({'': ends[0]}, '')} to {in_ms({'': ends[1]}, '')}")
    low, high = found["goodput_share"]
    told.append(f"in time {low:.1%} to {high:.1%}")
    return [f"95 % intervals: {', '.join(told)} ({counted(found['blocks'], 'block')} of consecutive requests)"]


def _replay_notes(whole: "dict[str, Any]") -> list[str]:
    tokens, engine, difference = whole["tokens"], whole["engine"], whole["service"]["difference_per_s"]
    notes = [
        f"{whole['finished']:,} finished, {whole['refused']:,} refused, {_instead(whole)}"
        f"{counted(whole['preemptions'], 'preemption')}; "
        f"{whole['goodput']['requests_per_s']:.2f} requests/s in time",
        f"{counted(engine['steps'], 'step')} in {engine['span_ns'] / 1e9:,.1f} s, busy {engine['busy_share']:.0%}; "
        f"KV at most {max(whole['kv_tokens']['max'], default=0):,} tokens",
        f"{tokens['run']:,} tokens run, {tokens['wasted']:,} of them in vain",
    ]
    per_output = whole["cost"]["machine_ns_per_useful_output"]
    if per_output is not None:
        notes[-1] += f"; {per_output / 1e6:,.1f} ms of the machine for each useful output"
    if difference is not None:
        notes[-1] += f"; service differs by {difference['mean']:,.0f}/s (mean of {difference['count']} windows)"
    return notes


@contextmanager
def counted_progress(what: str, total: int) -> Iterator[Callable[[Any], None]]:
    """A bar that goes on by one at each call."""
    columns = (SpinnerColumn(), TextColumn(what), BarColumn(bar_width=30), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=err) as bars:
        task = bars.add_task(what, total=total)
        yield lambda _: bars.advance(task)


Step = Callable[[int], None]


@contextmanager
def unit_progress(*, quiet: bool) -> Iterator[tuple[Callable[[int, int], None], Step]]:
    """Units of a campaign: how many are done, how many failures there are, how fast it goes, and how long it takes."""
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=30),
        TextColumn("{task.completed}/{task.total} units"),
        TextColumn("{task.fields[failures]} failures"),
        TextColumn("{task.fields[rate]}/s"),
        TimeRemainingColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, disable=quiet) as bars:
        task = bars.add_task("units", total=None, failures=0, rate="–")
        found = 0

        def begin(total: int, done: int) -> None:
            bars.update(task, total=total, completed=done)

        def step(failures: int) -> None:
            nonlocal found
            found += failures
            bars.advance(task)
            speed = bars.tasks[0].speed
            bars.update(task, failures=found, rate="–" if speed is None else f"{speed:.3g}")

        yield begin, step


def print_fleet(report: "FleetReport") -> None:
    """Which rules, at which engines, first when, how often, and what all engines together break."""
    plain = report.plain
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("rule", "verdict", "engines", "breaks", "first at (now_ns)", "first engine", "exercised"):
        table.add_column(name, no_wrap=name != "first engine", justify="right" if name in RIGHT else "left")
    rows = {rule: (one, len(one.get("engines", ()))) for rule, one in (report.rules | plain["fleet"]).items()}
    for rule, (one, engines) in rows.items():
        first = (f"{one['first_ns']:,}", escape(short_name(one["first_engine"]))) if engines else ("", "")
        colour = COLOURS.get(one["verdict"], "dim")
        many, breaks = f"{engines or ''}", f"{one.get('breaks') or ''}"
        table.add_row(rule, f"[{colour}]{one['verdict']}[/]", many, breaks, *first, f"{one['exercised']:,}")
    print_table(table)
    for told in report.told:
        _print_rows(told.text(out.width))


def print_failures_of_engines(report: "FleetReport", folder: Path) -> None:
    """From the folder, where they are written: the first of each rule in full, and the pages of others."""
    from .fleet_page import engine_failure, engine_folder

    failures = {(rule, one["engine"]): one for one in reversed(report.engines) for rule in one["failures"]}
    shown: set[str] = set()
    for place, ((rule, name), result) in enumerate(sorted(failures.items(), key=lambda one: one[0])):
        if rule not in shown:
            print_page(engine_failure(folder, result, rule).case)
        shown.add(rule)
        if place < MOST_NAMED:
            page = folder / engine_folder(name) / "failures" / f"{rule}.md"
            _line(f"{escape(short_name(name))} breaks {rule}: {escape(str(page))}")
    if len(failures) > MOST_NAMED:
        _line(f"… {counted(len(failures) - MOST_NAMED, 'more failure')} of engines, each with its page in the report")
    for fault in report.plain["faults"]:
        print_void(fault)
    engines = counted(len({result["engine"] for result in report.engines}), "engine")
    messages = counted(report.plain["messages"], "message")
    _line(f"{engines}, {messages}; report in {escape(str(folder))}")


MOST_NAMED = 40
RIGHT = ("engines", "breaks", "first at (now_ns)", "exercised")


def _print_failure(check: "Check", failure: "Failure", folder: Path) -> None:
    """A MUST in full; a SHOULD is advice, and its page is named."""
    from .report import case_of

    if registry.rules[failure.rule].level == "SHOULD":
        page = folder / "failures" / f"{failure.rule}.md"
        _line(f"advice: {failure.rule} is broken in {counted(failure.messages, 'message')}, see {escape(str(page))}")
        return
    print_page(case_of(check, failure, folder))


def _known(result: "RuleResult") -> str:
    return escape((result.reason or "") + (f" ({result.link})" if result.link else ""))


def _colour(findings: "Findings") -> str:
    must = any(registry.rules[rule].level == "MUST" for rule in findings.broken - findings.recorded.keys())
    return "red" if findings.faults or findings.stale or must else "green"


def print_page(case: "Case") -> None:
    from .page import Page

    _print_rows(Page(case).text(out.width))


def _print_rows(rows: "Sequence[Row]") -> None:
    out.print()
    for row in rows:
        text = Text(row.text, style={"title": "bold red", "bad": "bold red"}.get(row.kind, ""))
        out.print(text, highlight=False, soft_wrap=True)


def print_trace(judged: "Judged", folder: Path) -> None:
    from .recorded import cases

    out.print(verdicts(judged.findings))
    for case in cases(judged, folder):
        print_page(case)
    if judged.fault is not None:
        print_void(str(judged.fault))
    _line(f"{counted(judged.messages, 'message')} judged in {judged.seconds:.1f} s; report in {escape(str(folder))}")


def print_again(again: "Again") -> None:
    if again.stored.rule in registry.rules or again.fault is not None:
        print_page(again.case())
    _line(escape(again.sentence()))


def print_adapter(checks: "Sequence[AdapterCheck]") -> None:
    for item in checks:
        mark = "[green]ok[/]  " if item.ok else "[bold red]no[/]  "
        _line(f"{mark}{item.name:24} {escape(item.sentence)}")


def print_void(fault: str) -> None:
    _line(f"[bold red]void[/]  {escape(fault)}")


def print_error(sentence: str) -> None:
    err.print(f"[bold red]error:[/] {escape(sentence)}", highlight=False, soft_wrap=True)


def print_aside(sentence: str) -> None:
    err.print(escape(sentence), highlight=False, soft_wrap=True)


def verdicts(findings: "Findings") -> Table:
    from .check import results

    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("rule", width=8)
    table.add_column("verdict", width=15)
    table.add_column("exercised", width=9, justify="right")
    table.add_column("statement", ratio=1, no_wrap=True, overflow="ellipsis")
    for rule, result in results(findings).items():
        should = result.level == "SHOULD"
        colour = "yellow" if result.verdict == "fail" and should else COLOURS.get(result.verdict, "dim")
        verdict = f"{result.verdict} ({result.level})" if should else result.verdict
        statement = escape(registry.rules[rule].statement)
        table.add_row(rule, f"[{colour}]{verdict}[/]", f"{result.exercised:,}", statement)
    return table


# --- cards -------------------------------------------------------------------------------------------------


def print_rules(cards: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("rule", "level", "needs", "claim", "evidence", "statement"):
        table.add_column(column, no_wrap=column not in ("statement", "claim"))
    for card in cards:
        claims = " ".join(card["claims"]) or "–"
        table.add_row(card["id"], card["level"], card["needs"], claims, card["evidence"], escape(card["statement"]))
    out.print(table)


def print_story(lines: Sequence[str]) -> None:
    for line in lines:
        out.print(Text(safe(line)), soft_wrap=True)


def print_card(card: dict[str, Any]) -> None:
    head = f"[bold]{card['id']}[/] ({card['level']}, since {card['since']})  {escape(card['statement'])}\n"
    out.print(head, highlight=False)
    for conjunct in card["formal"]:
        where = f"on {conjunct['on']}" if conjunct["on"] else conjunct["kind"]
        _line(f"  {conjunct['name']:10} {where:18} {escape(conjunct['formula'])}")
    rows = [
        ("needs", card["needs"] + (", and the order of deltas" if card["ordered"] else "")),
        ("claim", ", ".join(card["claims"]) or "none: it binds everybody"),
        ("why", card["why"]),
        ("bugs", ", ".join(card["bugs"]) or "–"),
        ("checked by", ", ".join(card["checked_by"])),
        ("proved by", card["proved_by"] or "no proof: " + card["evidence"]),
        ("theorems", card["theorems"] or "–"),
        ("exhausted", card["exhausted"] or "–"),
        ("breaks with", "; ".join(f"{e['also']} ({e['why']})" for e in card["implies"]) or "–"),
    ]
    out.print()
    for name, text in rows:
        _line(f"  [bold]{name:12}[/]{escape(text)}")


# --- parts -------------------------------------------------------------------------------------------------


def _line(text: str) -> None:
    out.print(text, highlight=False, soft_wrap=True)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str, float, str], None]]:
    """A live bar per stage, on standard error, or in a file a line now and then; nothing at all with --json."""
    if quiet:
        yield lambda stage, part, note: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:12}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=False) as bars:
        tasks: dict[str, TaskID] = {}
        last = [time.monotonic()]

        def show(stage: str, part: float, note: str) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=1.0, note=note)
            note = safe(note)
            bars.update(tasks[stage], completed=part, note=note)
            if not err.is_terminal and time.monotonic() - last[0] > LOG_EVERY_S:
                last[0] = time.monotonic()
                err.print(f"{stage}: {note}", markup=False, highlight=False, soft_wrap=True)

        yield show
