"""vLLM as a subject, as far as it can be tested without vLLM."""

import importlib.metadata

import pytest
from click.testing import CliRunner

from schedspec.cli import cli
from schedspec.conformance.subjects import vllm_release
from schedspec.conformance.subjects.installed import ANY_VERSION
from schedspec.conformance.subjects.resolve import UnknownSubject
from schedspec.conformance.subjects.vllm import _longest, _refuse
from schedspec.spec.vocabulary import Settings, Unsupported


def installed(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def find(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", find)
    vllm_release.vllm.cache_clear()


def test_missing_is_one_sentence_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    result = CliRunner().invoke(cli, ["check", "vllm"])
    assert result.exit_code == 2


def test_missing_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    with pytest.raises(UnknownSubject, match="not installed in this environment: `make vllm`"):
        vllm_release.vllm()


def test_another_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "0.99.0")
    monkeypatch.delenv(ANY_VERSION, raising=False)
    with pytest.raises(UnknownSubject, match=r"vLLM 0\.99\.0 is installed, but this adapter knows 0\.33\.0"):
        vllm_release.vllm()


def test_another_version_may_be_tried_and_an_import_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "0.99.0")
    monkeypatch.setenv(ANY_VERSION, "1")

    def fails(version: str) -> None:
        raise ImportError("no module\n'torch'")

    monkeypatch.setattr(vllm_release, "_imported", fails)
    with pytest.raises(UnknownSubject, match="cannot be used, since it raised ImportError: no module 'torch'"):
        vllm_release.vllm()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (Settings(at_blocked_head="skip"), "at_blocked_head"),
        (Settings(policy="priority"), "victim"),
        (Settings(reserve="declared"), "reserve"),
        (Settings(overlap_depth=3), "overlap_depth"),
        (Settings(seats=9, token_budget=8), "seats"),
        (Settings(chunk_tokens=4, chunked_prefill=False), "chunk_tokens"),
        (Settings(max_prompt_tokens=5), "max_prompt_tokens"),
    ],
)
def test_what_it_does_not_honour_it_refuses_by_name(settings: Settings, name: str) -> None:
    with pytest.raises(Unsupported) as refused:
        _refuse(settings, raw=False)
    assert refused.value.setting == name


def test_the_class_alone_takes_more_seats_than_the_front_end() -> None:
    _refuse(Settings(seats=9, token_budget=8), raw=True)


def test_the_context_fits_into_the_pool_less_the_null_block() -> None:
    assert _longest(Settings(blocks=5, block_size=2)) == 8
    assert _longest(Settings(blocks=5, block_size=2, max_model_tokens=7)) == 7
    assert _longest(Settings(blocks=50, block_size=2, token_budget=6, chunked_prefill=False)) == 6
