"""What README.md and spec/PROTOCOL.md show is run: code, files, transcripts; and tables against the vocabulary."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import click
import pytest
from attrs import NOTHING, fields_dict, frozen

from schedspec.cli import cli
from schedspec.reference.simulation import PROFILES
from schedspec.spec.catalogue import registry
from schedspec.spec.monitor import Monitor
from schedspec.spec.protocol import read_plan
from schedspec.spec.trace import read_trace
from schedspec.spec.vocabulary import (
    CLAIMS,
    CONSTANTS,
    DELTAS,
    NO_LIMIT_TOKENS,
    REFUSAL_REASONS,
    Capabilities,
    Door,
    Lane,
    Message,
    Observation,
    Outcome,
    Plan,
    Policy,
    Pools,
    Request,
    RequestView,
    Settings,
)
from schedspec.spec.workloads import WorkloadError, fitted, generic, hostile, parse_workload

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROTOCOL = (ROOT / "spec/PROTOCOL.md").read_text(encoding="utf-8")
PAGES = README + PROTOCOL
SPEC = (ROOT / "spec/README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "tests/conformance/examples"


@frozen
class Block:
    """A fenced block: its language, its text, and the file that its first line names."""

    language: str
    text: str

    @property
    def file(self) -> str:
        head = self.text.partition("\n")[0]
        return head.removeprefix("# ") if head.startswith("# ") and head.endswith(".py") else ""


def blocks(language: str, page: str = PAGES) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [Block(*pair) for pair in found if pair[0] == language]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with every Python file of the README in it."""
    for block in blocks("python"):
        (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    env = {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "220", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, input=text, capture_output=True, text=True, check=False
    )


# --- code --------------------------------------------------------------------------------------------------


def test_every_python_block_is_a_file() -> None:
    assert [block.file for block in blocks("python") if not block.file] == []
    assert {"my_scheduler.py", "leaky.py", "test_mine.py", "test_oracle.py"} <= {b.file for b in blocks("python")}


def test_the_adapter_is_the_one_that_is_installed() -> None:
    (shown,) = (block.text for block in blocks("python") if block.file == "my_scheduler.py")
    installed = (EXAMPLES / "toy_scheduler.py").read_text(encoding="utf-8")
    assert shown.partition("\n")[2] == installed.split('"""', 2)[2].lstrip("\n")


@pytest.mark.parametrize("name", [b.file for b in blocks("python") if not b.file.startswith("test_")])
def test_scripts_run(folder: Path, name: str) -> None:
    done = run(folder, name)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["test_mine.py", "test_oracle.py"])
def test_tests_of_a_good_scheduler_pass(folder: Path, name: str) -> None:
    done = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", name)
    assert done.returncode == 0, done.stdout


def test_the_hypothesis_test_finds_a_planted_fault(folder: Path) -> None:
    text = (folder / "test_mine.py").read_text(encoding="utf-8")
    drain = "    run.drain()\n"
    assert drain in text
    cancels = '    run.do(STEP)\n    run.do(cancel("r0"))\n'
    text = text.replace(drain, cancels + drain).replace("import submit", "import STEP, cancel, submit")
    text = text.replace("from my_scheduler import Scheduler", "from leaky import Leaky as Scheduler")
    (folder / "test_mine.py").write_text(text, encoding="utf-8")
    done = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")
    assert done.returncode == 1
    assert "KV-7.1 at message" in done.stdout


# --- what is printed ---------------------------------------------------------------------------------------


def consoles() -> Iterator[tuple[str, list[str]]]:
    """(command, what it prints) of every console block."""
    for block in blocks("console"):
        command, *lines = block.text.rstrip("\n").split("\n")
        assert command.startswith("$ ")
        yield command.removeprefix("$ "), lines


def test_validate_adapter_prints_what_is_shown(folder: Path) -> None:
    (shown,) = (lines for command, lines in consoles() if command.startswith("schedspec validate-adapter"))
    done = run(folder, "-m", "schedspec", "validate-adapter", "my_scheduler:Scheduler")
    assert done.returncode == 0
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown


def _apart_from_its_origin(page: list[str]) -> str:
    """Which of many runs breaks it in the smallest way depends on how many there were."""
    return re.sub(r"found in .*? shortened", "found in some run, then shortened", " ".join(" ".join(page).split()))


def test_the_failure_is_a_real_one(folder: Path) -> None:
    (shown,) = (lines for command, lines in consoles() if command == "schedspec check leaky:Leaky")
    done = run(folder, "-m", "schedspec", "check", "leaky:Leaky", "--workload", "none")
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    begin = printed.index(shown[0])
    assert done.returncode == 1
    there = _apart_from_its_origin(printed[begin:])
    assert there.startswith(_apart_from_its_origin(shown))

    generated = (folder / "build/report/leaky_Leaky/failures/KV-7_test.py").read_text(encoding="utf-8")
    (block,) = (block.text for block in blocks("python") if block.file == "test_kv_7.py")
    assert block.partition("\n")[2] == generated.split('"""', 2)[2].lstrip("\n")

    pasted = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kv_7.py")
    assert pasted.returncode == 1
    assert "KV-7.1 at message 3" in pasted.stdout
    (command,) = (line for line in shown if "schedspec replay-failure" in line)
    again = run(folder, "-m", "schedspec", "replay-failure", command.split()[-1])
    assert again.returncode == 1


def test_the_replay_prints_what_is_shown(tmp_path: Path) -> None:
    (block,) = blocks("csv")
    (tmp_path / "arrivals.csv").write_text(block.text, encoding="utf-8")
    ((command, shown),) = (pair for pair in consoles() if pair[0].startswith("schedspec replay azure:"))
    done = run(tmp_path, "-m", *command.split())
    assert done.returncode == 0, done.stderr
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown
    longest = shown[2].split()[8]
    assert f"stops everybody for {longest} ms" in README


def test_every_cost_model_is_in_the_table() -> None:
    section = README.partition("\n| `--cost` |")[2].partition("\n\n")[0]
    named = {name for line in section.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", line.split("|")[1])}
    assert named == set(PROFILES)


@pytest.mark.parametrize("command", [command for command, _ in consoles() if command.startswith("schedspec")])
def test_commands_and_options_exist(command: str) -> None:
    name, *rest = command.split()[1:]
    known = {option for parameter in cli.commands[name].params for option in parameter.opts}
    assert [word for word in rest if word.startswith("--") and word not in known] == []


def test_options_in_the_text_exist() -> None:
    known = {o for command in cli.commands.values() for p in command.params for o in p.opts}
    known |= {"--pyargs", "--scheduler", "--scheduler-depth", "--scheduler-seed"}
    known |= {"--any", "--arguments", "--scheduler-cls"}  # of somebody's adapter, of vLLM
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGES)) - known == set()
    assert isinstance(cli, click.Group)


# --- transcripts and traces --------------------------------------------------------------------------------


def test_the_transcript_is_a_real_one(folder: Path) -> None:
    (block,) = (block for block in blocks("text") if block.text.startswith("> "))
    lines = block.text.splitlines()
    asked = [json.loads(line[2:]) for line in lines if line.startswith("> ")]
    shown = [json.loads(line[2:]) for line in lines if line.startswith("< ")]
    questions = "".join(json.dumps(question) + "\n" for question in asked)
    server = "schedspec.conformance.examples.toy_stdio"
    assert f"python -m {server} my_scheduler:Scheduler" in README
    done = run(folder, "-m", server, "my_scheduler:Scheduler", text=questions)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == shown
    assert {question["method"] for question in asked} == {
        *("configure", "reset", "submit", "cancel", "notify", "step", "complete", "observe")
    }
    assert all(question["schema"] == "schedspec/1" for question in asked)


@pytest.mark.parametrize("page", [README, SPEC], ids=["README", "spec/README"])
def test_traces_are_clean_runs(folder: Path, page: str) -> None:
    (block,) = blocks("jsonl", page)
    (folder / "run.jsonl").write_text(block.text, encoding="utf-8")
    header, messages = read_trace(folder / "run.jsonl")
    monitor = Monitor(header)
    kinds = []
    for message in messages:
        assert monitor.feed(message) == []
        kinds.append(message.kind)
    assert kinds[-1] == "end"
    assert monitor.live == 0
    if page is SPEC:
        assert set(kinds) == set(get_args(get_type_hints(Message)["kind"]))
    done = run(folder, "-m", "schedspec", "trace", "run.jsonl")
    assert done.returncode == 0, done.stdout


def test_why_prints_what_is_shown(folder: Path) -> None:
    (folder / "run.jsonl").write_text(blocks("jsonl")[0].text, encoding="utf-8")
    (shown,) = (lines for command, lines in consoles() if command == "schedspec why run.jsonl a")
    done = run(folder, "-m", "schedspec", "why", "run.jsonl", "a")
    assert done.stdout.rstrip("\n").split("\n") == shown, done.stderr


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.text[:20])
def test_a_plan_in_json_is_one(block: Block) -> None:
    plan = read_plan(json.loads(block.text))
    assert [delta[0] for delta in plan.deltas] == ["gave", "preempted", "took"]


# --- tables against the vocabulary -------------------------------------------------------------------------


def headings(page: str) -> set[str]:
    """Of all sections, as links call them."""
    lines = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines}


@pytest.mark.parametrize("path", ["README.md", "spec/PROTOCOL.md", "spec/README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(path: str) -> None:
    page = ROOT / path
    for place, heading in re.findall(r"\]\(((?!http)[^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        to = page.parent / place if place else page
        assert to.exists(), place
        assert not heading or heading in headings(to.read_text(encoding="utf-8")), f"{place}#{heading}"


def first_column(heading: str) -> set[str]:
    """Names in backquotes in the first cells of the tables under a heading."""
    section = PAGES.partition(f"## {heading}\n")[2]
    section = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Settings", set(fields_dict(Settings))),
        ("Capabilities", set(fields_dict(Capabilities)) | set(CLAIMS) | set(CONSTANTS)),
        ("Policies", set(get_args(Policy))),
        ("Lanes", set(fields_dict(Lane))),
        ("The door", set(fields_dict(Door))),
        ("Two pools", set(fields_dict(Pools))),
        ("Plans and outcomes", set(fields_dict(Plan))),
        ("Deltas", set(DELTAS)),
        ("Snapshots", set(fields_dict(Observation))),
    ],
)
def test_tables_are_complete(heading: str, names: set[str]) -> None:
    assert first_column(heading) == names


@pytest.mark.parametrize("cls", [Request, Outcome, RequestView])
def test_every_field_is_named(cls: type) -> None:
    assert [name for name in fields_dict(cls) if name not in PAGES] == []


def test_every_reason_and_default_is_named() -> None:
    assert [reason for reason in REFUSAL_REASONS if f"`{reason}`" not in PAGES] == []
    for name, default in ((n, a.default) for n, a in fields_dict(Settings).items() if not n.endswith("put_tokens")):
        shown = (
            "Pools()"
            if default == Pools()
            else "Door()"
            if default == Door()
            else f'"{default}"'
            if isinstance(default, str)
            else str(default)
        )
        assert re.search(rf"\| (`\w+`, )*`{name}`(, `\w+`)* \| `?({re.escape(shown)}|huge)`? \|", PAGES), name


def test_every_workload_is_named() -> None:
    with pytest.raises(WorkloadError) as error:
        parse_workload("-")
    kinds = str(error.value).rpartition("known are ")[2].split(", ")
    assert len(kinds) > 1
    assert [kind for kind in kinds if not re.search(rf"`{kind}:(FILE|NAME|KIND)`", README)] == []
    section = README.partition("\n## Workloads\n")[2].partition("\n## ")[0]
    assert [name for name in (*fitted.SOURCES, *hostile.SOURCES) if f"`{name}`" not in section] == []
    assert first_column("Your own") == set(generic.NAMES)


def test_every_rule_that_is_named_exists() -> None:
    families = "|".join(sorted({rule.family for rule in registry.rules.values()}))
    assert set(re.findall(rf"\b(?:{families})-\d+\b", PAGES)) <= set(registry.rules)


def rows_of(head: str) -> dict[str, list[str]]:
    """The table under a head: the name in its first cell -> the other cells."""
    section = PAGES.partition(f"| {head} |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()[2:]]
    return {first.strip("`"): rest for first, *rest in cells}


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_claim_has_its_promise_and_the_rules_that_it_makes_bind(claim: str) -> None:
    promise, rules = rows_of("claim | promise")[claim]
    assert promise == CLAIMS[claim]
    bound = {rule.id for rule in registry.rules.values() if claim in rule.binding.claims}
    bound |= {conjunct.rule for conjunct in registry.conjuncts if claim in conjunct.binding.claims}
    assert bound <= set(re.findall(r"[A-Z]+-\d+", rules)), f"{claim}: {', '.join(sorted(bound))}"


@pytest.mark.parametrize("constant", CONSTANTS)
def test_every_constant_has_its_meaning(constant: str) -> None:
    assert rows_of("constant")[constant] == [CONSTANTS[constant]]


def test_every_policy_that_is_claimed_is_a_policy() -> None:
    assert [policy for policy in get_args(Policy) if policy not in CLAIMS] == []


def test_defaults_of_a_lane_are_shown() -> None:
    section = PROTOCOL.partition("\n## Lanes\n")[2].partition("\n## ")[0]
    for name, lane in fields_dict(Lane).items():
        shown = f'"{lane.default}"' if isinstance(lane.default, str) else str(lane.default).lower()
        shown = "" if lane.default is NOTHING else "huge" if lane.default == NO_LIMIT_TOKENS else shown
        assert re.search(rf"\| (`\w+`, )*`{name}`(, `\w+`)* \| ?`?{re.escape(shown)}`? ?\|", section), name


# --- a policy from CONTRIBUTING ----------------------------------------------------------------------------


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A folder with every Python file of CONTRIBUTING in it."""
    for block in blocks("python", CONTRIBUTING):
        (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("subject", ["my_policy:Mine", "my_claims:Mine"])
def test_the_policy_is_a_good_one(policies: Path, subject: str) -> None:
    arguments = ("check", subject, "--depth", "smoke", "--workload", "none", "--setting", "policy=vtc")
    done = run(policies, "-m", "schedspec", *arguments)
    assert done.returncode == 0, done.stdout


def test_the_fault_of_the_policy_shows_as_it_says(policies: Path) -> None:
    """The numbers are those of the run that happened to be found."""
    done = run(policies, "-m", "schedspec", "check", "forgetful:Wrong", "--workload", "none", "--rule", "FAIR-6")
    assert done.returncode == 1
    (shown,) = (block.text for block in blocks("text", CONTRIBUTING))
    pattern = re.sub(r"\d+(?=,|$)", r"\\d+", re.escape(" ".join(shown.split())))
    assert re.search(pattern, " ".join(done.stdout.split())), done.stdout


# --- the other pages ---------------------------------------------------------------------------------------


def test_the_rule_in_the_spec_is_a_real_one() -> None:
    (block,) = blocks("python", SPEC)
    parts = re.split(r"\n\n\n", block.text.strip())
    rules = (ROOT / "spec/rules/composition.py").read_text(encoding="utf-8")
    assert [part for part in parts if part not in rules] == []


def test_every_event_is_named_in_the_spec() -> None:
    assert [event for event in registry.events if f"`{event}`" not in SPEC] == []


@pytest.mark.parametrize(
    "page", [README, PROTOCOL, SPEC, CONTRIBUTING], ids=["README", "PROTOCOL", "spec", "CONTRIBUTING"]
)
def test_files_that_are_named_exist(page: str) -> None:
    """Paths in backquotes with a folder in front; reports and what a reader makes are not ours."""
    named = set(re.findall(r"`((?:spec|reference|proofs|src|tests|optimized|rules)/[\w./-]*)`", page))
    assert named
    assert [path for path in sorted(named) if not any((ROOT / top / path).exists() for top in ("", "spec"))] == []
