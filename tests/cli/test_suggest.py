import json
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_it_prints_the_rule_its_mixed_form_and_the_legal_counts(run: Run) -> None:
    assert run("suggest", "--d-model", 384, "--layers", 6) == (
        0,
        "rule of thumb: max(1, min(8, round(384 / 64))) = 6\n"
        "uniform: 6 6 6 6 6 6\n"
        "mixed: 3 3 3 6 6 6\n"
        "legal, heads x head_dim: 1x384, 2x192, 3x128, 4x96, 6x64, 8x48, 12x32, 16x24, 24x16, 32x12, 48x8, 64x6, 96x4, "
        "128x3, 192x2, 384x1\n",
        "",
    )


def test_a_width_with_poor_divisors_is_told_what_would_help(run: Run) -> None:
    code, out, err = run("suggest", "--d-model", 147)
    assert (code, err) == (0, "")
    assert "legal, heads x head_dim: 1x147, 3x49, 7x21, 21x7, 49x3, 147x1\n" in out
    assert "padding: 150 (+3) gives even head_dims" in out


def test_json(run: Run) -> None:
    code, out, _ = run("suggest", "--d-model", 64, "--layers", 2, "--json")
    document = json.loads(out)
    assert (code, document["rule"], document["uniform"], document["legal"][0]) == (
        0,
        1,
        [1, 1],
        {"num_heads": 1, "head_dim": 64},
    )


def test_numbers_below_1_are_all_refused(run: Run) -> None:
    assert run("suggest", "--d-model", 0, "--layers", -1) == (
        2,
        "",
        "error: d_model is 0; it must be at least 1\nerror: layers is -1; it must be at least 1\n",
    )


@pytest.mark.parametrize(
    "arguments", [["suggest"], ["suggest", "--d-model", "wide"], ["suggest", "--d-model", "8", "9"]]
)
def test_wrong_usage_exits_2(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert "--d-model" in err or "argument" in err


@pytest.mark.parametrize("option", ["--d-model", "--layers"])
def test_what_is_no_number_is_said_in_words(run: Run, option: str) -> None:
    code, out, err = run("suggest", "--d-model", "8", option, "wide")
    assert (code, out) == (2, "")
    assert f"Invalid value for '{option}': must be a whole number (got 'wide')" in err


@pytest.mark.parametrize(
    "arguments", [["suggest", "--d-model", "384"], ["--help"], ["search", "--help"], ["--version"]]
)
def test_it_loads_no_torch_ray_or_optuna(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom headtune.cli.app import main\ncode = main(sys.argv[1:])\n"
        "print(sorted({'torch', 'ray', 'optuna', 'pandas', 'matplotlib'} & sys.modules.keys()), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert done.stdout
