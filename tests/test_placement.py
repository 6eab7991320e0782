"""Devices and precision: a model is where it was asked to be, and says in one line if it cannot."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_models import llama
from small_models import bert, byte_level

from probing.models import placement
from probing.models.errors import ModelError
from probing.models.placement import device_of, devices
from probing.models.pretrained import load_model, untrained_like
from probing.states.fingerprint import fingerprint

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(scope="module")
def tokenizer(sentiment: Any) -> Any:
    return byte_level(sentiment["train"]["text"][:500])


@pytest.fixture(scope="module")
def encoder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("encoder")
    bert(len(tokenizer)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def decoder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("decoder")
    llama(tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def output(model: Any, tokenizer: Any) -> Any:
    inputs = tokenizer(["my dog is nice", "the cow"], return_tensors="pt", padding=True)
    with torch.no_grad():
        return model(**inputs)[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_model_has_the_precision_that_was_asked_for(
    encoder: str, tokenizer: Any, tmp_path: Path, dtype: torch.dtype
) -> None:
    name = str(dtype).removeprefix("torch.")
    model, _ = load_model(encoder, dtype=name, head="classifier")
    assert {weights.dtype for weights in model.parameters()} == {dtype}
    exact = output(load_model(encoder, head="classifier")[0], tokenizer)
    # Sums of 32 products: a few roundings.
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        output(model, tokenizer).float(), exact, atol=20 * eps, rtol=20 * eps
    )
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_model(str(tmp_path), dtype="auto")[0].dtype == dtype, "as its files have it"
    assert load_model(str(tmp_path))[0].dtype == torch.float32, "the default"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dtype": "float8"},
            "'float8' is not a dtype; use one of float32, bfloat16, float16, auto",
        ),
        ({"device": "gpu"}, "'gpu' is not a device here.* sees .*cpu"),
        ({"device": "cuda:7"}, "'cuda:7' is not a device here.* sees .*cpu"),
        ({"device": "meta"}, "'meta' is not a device here"),
        ({"device_map": "somehow"}, "'somehow' is not a device map; use auto"),
        ({"device_map": "auto", "device": "cuda"}, "leave out 'cuda'"),
    ],
)
def test_what_is_not_there_is_one_clear_line(options: dict[str, Any], message: str) -> None:
    """Before anything is loaded: the model does not exist either."""
    with pytest.raises(ModelError, match=message) as error:
        load_model("./nowhere", **options)
    assert "\n" not in str(error.value)


def test_auto_takes_the_fastest_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert device_of("auto") == torch.device("cpu")
    with pytest.raises(ModelError, match="'mps' is not a device here"):
        device_of("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device_of("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices() == ["cuda", "cuda:0", "cuda:1", "mps", "cpu"]
    assert device_of("auto") == torch.device("cuda")
    assert device_of("cuda:1") == torch.device("cuda:1")


def test_a_model_is_moved_to_its_device(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device without memory stands for a GPU: no tensor may stay behind."""
    monkeypatch.setattr(placement, "devices", lambda: ["meta", "cpu"])
    model, _ = load_model(encoder, device="auto")
    control = untrained_like(model)
    for each in (model, control):
        assert not each.training
        tensors = [*each.parameters(), *each.buffers()]
        assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize("model_of", ["encoder", "decoder"])
def test_a_seed_gives_the_same_untrained_model_in_every_precision(
    model_of: str, request: pytest.FixtureRequest
) -> None:
    name = request.getfixturevalue(model_of)
    before = torch.random.get_rng_state()
    exact = untrained_like(load_model(name)[0], seed=3).state_dict()
    for dtype in ("bfloat16", "float16"):
        model, _ = load_model(name, dtype=dtype)
        control = untrained_like(model, seed=3)
        assert control.dtype == model.dtype
        for key, weights in control.state_dict().items():
            assert (weights == exact[key].to(model.dtype)).all(), key
        for (key, ours), (_, theirs) in zip(
            control.named_buffers(), model.named_buffers(), strict=True
        ):
            assert (ours == theirs).all(), f"{key}: rotary frequencies stay in float32"
            assert ours.dtype == theirs.dtype
    assert (torch.random.get_rng_state() == before).all(), "nobody else's numbers change"


def maps(decoder: str) -> list[Any]:
    n = load_model(decoder)[0].config.num_hidden_layers
    layers = {f"model.layers.{i}": "cpu" for i in range(n)}
    rest = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}
    return ["auto", {"": "cpu"}, rest | layers | {"lm_head": "cpu", "model.layers.1": "disk"}]


@pytest.mark.parametrize("which", range(3), ids=["auto", "cpu", "one layer on disk"])
def test_a_model_in_parts_gives_the_same_outputs(decoder: str, tokenizer: Any, which: int) -> None:
    whole, _ = load_model(decoder, head="language")
    device_map = maps(decoder)[which]
    model, _ = load_model(decoder, head="language", device_map=device_map, device="auto")
    assert not model.training
    if which == 2:
        assert model.model.layers[1].mlp.up_proj.weight.device.type == "meta", "not in memory"
    torch.testing.assert_close(output(model, tokenizer), output(whole, tokenizer))
    assert fingerprint(model) == fingerprint(whole), "wherever its weights are"
    control, whole = (untrained_like(each, seed=1) for each in (model, whole))
    torch.testing.assert_close(output(control, tokenizer), output(whole, tokenizer))
    if which == 2:
        assert control.hf_device_map == model.hf_device_map
        assert control.model.layers[1].mlp.up_proj.weight.device.type == "meta"
