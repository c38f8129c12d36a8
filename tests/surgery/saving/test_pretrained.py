"""Models of transformers keep their plan in their configuration, and nothing loads them as if they had none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import apply_plan, find_sites, load, save
from headtune.surgery.pruning import prune
from headtune.surgery.saving.pretrained import is_pretrained, is_pretrained_class

transformers = pytest.importorskip("transformers")

INPUTS = {"input_ids": torch.arange(14).reshape(2, 7), "attention_mask": torch.ones(2, 7, dtype=torch.long)}
INPUTS["attention_mask"][1, 5:] = 0
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
NAMES = ["BertModel", "GPT2LMHeadModel", "LlamaForCausalLM", "GPTNeoXModel", "AlbertModel"]
REFUSAL = "headtune changed the attention of this model; load it with headtune.load(folder, ModelClass)"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    yield
    transformers.logging.set_verbosity(level)


def made(name: str, **options: object) -> Any:
    cls = getattr(transformers, name)
    config = cls.config_class(vocab_size=20, bos_token_id=0, eos_token_id=0, **{**SIZES, **options})
    return cls(config).eval()


def reheaded(model: Any) -> Any:
    sites = find_sites(model, INPUTS)
    plan = HeadPlan.of({site.path: HeadCount(2, 2, 12) for site in sites})
    return apply_plan(model, plan, INPUTS, hold="width")


def pruned(model: Any) -> Any:
    return prune(model, {site.path: range(1, site.num_heads) for site in find_sites(model, INPUTS)}, INPUTS)


def output(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        value: torch.Tensor = model(**INPUTS)[0]
    return value


def same(left: nn.Module, right: nn.Module) -> bool:
    ours, theirs = left.state_dict(), right.state_dict()
    tensors = ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    return tensors and torch.equal(output(left), output(right))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attention", ["sdpa", pytest.param("eager", marks=pytest.mark.slow)])
def test_both_ways_of_saving_come_back_to_the_last_bit(tmp_path: Path, name: str, attention: str) -> None:
    model = made(name, attn_implementation=attention)
    cls = type(model)
    for number, changed in enumerate((model, reheaded(model), pruned(model), pruned(reheaded(model)))):
        save(changed, tmp_path / f"{number}-ours")
        loaded = load(tmp_path / f"{number}-ours", cls)
        assert type(loaded) is cls
        assert same(loaded, changed)
        assert same(load(tmp_path / f"{number}-ours", lambda: made(name, attn_implementation=attention)), changed)
        if changed is model:
            assert same(cls.from_pretrained(tmp_path / f"{number}-ours", attn_implementation=attention), changed)
            continue
        changed.save_pretrained(tmp_path / f"{number}-own")
        loaded = load(tmp_path / f"{number}-own", cls)
        assert same(loaded, changed)
        assert HeadPlan.present(find_sites(loaded, INPUTS)) == HeadPlan.present(find_sites(changed, INPUTS))
        loaded.save_pretrained(tmp_path / f"{number}-again")  # type: ignore[operator]
        assert same(load(tmp_path / f"{number}-again", cls), changed)


@pytest.mark.parametrize("change", [reheaded, pruned])
@pytest.mark.parametrize("options", [{}, {"attn_implementation": "eager"}, {"ignore_mismatched_sizes": True}], ids=str)
def test_a_plain_from_pretrained_does_not_revert_the_plan_in_silence(
    tmp_path: Path, change: Any, options: dict[str, Any]
) -> None:
    model = change(made("BertModel"))
    save(model, tmp_path / "ours")
    model.save_pretrained(tmp_path / "own")
    for folder in (tmp_path / "ours", tmp_path / "own"):
        for cls in (transformers.BertModel, transformers.AutoModel, transformers.BertForSequenceClassification):
            with pytest.raises(ValueError, match=REFUSAL.replace("(", r"\(").replace(")", r"\)")):
                cls.from_pretrained(folder, **options)
        with pytest.raises(ValueError, match="headtune changed the attention"):
            transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder))


def test_without_the_marks_it_would(tmp_path: Path) -> None:
    """What the marks guard against: the same tensors under the old counts."""
    model = reheaded(made("BertModel"))
    model.save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    for key in ("headtune", "fusion_config", "attn_implementation"):
        del content[key]
    (tmp_path / "config.json").write_text(json.dumps(content))
    reverted = transformers.BertModel.from_pretrained(tmp_path)
    assert find_sites(reverted, INPUTS)[0].num_heads == 4
    assert not torch.equal(output(reverted), output(model))


def test_other_tools_still_read_the_configuration(tmp_path: Path) -> None:
    reheaded(made("BertModel")).save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert type(config) is transformers.BertConfig
    assert config.headtune["modules"]["encoder.layer.0.attention.self"]["count"] == [2, 2, 12]
    config.save_pretrained(tmp_path / "again")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "again").headtune == config.headtune


def test_the_original_and_its_configuration_know_nothing() -> None:
    model = made("BertModel")
    config, before = model.config, model.config.to_dict()
    changed = reheaded(model)
    assert model.config is config
    assert config.to_dict() == before
    assert {id(module.config) for module in changed.modules() if vars(module).get("config") is changed.config} == {
        id(changed.config)
    }
    twin = transformers.BertModel(config)
    plan = HeadPlan.of({site.path: HeadCount(2, 2, 12) for site in find_sites(model, INPUTS)})
    apply_plan(model, plan, INPUTS, hold="width", copy=False)
    assert hasattr(model.config, "headtune")
    assert not hasattr(twin.config, "headtune")


def test_a_plan_that_changes_nothing_leaves_an_ordinary_model(tmp_path: Path) -> None:
    model = made("BertModel")
    plan = HeadPlan.present(find_sites(model, INPUTS))
    unchanged = apply_plan(model, plan, INPUTS, hold="width")
    unchanged.save_pretrained(tmp_path)  # type: ignore[operator]
    assert same(transformers.BertModel.from_pretrained(tmp_path), model)
    assert same(load(tmp_path, transformers.BertModel), model)


def test_half_precision_and_mixed_types_come_back(tmp_path: Path) -> None:
    model = reheaded(made("LlamaForCausalLM")).to(torch.bfloat16)
    save(model, tmp_path / "half")
    loaded = load(tmp_path / "half", transformers.LlamaForCausalLM)
    assert same(loaded, model)
    assert loaded.get_buffer("model.rotary_emb.inv_freq").dtype == torch.bfloat16
    model = reheaded(made("BertModel")).to(torch.bfloat16)
    model.embeddings.float()
    save(model, tmp_path / "mixed")
    kinds = {name: tensor.dtype for name, tensor in model.state_dict().items()}
    loaded = load(tmp_path / "mixed", transformers.BertModel)
    assert {name: tensor.dtype for name, tensor in loaded.state_dict().items()} == kinds
    assert all(torch.equal(loaded.state_dict()[name], tensor) for name, tensor in model.state_dict().items())


def test_tied_weights_and_shards_come_back(tmp_path: Path) -> None:
    model = pruned(made("GPT2LMHeadModel"))
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    loaded = load(tmp_path, transformers.GPT2LMHeadModel)
    assert same(loaded, model)
    assert loaded.get_parameter("lm_head.weight") is loaded.get_parameter("transformer.wte.weight")
    save(model, tmp_path)
    assert not list(tmp_path.glob("model-*"))
    assert same(load(tmp_path, transformers.GPT2LMHeadModel), model)


def test_a_changed_part_of_a_larger_model_is_saved_with_it(tmp_path: Path) -> None:
    whole = made("BertForSequenceClassification")
    whole.bert = reheaded(whole.bert)
    save(whole, tmp_path)
    assert same(load(tmp_path, transformers.BertForSequenceClassification), whole)


def test_another_class_is_refused_with_every_tensor(tmp_path: Path) -> None:
    reheaded(made("BertModel")).save_pretrained(tmp_path)
    with pytest.raises(StorageError) as caught:
        load(tmp_path, transformers.GPT2Model)
    assert str(caught.value) == f"{tmp_path} holds a bert model, saved from BertModel; GPT2Model is of the type gpt2"
    with pytest.raises(StorageError) as caught:
        load(tmp_path, transformers.BertForSequenceClassification)
    assert str(caught.value) == (
        f"{tmp_path} was saved from BertModel, and BertForSequenceClassification has other modules or tensors: "
        "load it with headtune.load(folder, BertModel)"
    )
    with pytest.raises(StorageError) as caught:
        load(tmp_path, transformers.AutoModelForSequenceClassification)
    assert str(caught.value) == (
        f"{tmp_path} was saved from BertModel, and AutoModelForSequenceClassification is no model: "
        "load it with headtune.load(folder, BertModel)"
    )
    made("BertModel").save_pretrained(tmp_path / "plain")
    content = json.loads((tmp_path / "plain" / "config.json").read_text())
    (tmp_path / "plain" / "config.json").write_text(json.dumps({**content, "vocab_size": 21, "num_hidden_layers": 1}))
    with pytest.raises(StorageError) as caught:
        load(tmp_path / "plain", transformers.BertModel)
    problems = caught.value.problems
    assert f"{tmp_path / 'plain'}: embeddings.word_embeddings.weight is (20, 24), but (21, 24) in BertModel" in problems
    assert sum("encoder.layer.1." in problem for problem in problems) == 16
    assert len(problems) == 17


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no saved transformers model .* it needs config.json"):
        load(tmp_path, transformers.BertModel)
    made("BertModel").save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(StorageError, match=r"BertModel.from_pretrained raised OSError: "):
        load(tmp_path, transformers.BertModel)


def test_classes_are_told_apart() -> None:
    assert is_pretrained(made("BertModel"))
    assert not is_pretrained(nn.Linear(1, 1))
    assert is_pretrained_class(transformers.BertModel)
    assert not any(map(is_pretrained_class, (nn.Linear, transformers.AutoModel, lambda: None)))


def test_a_class_that_draws_pytorchs_own_block_finds_another(tmp_path: Path) -> None:
    sizes = {**SIZES, "image_size": 8, "patch_size": 4}
    model = transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**sizes)).eval()
    image = (torch.randn(2, 3, 8, 8),)
    cut = prune(model, {site.path: [0, 2, 3] for site in find_sites(model, image)}, image)
    save(cut, tmp_path / "model")
    loaded = load(tmp_path / "model", transformers.SiglipVisionModel).eval()
    with torch.no_grad():
        assert torch.equal(loaded(*image)[1], cut(*image)[1])


def test_a_model_without_values_is_not_saved(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = made("BertModel")
    with pytest.raises(StorageError) as caught:
        save(model, tmp_path / "model")
    assert str(caught.value) == (
        "embeddings.word_embeddings.weight has no values: it is on the meta device; load the model first"
    )


def test_whatever_is_damaged_is_told_in_words(tmp_path: Path) -> None:
    save(reheaded(made("LlamaForCausalLM")), tmp_path)

    def refused() -> str:
        with pytest.raises(StorageError) as caught:
            load(tmp_path, transformers.LlamaForCausalLM)
        return caught.value.problems[0]

    for name in ("model.safetensors", "buffers.safetensors", "plan.json"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:50])
        assert refused().startswith(str(tmp_path / name if name != "plan.json" else tmp_path))
        (tmp_path / name).unlink()
        if name == "buffers.safetensors":
            assert refused().startswith(str(tmp_path / name))
        (tmp_path / name).write_bytes(whole)
    whole = (tmp_path / "config.json").read_bytes()
    content = json.loads(whole)
    for change in (
        {"headtune": []},
        {"headtune": {"modules": []}},
        {"headtune": {"modules": {"model": 5}}},
        {"headtune": {"modules": {"model": {"attributes": 5}}}},
        {"hidden_size": "wide"},
        {"num_hidden_layers": -1},
        {"model_type": None, "architectures": 5},
    ):
        (tmp_path / "config.json").write_text(json.dumps({**content, **change}))
        assert refused().startswith(str(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    assert refused() == f"{tmp_path / 'config.json'}: must hold a mapping (got []); save the model again"
    (tmp_path / "config.json").write_bytes(whole)
    load(tmp_path, transformers.LlamaForCausalLM)


def test_weights_that_merely_lie_there_are_not_read(tmp_path: Path) -> None:
    model = made("BertModel").double()
    save(model, tmp_path)
    other = {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in model.state_dict().items()}
    for name in ("model_best.safetensors", "zeros.safetensors"):
        save_file(other, tmp_path / name)
    loaded = load(tmp_path, transformers.BertModel)
    assert same(loaded, model)
    assert {tensor.data_ptr() % 64 for tensor in (*loaded.parameters(), *loaded.buffers())} == {0}
