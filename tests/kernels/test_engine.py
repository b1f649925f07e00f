"""The engine by itself: its logits are the dense model's, checkpoints are loaded, and what it cannot run is one
sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the engine needs torch: `make kernels` installs it")
pytest.importorskip("triton", reason="the engine needs triton: `make kernels` installs it")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: `make kernels` installs it")

import torch
from attrs import evolve
from safetensors.torch import load_file, save_file

from schedspec.optimized.engine import CheckpointError, EngineError, ModelConfig
from schedspec.optimized.engine.config import config_json, config_of
from schedspec.optimized.engine.dense import dense_logits
from schedspec.optimized.engine.engine import Engine
from schedspec.optimized.engine.model import Model
from schedspec.optimized.engine.operations import plain
from schedspec.optimized.engine.pool import Pool
from schedspec.optimized.engine.sampling import Sampling, gumbel, sample
from schedspec.optimized.engine.weights import random_tensors, save_checkpoint
from schedspec.spec.vocabulary import Plan, Request

from .served import CONFIG, model_of

torch.set_num_threads(1)
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4)
SHAPES = {
    "one layer": CONFIG,
    "odd sizes": ModelConfig(vocabulary=31, hidden=21, layers=2, heads=6, kv_heads=2, head_dim=6, mlp=11, positions=64),
    "a key head for each": ModelConfig(vocabulary=17, hidden=8, layers=3, heads=2, kv_heads=2, mlp=9, positions=64),
    "tied, one key head": ModelConfig(
        vocabulary=40, hidden=12, layers=1, heads=3, kv_heads=1, mlp=40, positions=64, tied=True, rope_theta=500.0
    ),
}
ERROR = {torch.float32: 5e-6, torch.bfloat16: 0.1}
"""Most that a logit, of size 1 as a rule and beyond 10 where the head is the embedding, may differ from that in
float64.  Weights of bfloat16 are rounded for both."""


def alone(model: Model, chunks: tuple[int, ...], outputs: int = 4) -> tuple[list[int], Any]:
    """All tokens of a request, and the logits of its outputs."""
    engine = Engine(model, 9, 3)
    engine.submit(Request(id="a", prompt_ids=PROMPT, max_output_tokens=outputs))
    engine.hear([("took", "a", [3, 1, 7, 5, 2, 0, 4, 8])])
    start, logits = 0, []
    for step, tokens in enumerate((*chunks, *[1] * (outputs - 1))):
        ends = start + tokens >= len(PROMPT)
        told = engine.execute(Plan(step=1 + step, request=["a"], start=[start], tokens=[tokens], samples=[int(ends)]))
        logits += list(told.logits)
        start += tokens
    return engine.sequences["a"].tokens, torch.stack(logits)


@pytest.mark.parametrize("dtype", ERROR, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_the_dense_model_in_float64(shape: str, dtype: Any) -> None:
    config = SHAPES[shape]
    for seed in range(2):
        tensors = {name: tensor.to(dtype) for name, tensor in random_tensors(config, seed).items()}
        tokens, logits = alone(Model.of(config, tensors, dtype=dtype), (20,))
        assert torch.equal(logits, alone(Model.of(config, tensors, dtype=dtype), (3, 1, 9, 7))[1])
        expected = dense_logits(config, tensors, tokens[:-1])[len(PROMPT) - 1 :]
        assert float((logits.double() - expected).abs().max()) < ERROR[dtype]


@pytest.mark.parametrize("change", [{"rope_theta": 9_000.0}, {"epsilon": 1e-2}], ids=str)
def test_the_error_is_far_below_what_a_small_change_does(change: dict[str, Any]) -> None:
    tensors = random_tensors(CONFIG, 0)
    tokens, logits = alone(Model.of(evolve(CONFIG, **change), tensors), (20,))
    expected = dense_logits(CONFIG, tensors, tokens[:-1])[len(PROMPT) - 1 :]
    assert float((logits.double() - expected).abs().max()) > 20 * ERROR[torch.float32]


# --- sampling ----------------------------------------------------------------------------------------------


def test_tokens_are_drawn_as_often_as_their_probabilities_say() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    drawn = [sample(logits, Sampling(temperature=0.7, seed=seed), 5) for seed in range(2_000)]
    expected = torch.softmax(logits / 0.7, 0)
    shares = torch.bincount(torch.tensor(drawn), minlength=4) / len(drawn)
    assert float((shares - expected).abs().max()) < 0.04


def test_the_greedy_token_is_the_first_of_equals() -> None:
    assert sample(torch.tensor([0.0, 2.0, 2.0]), Sampling(), 0) == 1
    assert not torch.equal(gumbel(1, 2, 8), gumbel(1, 3, 8))
    assert not torch.equal(gumbel(1, 2, 8), gumbel(2, 2, 8))
    assert bool(torch.isfinite(gumbel(0, 0, 10_000)).all())


@pytest.mark.parametrize("temperature", [-1.0, float("nan"), float("inf")])
def test_a_temperature_is_a_number(temperature: float) -> None:
    with pytest.raises(EngineError, match=r"temperature is .*, but must be 0 \(greedy\) or more"):
        Sampling(temperature=temperature)


# --- checkpoints -------------------------------------------------------------------------------------------


def test_a_checkpoint_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    for name, config in SHAPES.items():
        tensors = random_tensors(config, 3)
        save_checkpoint(tmp_path / name, config, tensors)
        model = Model.load(tmp_path / name)
        assert model.config == config
        assert torch.equal(alone(model, (20,))[1], alone(Model.of(config, tensors), (20,))[1])


def test_a_checkpoint_may_lie_in_several_files(tmp_path: Path) -> None:
    tensors = random_tensors(CONFIG, 3)
    save_checkpoint(tmp_path, CONFIG, tensors)
    names = sorted(tensors)
    (tmp_path / "model.safetensors").unlink()
    files = {"one.safetensors": names[:4], "two.safetensors": names[4:]}
    for file, own in files.items():
        save_file({name: tensors[name] for name in own}, tmp_path / file)
    index = {"weight_map": {name: file for file, own in files.items() for name in own}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert torch.equal(alone(Model.load(tmp_path), (20,))[1], alone(model_of(seed=3), (20,))[1])


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        told = json.loads((folder / "config.json").read_text())
        change(told)
        (folder / "config.json").write_text(json.dumps(told))

    return edit


def with_tensors(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return edit


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "has no config.json: give the folder of a checkpoint"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "config.json is not JSON"),
    "no object": (lambda f: (f / "config.json").write_text("[]"), "config.json is not a JSON object, but list"),
    "another architecture": (
        edited(lambda told: told.update(architectures=["MixtralForCausalLM"])),
        "is of architecture MixtralForCausalLM, but this engine runs LlamaForCausalLM only",
    ),
    "biases": (
        edited(lambda told: told.update(attention_bias=True)),
        "attention_bias True, but this engine computes False",
    ),
    "scaled positions": (
        edited(lambda told: told.update(rope_scaling={"rope_type": "llama3"})),
        "scales positions by 'llama3', but this engine knows plain rotary positions only",
    ),
    "scaled as a word": (edited(lambda told: told.update(rope_scaling="linear")), "scales positions by 'linear'"),
    "a part is turned": (
        edited(lambda told: told.update(partial_rotary_factor=0.5)),
        "partial_rotary_factor 0.5, but this engine computes 1.0 only",
    ),
    "quantized": (
        edited(lambda told: told.update(quantization_config={"quant_method": "gptq"})),
        "has a quantization_config, but quantized weights are not read",
    ),
    "no base": (edited(lambda told: told.update(rope_theta="big")), "rope_theta is 'big', but must be a number above"),
    "no epsilon": (edited(lambda told: told.update(rms_norm_eps=float("nan"))), "rms_norm_eps is nan, but must be a"),
    "a width in letters": (edited(lambda told: told.update(head_dim="6")), "head_dim is '6', but must be a whole"),
    "neither true nor false": (
        edited(lambda told: told.update(tie_word_embeddings="false")),
        "tie_word_embeddings is 'false', but must be true or false",
    ),
    "a head of its own that is tied": (
        edited(lambda told: told.update(tie_word_embeddings=True)),
        "lm_head.weight is not model.embed_tokens.weight, but config.json says tie_word_embeddings",
    ),
    "a billion layers": (
        edited(lambda told: told.update(num_hidden_layers=10**9)),
        "the checkpoint has 12 tensors in all, but config.json asks for 1000000000 layers",
    ),
    "deep JSON": (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json is not JSON"),
    "half a file": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        "cannot be read as safetensors",
    ),
    "a bias": (
        with_tensors(lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(16)})),
        "the checkpoint has model.layers.0.self_attn.q_proj.bias, which a model of this config.json has no place for",
    ),
    "whole numbers": (
        with_tensors(lambda tensors: tensors.update({"model.norm.weight": torch.ones(16, dtype=torch.int8)})),
        "model.norm.weight is of torch.int8, but quantized weights are not read",
    ),
    "no number": (
        with_tensors(lambda tensors: tensors["model.norm.weight"].fill_(torch.nan)),
        "model.norm.weight has numbers that are not finite",
    ),
    "an index of numbers": (
        lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": 3}}'),
        "names 3, but must name files beside it",
    ),
    "an index of other folders": (
        lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../b.safetensors"}}'),
        "names '../b.safetensors', but must name files beside it",
    ),
    "no size": (edited(lambda told: told.pop("hidden_size")), "hidden_size is None, but must be a whole number"),
    "half a layer": (edited(lambda told: told.update(num_hidden_layers=0.5)), "num_hidden_layers is 0.5, but must be"),
    "heads": (edited(lambda told: told.update(num_key_value_heads=3)), "4 heads cannot share 3 key heads evenly"),
    "an odd head": (edited(lambda told: told.update(head_dim=3)), "head_dim is 3, but rotary positions turn pairs"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has neither model.safetensors nor"),
    "not safetensors": (lambda f: (f / "model.safetensors").write_bytes(b"nothing"), "cannot be read as safetensors"),
    "an index of nothing": (
        lambda f: (f / "model.safetensors.index.json").write_text("{}"),
        "is no index of files: it needs an object weight_map",
    ),
    "an index of a missing file": (
        lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}'),
        "b.safetensors cannot be read as safetensors",
    ),
    "a tensor is missing": (
        with_tensors(lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight")),
        "the checkpoint lacks model.layers.0.mlp.up_proj.weight: config.json asks for 1 layers",
    ),
    "a layer is missing": (
        edited(lambda told: told.update(num_hidden_layers=2)),
        "the checkpoint lacks model.layers.1.input_layernorm.weight and 8 more tensors: config.json asks for 2 layers",
    ),
    "a tensor too many": (
        with_tensors(lambda tensors: tensors.update(extra=torch.zeros(1))),
        "the checkpoint has extra, which a model of this config.json has no place for",
    ),
    "another vocabulary": (
        edited(lambda told: told.update(vocab_size=50)),
        "has shape (29, 16), but config.json asks for (50, 16): the vocabulary does not fit",
    ),
    "another hidden size": (
        edited(lambda told: told.update(hidden_size=17)),
        "has shape (29, 16), but config.json asks for (29, 17): it does not fit",
    ),
    "another width": (edited(lambda told: told.update(intermediate_size=13)), "asks for (13, 16): it does not fit"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_checkpoint_is_one_sentence(what: str, tmp_path: Path) -> None:
    change, says = BAD[what]
    save_checkpoint(tmp_path, CONFIG, random_tensors(CONFIG, 0))
    change(tmp_path)
    with pytest.raises(CheckpointError) as told:
        Model.load(tmp_path)
    assert says in str(told.value)
    assert "\n" not in str(told.value)


def test_names_that_old_and_new_files_use() -> None:
    told = config_json(CONFIG)
    assert config_of({**told, "rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}, "x").rope_theta == 7.0
    del told["num_key_value_heads"]
    assert config_of(told, "x").kv_heads == CONFIG.heads


# --- plans -------------------------------------------------------------------------------------------------

PLANS: dict[str, tuple[list[tuple[str, int, int]], str]] = {
    "a stranger": ([("x", 0, 1)], "step 1: x was never submitted to the engine, or has ended"),
    "twice": ([("a", 0, 1), ("a", 1, 1)], "step 1: a is in it twice"),
    "no tokens": ([("a", 0, 0)], "step 1: a runs positions 0 to 0, but has 4 tokens"),
    "beyond what is known": ([("a", 0, 5)], "step 1: a runs positions 0 to 5, but has 4 tokens"),
    "no block": (
        [("b", 0, 3)],
        "which need 2 blocks of 2, but its table is [1]: were all deltas handed to the engine?",
    ),
    "one place for two": ([("a", 0, 2), ("b", 0, 1)], "step 1: b and a both write offset 0 of block 1"),
}


@pytest.mark.parametrize("what", PLANS)
def test_a_plan_that_does_not_match_the_tables_is_one_sentence(what: str) -> None:
    entries, says = PLANS[what]
    engine = Engine(model_of(), 3, 2)
    for name, blocks in (("a", [1, 2]), ("b", [1])):
        engine.submit(Request(id=name, prompt_ids=[1, 2, 3, 4], max_output_tokens=2))
        engine.hear([("took", name, blocks)])
    request, start, tokens = zip(*entries, strict=True)
    before = engine.pool.kv.clone()
    with pytest.raises(EngineError) as told:
        engine.execute(Plan(step=1, request=request, start=start, tokens=tokens, samples=[0] * len(entries)))
    assert says in str(told.value)
    assert torch.equal(engine.pool.kv.nan_to_num(), before.nan_to_num())


def test_what_the_model_cannot_run_is_refused() -> None:
    engine = Engine(model_of(), 3, 2)
    with pytest.raises(EngineError, match="a has token 29, but the model's vocabulary has ids 0 to 28"):
        engine.submit(Request(id="a", prompt_ids=[1, 29], max_output_tokens=2))
    with pytest.raises(EngineError, match="a may become 200 tokens long, but the model has 128 positions"):
        engine.submit(Request(id="a", prompt_ids=[1] * 100, max_output_tokens=100))
    with pytest.raises(EngineError, match="a has block 3, but the engine's pool has 0 to 2"):
        engine.hear([("took", "a", [3])])
    engine.hear([("took", "a", [2])])
    with pytest.raises(EngineError, match=r"a gives \[1\] back, but its table is \[2\]"):
        engine.hear([("gave", "a", [1])])


def test_who_reads_what_nobody_wrote_is_told() -> None:
    engine = Engine(model_of(), 3, 2)
    engine.submit(Request(id="a", prompt_ids=[1, 2, 3], max_output_tokens=2))
    engine.hear([("took", "a", [0, 1])])
    with pytest.raises(EngineError, match="the logits of position 3 are not all finite: keys or values were read that"):
        engine.execute(Plan(step=1, request=["a"], start=[2], tokens=[1], samples=[1]))


def test_a_device_without_room_is_one_sentence() -> None:
    with pytest.raises(EngineError, match=r"a pool of \d+ blocks of 16 positions takes .* GiB.* free: ask for fewer"):
        Engine(model_of(), 1 << 40, 16)


def test_angles_without_room_are_one_sentence() -> None:
    with pytest.raises(EngineError, match=r"angles of 1000000000000 positions take .* GiB, but .* GiB are free: lower"):
        model_of(config=evolve(CONFIG, positions=10**12))


def test_a_device_that_is_full_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA says it: while weights go there, and in a step; then nothing is known of that step."""

    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nSee PYTORCH_CUDA_ALLOC_CONF")

    engine = Engine(model_of(), 3, 2)
    engine.submit(Request(id="a", prompt_ids=[1, 2, 3], max_output_tokens=2))
    engine.hear([("took", "a", [0, 1])])
    plan = Plan(step=1, request=["a"], start=[0], tokens=[3], samples=[1])
    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", full)
        with pytest.raises(EngineError, match="step 1: the device has no memory left for 3 tokens: ask for fewer"):
            engine.execute(plan)
    assert engine.execute(plan).request == ("a",)
    monkeypatch.setattr(torch.Tensor, "to", full)
    with pytest.raises(EngineError, match=r"cpu has no room for 0\.0 GiB of weights: take a smaller model"):
        model_of()


# --- two pools ---------------------------------------------------------------------------------------------


def test_a_request_moves_to_another_pool_and_goes_on() -> None:
    """To the host and back to other blocks, as a swap does: the next logits are the same."""
    model = model_of()
    stayed = alone(model, (20,))[1][1]
    engine = Engine(model, 9, 3)
    host = Pool.of(CONFIG, 8, 3, torch.float32, "cpu")
    request = Request(id="a", prompt_ids=PROMPT, max_output_tokens=4)
    engine.submit(request)
    engine.hear([("took", "a", [3, 1, 7, 5, 2, 0, 4])])
    engine.execute(Plan(step=1, request=["a"], start=[0], tokens=[20], samples=[1]))
    engine.pool.copy_to(host, list(zip([3, 1, 7, 5, 2, 0, 4], range(7), strict=True)), plain())
    engine.pool.kv.fill_(torch.nan)
    back = [8, 6, 0, 1, 2, 3, 7]
    host.copy_to(engine.pool, list(enumerate(back)), plain())
    engine.hear([("gave", "a", [3, 1, 7, 5, 2, 0, 4]), ("took", "a", back)])
    told = engine.execute(Plan(step=2, request=["a"], start=[20], tokens=[1], samples=[1]))
    assert torch.equal(told.logits[0], stayed)


def test_a_copy_to_nowhere_is_refused() -> None:
    here, there = Pool.of(CONFIG, 2, 3, torch.float32, "cpu"), Pool.of(CONFIG, 2, 4, torch.float32, "cpu")
    with pytest.raises(EngineError, match="between pools of one model and block size only"):
        here.copy_to(there, [(0, 0)], plain())
    with pytest.raises(EngineError, match="a copy from block 2, but that pool has blocks 0 to 1"):
        here.copy_to(here, [(2, 0)], plain())
