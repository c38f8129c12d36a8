"""A saved model comes back exact, or with a reason."""

from pathlib import Path

import pytest
import torch
from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadPlan
from headtune.surgery import apply, find_sites
from headtune.surgery.checkpoint import Skeleton, load_checkpoint, read_skeleton, save_checkpoint

INPUTS = (torch.randn(3, 5, 16),)


def build() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def planned(skeleton: Skeleton) -> nn.Module:
    return apply(build(), skeleton.plan, INPUTS)


@pytest.mark.parametrize(("hold", "text"), [("width", "*=8"), ("head_dim", "layers.0.*=1 layers.1.*=3")])
def test_saved_is_loaded_bit_for_bit(tmp_path: Path, hold: str, text: str) -> None:
    sites = find_sites(build(), INPUTS)
    skeleton = Skeleton(
        plan=HeadPlan.parse(text, sites, hold=hold),  # type: ignore[arg-type]
        hold=hold,  # type: ignore[arg-type]
        params={"lr": 0.1},
    )
    model = planned(skeleton)
    save_checkpoint(model, tmp_path / "model", skeleton)
    assert read_skeleton(tmp_path / "model") == skeleton
    loaded = load_checkpoint(tmp_path / "model", planned)
    assert torch.equal(loaded.eval()(*INPUTS), model.eval()(*INPUTS))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no saved model .* it needs plan.json and model.safetensors"):
        read_skeleton(tmp_path)


def test_tensors_of_another_skeleton_are_refused(tmp_path: Path) -> None:
    sites = find_sites(build(), INPUTS)
    skeleton = Skeleton(plan=HeadPlan.parse("*=2", sites, hold="head_dim"), hold="head_dim", params={})
    save_checkpoint(planned(skeleton), tmp_path, skeleton)
    with pytest.raises(StorageError, match="the tensors do not fit the skeleton"):
        load_checkpoint(tmp_path, lambda _: build())


def test_a_file_in_the_way_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    skeleton = Skeleton(plan=HeadPlan.present(find_sites(build(), INPUTS)), hold="width", params={})
    with pytest.raises(StorageError, match="the model cannot be written"):
        save_checkpoint(build(), tmp_path / "taken", skeleton)
