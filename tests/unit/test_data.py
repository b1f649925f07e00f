"""`schedspec data`: what is listed, what is found, what is fetched, and what is said where it cannot be."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from schedspec.cli import cli
from schedspec.spec.workloads import WorkloadError, parse_workload, public
from schedspec.spec.workloads.fetch import fetch
from schedspec.spec.workloads.public import PublicFile, data_folder, locate, public_files, standing
from schedspec.spec.workloads.workload import _FILES

CONTENT = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
KNOWN = PublicFile(
    name="mine/trace_conv.csv",
    use="azure: a test",
    repository="owner/repo",
    commit="0" * 40,
    path="data/trace_conv.csv",
    licence="MIT",
    size=len(CONTENT),
    sha256=sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder."""
    monkeypatch.setenv("SCHEDSPEC_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the network: a folder, and a list with one file that can be fetched."""
    monkeypatch.setattr(public, "RAW", (tmp_path / "web").as_uri())
    monkeypatch.setattr(public, "public_files", lambda: (KNOWN,))
    path = tmp_path / "web" / "owner/repo" / ("0" * 40) / "data/trace_conv.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return path


def data(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["data", *arguments])


def said(result: Result) -> str:
    return " ".join(result.output.split())


# --- the list ----------------------------------------------------------------------------------------------


def test_the_list_says_where_everything_comes_from() -> None:
    names = [file.name for file in public_files()]
    assert len(set(names)) == len(names)
    for file in public_files():
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", file.repository)
        assert re.fullmatch(r"[0-9a-f]{8}|[0-9a-f]{40}", file.commit)
        assert file.licence in ("CC-BY-4.0", "Apache-2.0", "MIT")
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.sha256 is None or file.size
        assert not file.name.startswith("/")
    assert {file.name for file in public_files() if file.reshaped} == {
        name for name in names if name.startswith("vtc/") and name.endswith(".csv")
    }


def test_every_usual_file_is_listed() -> None:
    usual = {kind.usual for kind in _FILES.values() if kind.usual is not None}
    assert usual <= {file.name for file in public_files()}


def test_the_files_at_hand_are_those_that_are_listed() -> None:
    """Whoever has the data folder has these bytes."""
    at_hand = [file for file in public_files() if (data_folder() / file.name).is_file()]
    if not at_hand:
        pytest.skip("no data folder")
    assert {file.name: standing(file) for file in at_hand if file.sha256} == {
        file.name: "found" for file in at_hand if file.sha256
    }


# --- the command -------------------------------------------------------------------------------------------


def test_a_table_of_all_and_all_of_one(folder: Path) -> None:
    done = data()
    assert done.exit_code == 0
    assert [file.name for file in public_files() if file.name not in done.output] == []
    assert [
        file.repository for file in public_files() if f"https://github.com/{file.repository}" not in done.output
    ] == []
    assert "azure2023/AzureLLMInferenceTrace_conv.csv" in done.output
    assert "hostile:retry-storm" in done.output
    assert "fitted:azure-conv" in done.output
    one = said(data("AzureLLMInferenceTrace_conv.csv"))
    for word in ("CC-BY-4.0", "719188", "2f1e5b666d4e3055fdbba98598ce2ec3", "standing missing", "--fetch` gets it"):
        assert word in one


def test_json_for_programs(folder: Path) -> None:
    found = json.loads(data("vtc", "--json").stdout)
    assert found["folder"] == str(folder)
    assert len(found["files"]) > 10
    real = next(file for file in found["files"] if file["name"] == "vtc/real__FCFS.csv")
    assert (real["standing"], real["reshaped"], real["found"]) == ("missing", True, None)
    assert "re-shaped from https://github.com/Ying1123/VTC-artifact/blob/192c2e20" in real["how_to_get"]


def test_a_wrong_name_is_one_sentence(folder: Path) -> None:
    done = data("azur2023")
    assert done.exit_code == 2
    assert said(done) == "error: there is no public file 'azur2023': did you mean 'azure2023'?"
    assert "`schedspec data` has them all" in said(data("zzz"))


def test_it_is_looked_for_beside_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Path) -> None:
    monkeypatch.delenv("SCHEDSPEC_DATA", raising=False)
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    assert standing(KNOWN) == "missing"
    assert data("--fetch").exit_code == 0
    assert locate("trace_conv.csv") == tmp_path / "shared/data/mine/trace_conv.csv"


def test_of_a_folder_what_can_be_fetched_is(folder: Path, origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = evolve(KNOWN, name="mine/reshaped.csv", reshaped=True)
    monkeypatch.setattr(public, "public_files", lambda: (other, KNOWN))
    done = data("mine", "--fetch")
    assert done.exit_code == 0, done.output
    assert (standing(other), standing(KNOWN)) == ("missing", "found")


# --- fetching ----------------------------------------------------------------------------------------------


def test_a_file_is_fetched_and_read(folder: Path, origin: Path) -> None:
    done = data("mine", "--fetch")
    assert done.exit_code == 0, done.output
    assert (folder / KNOWN.name).read_bytes() == CONTENT
    assert standing(KNOWN) == "found"
    assert [arrival.prompt_tokens for arrival in parse_workload("azure:trace_conv.csv").arrivals()] == [374]
    origin.unlink()
    assert data("mine", "--fetch").exit_code == 0  # it is there


@pytest.mark.parametrize(
    "content", [b"something else", CONTENT + b"more", CONTENT[:-1], CONTENT.replace(b"4", b"5"), b""]
)
def test_other_bytes_are_not_kept(folder: Path, origin: Path, content: bytes) -> None:
    origin.write_bytes(content)
    done = data("mine", "--fetch")
    assert done.exit_code == 2
    assert f"has other bytes than expected (its sha256 is not {KNOWN.sha256}): it was not kept" in said(done)
    assert list((folder / "mine").iterdir()) == []


def test_what_is_there_with_other_bytes_is_left_alone(folder: Path, origin: Path) -> None:
    path = folder / KNOWN.name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"mine")
    assert standing(KNOWN) == "other bytes"
    with pytest.raises(WorkloadError, match=r"is there, but its sha256 is not [0-9a-f]{64}: move it away to fetch it"):
        fetch(KNOWN)
    done = data("mine", "--fetch")
    assert done.exit_code == 2
    assert "move it away to fetch it" in said(done)
    assert path.read_bytes() == b"mine"


def test_without_a_network_it_is_one_sentence(folder: Path, origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "RAW", "http://127.0.0.1:9")  # nobody listens there
    done = data("mine", "--fetch")
    assert done.exit_code == 2
    assert re.search(
        r"error: http://127\.0\.0\.1:9/owner/repo/0+/data/trace_conv\.csv could not be fetched \(.+\): is there a "
        r"network\? Or get https://github\.com/owner/repo/blob/0+/data/trace_conv\.csv by other means and put it into ",
        said(done),
    )
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"reshaped": True}, "it is no copy of a public file"), ({"sha256": None}, "its sha256 is not known")],
)
def test_what_cannot_be_verified_is_not_fetched(folder: Path, origin: Path, changes: dict[str, Any], why: str) -> None:
    file = evolve(KNOWN, **changes)
    assert not file.can_be_fetched
    with pytest.raises(WorkloadError, match=f"mine/trace_conv.csv is not fetched, for {why}: .*{file.page}"):
        fetch(file)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCHEDSPEC_DATA", str(tmp_path / "file"))
    done = data("mine", "--fetch")
    assert done.exit_code == 2
    assert re.search(
        r"nothing can be put into .*/file/mine \(.*\): set SCHEDSPEC_DATA to a folder of yours", said(done)
    )


@pytest.fixture
def server() -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/trace":
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_a_server_is_asked(folder: Path, server: str) -> None:
    sizes: list[int] = []
    assert fetch(KNOWN, f"{server}/trace", sizes.append).read_bytes() == CONTENT
    assert sizes == [len(CONTENT)]


def test_a_server_that_has_it_not_is_told_by_its_status(folder: Path, server: str) -> None:
    with pytest.raises(WorkloadError, match=r"/nothing could not be fetched \(status 404\): is there a network\?"):
        fetch(KNOWN, f"{server}/nothing")
    assert list((folder / "mine").iterdir()) == []
