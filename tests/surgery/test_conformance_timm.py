"""The same for timm, which may live in an environment of its own: it needs torchvision."""

import warnings
from pathlib import Path
from types import ModuleType

import pytest

from headtune.surgery import Case, Finding, conformance, find_sites

pytestmark = pytest.mark.slow

ALL = ("found", "re-head", "resize", "prune", "merge", "save/load")
SAYS_NOTHING_OF_KV_HEADS = (
    "{} has no attribute that holds its key/value heads; store them, as in self.num_kv_heads, and let forward repeat "
    "each for the heads that share it"
)
NOT_FOLLOWED = (
    "attn: its heads are gated, normalised or mixed before attn.proj.weight reads them, so that they cannot be "
    "followed; keep all its heads"
)


@pytest.fixture(scope="module")
def families() -> ModuleType:
    pytest.importorskip("timm")
    from families import of_timm

    return of_timm


def findings(families: ModuleType, name: str, folder: Path) -> dict[str, Finding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return conformance(named(families, name), folder)


def named(families: ModuleType, name: str) -> Case:
    return next(case for case in families.cases() if case.name == name)


def refusals(found: dict[str, Finding]) -> dict[str, str]:
    assert tuple(found) == ALL
    return {column: one.words for column, one in found.items() if not one.proven}


@pytest.mark.parametrize("name", ["timm ViT", "timm ViT, unfused attention"])
def test_a_vision_transformer_proves_all_but_merging(families: ModuleType, name: str, tmp_path: Path) -> None:
    found = findings(families, name, tmp_path)
    assert refusals(found) == {"merge": f"blocks.0.attn: {SAYS_NOTHING_OF_KV_HEADS.format('Attention')}"}
    assert "bitwise as if built so" in found["re-head"].words


def test_norms_of_queries_and_keys_hold_head_dim(families: ModuleType, tmp_path: Path) -> None:
    assert refusals(findings(families, "timm ViT, qk_norm", tmp_path)) == {
        "re-head": "blocks.0.attn: q_norm normalises over the 6 features of a head; hold head_dim instead",
        "merge": f"blocks.0.attn: {SAYS_NOTHING_OF_KV_HEADS.format('Attention')}",
    }


@pytest.mark.parametrize("name", ["timm Attention, scale_norm", "timm Attention, gated"])
def test_norms_and_gates_over_all_heads_hold_them(families: ModuleType, name: str, tmp_path: Path) -> None:
    refused = refusals(findings(families, name, tmp_path))
    assert set(refused) == {"resize", "prune", "merge"}
    assert refused["prune"] == refused["merge"] == NOT_FOLLOWED


def test_swin_has_a_table_of_biases(families: ModuleType, tmp_path: Path) -> None:
    refused = refusals(findings(families, "timm Swin", tmp_path))
    assert set(refused) == {"re-head", "resize", "prune", "merge"}
    for column in ("re-head", "resize"):
        assert refused[column].endswith(
            "; relative_position_bias_table (9, 4) is a table for 4 heads; keep the number of heads"
        )
    assert refused["prune"].endswith(
        "; relative_position_bias_table (9, 4) is a table for 4 heads, of which none can go: leave them as they are"
    )


def test_talking_heads_are_no_site_and_said_so(families: ModuleType) -> None:
    case = named(families, "timm CaiT, talking heads but in the last layer")
    with pytest.warns(UserWarning, match=r"blocks\.0\.attn weights values by a softmax that is not one of query-key"):
        sites = find_sites(case.build().eval(), case.inputs)
    assert [site.path for site in sites] == ["blocks_token_only.0.attn"]


def test_what_stands_beside_talking_heads_is_changed(families: ModuleType, tmp_path: Path) -> None:
    refused = refusals(findings(families, "timm CaiT, talking heads but in the last layer", tmp_path))
    assert set(refused) == {"resize", "prune", "merge"}  # its forward reads the width off one token of its input
