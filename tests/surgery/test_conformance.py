"""What headtune can do to each architecture, against the table that is kept in the documentation.

``python tests/surgery/test_conformance.py`` writes that table, ``headtune/surgery/CONFORMANCE.md``. It needs timm,
whose families are tested only where it is installed: it wants torchvision, which brings the torch that goes with it.
The tests compare which cells are proven and which refused; sentences may change with versions.
"""

import re
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch
from families import of_torch

import headtune.surgery
from headtune.surgery import Case, Finding, conformance, find_sites

TABLE = Path(headtune.surgery.__file__).with_name("CONFORMANCE.md")
COLUMNS = ("found", "re-head", "resize", "prune", "merge", "save/load")
MUST_PROVE = ("BERT", "ViT", "GPT-2", "BART", "Llama", "nn.Transformer", "nanoGPT, fused projection", "timm ViT")
"""Families in which everything is proven."""

INTRODUCTION = """# Conformance

What headtune can do to each family of models, tried on a small member by `tests/surgery/test_conformance.py`, which
also writes this page. Check a family of your own with `headtune.surgery.conformance(Case(...), folder)`.

A proven cell was done, and compared: the re-headed model with the one that its author builds with that count, in the
last bit; the pruned one with the whole model whose heads have gates of zero, in float64; the merged one with the
model in which every head has its group's mean; the loaded one with the saved one, in the last bit. Every other cell is
a refusal, with the reason below. Where a block's own code has no word for shared key/value heads, as in nanoGPT, its
projection makes each once and repeats it after a merge: weights shrink, attention and a cache of keys do not.
"""


def of_handwritten() -> ModuleType:
    pytest.importorskip("einops")
    from families import handwritten

    return handwritten


def of_transformers() -> ModuleType:
    pytest.importorskip("transformers")
    from families import of_transformers

    return of_transformers


def of_timm() -> ModuleType:
    pytest.importorskip("timm")
    from families import of_timm

    return of_timm


@cache
def cases() -> dict[str, Case]:
    """Every family but timm's, by name."""
    modules = (of_torch, of_handwritten(), of_transformers())
    return {case.name: case for module in modules for case in module.cases()}


@cache
def timm_cases() -> dict[str, Case]:
    """The families of timm, by name."""
    return {case.name: case for case in of_timm().cases()}


def named(name: str) -> Case:
    """The family of that name."""
    return timm_cases()[name] if name.startswith("timm") else cases()[name]


def committed() -> dict[str, list[str]]:
    """Name of a family → its cells, as the table has them."""
    rows = re.findall(r"^\| (?!architecture|---)(.+) \|$", TABLE.read_text(), re.MULTILINE)
    return {name: cells for name, *cells in (row.split(" | ") for row in rows)}


def found_in(case: Case, folder: Path) -> dict[str, Finding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return conformance(case, folder)


def cells(findings: dict[str, Finding]) -> list[str]:
    """Where attention cannot be seen, nothing else is tried."""
    words = {column: "proven" if one.proven else "refused" for column, one in findings.items()}
    return [words.get(column, "–") for column in COLUMNS]


def every_family() -> list[object]:
    """Those that must prove everything; together, the others take a minute."""
    slow = [name for name in committed() if name not in MUST_PROVE]
    return [*MUST_PROVE, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


@pytest.mark.parametrize("name", every_family())
def test_every_cell_is_what_the_table_says(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    findings = found_in(named(name), tmp_path / "model")
    assert cells(findings) == committed()[name], {column: one.words for column, one in findings.items()}
    assert all(one.words.strip() for one in findings.values())


def test_the_table_has_every_family() -> None:
    assert [name for name in committed() if not name.startswith("timm")] == list(cases())
    assert len(cases()) >= 22


def test_the_table_has_every_family_of_timm() -> None:
    assert [name for name in committed() if name.startswith("timm")] == list(timm_cases())


def test_talking_heads_are_no_site_and_said_so() -> None:
    case = named("timm CaiT, talking heads but in the last layer")
    with pytest.warns(UserWarning, match=r"blocks\.0\.attn weights values by a softmax that is not one of query-key"):
        sites = find_sites(case.build().eval(), case.inputs)
    assert [site.path for site in sites] == ["blocks_token_only.0.attn"]


@pytest.mark.parametrize("name", MUST_PROVE)
def test_the_families_that_prove_everything(name: str) -> None:
    assert committed()[name] == ["proven"] * len(COLUMNS)


def test_every_refusal_of_the_table_has_its_sentence() -> None:
    every = [
        (name, column, cell) for name, row in committed().items() for column, cell in zip(COLUMNS, row, strict=True)
    ]
    refused = {(name, column) for name, column, cell in every if cell == "refused"}
    said = re.findall(r"^- \*\*(.+)\*\*, (\S+): (.+)$", TABLE.read_text(), re.MULTILINE)
    assert {(name, column) for name, columns, _ in said for column in columns.split("+")} == refused
    assert all(sentence[-1] not in ":;," and len(sentence) > 30 for _, _, sentence in said)


def table() -> str:
    """The page."""
    rows, reasons = [], []
    for name, case in (cases() | timm_cases()).items():
        with tempfile.TemporaryDirectory() as folder:
            findings = found_in(case, Path(folder) / "model")
        rows.append(f"| {name} | {' | '.join(cells(findings))} |")
        refused: dict[str, list[str]] = {}
        for column, one in findings.items():
            if not one.proven:
                refused.setdefault(one.words, []).append(column)
        reasons += [f"- **{name}**, {'+'.join(columns)}: {words}" for words, columns in refused.items()]
    head = [f"| architecture | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    return "\n".join([INTRODUCTION, *head, *rows, "", "## Reasons", "", *reasons, ""])


if __name__ == "__main__":
    torch.set_num_threads(1)
    TABLE.write_text(table())
