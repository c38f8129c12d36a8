import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headtune.config.load import load_file, load_kept_study, load_study
from headtune.errors import SpecError

Write = Callable[[str], Path]
Path_ = tuple[str | int, ...]
Nested = dict[Any, Any]

REQUIRED: list[Path_] = [
    ("version",),
    ("name",),
    ("task",),
    ("space",),
    ("space", "hold"),
    ("space", "weights"),
    ("space", "tie", "stages"),
    ("space", "params", "lr", "low"),
    ("space", "params", "lr", "high"),
    ("objectives",),
    ("objectives", 0, "metric"),
    ("objectives", 1, "direction"),
]


def refusal(path: Path, *overrides: str) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        load_file(path, overrides)
    return caught.value.problems


def test_a_file_that_uses_every_key(write: Write, full: str) -> None:
    file = load_file(write(full))
    assert (file.name, file.seed, file.search.timeout, file.constraints.parameters) != (None, 0, None, None)
    assert file.space.params.keys() == {"lr", "layers", "optimizer"}


def test_the_full_example_really_uses_every_key(write: Write, full: str) -> None:
    file = load_file(write(full))
    for section in (file, file.space, file.constraints, file.latency, file.search, file.verify, file.resources):
        assert section.model_fields_set == set(type(section).model_fields), type(section).__name__
    other_goals = {"latency_ratio", "quality_loss"}
    assert file.prune.model_fields_set == set(type(file.prune).model_fields) - other_goals


def test_a_file_with_nothing_but_the_required_keys(write: Write, small: str) -> None:
    assert load_file(write(small)).search.trials == 40


def test_problems_come_with_their_lines_in_order_and_overrides_last(write: Write) -> None:
    path = write(
        "version: 1\n"
        "name: a b\n"
        "task: train.py:task\n"
        "space:\n"
        "  weights: fresh\n"
        "  heads: [1, x]\n"
        "objectives:\n"
        "  - {metric: acc, direction: up}\n"
        "serach:\n"
        "  trials: 4\n"
    )
    assert refusal(path, "search.trials=many", "latency.mode=decod") == (
        f"{path}:2: name: must be letters, digits, '.', '_' and '-', at most 100: it names a folder (got 'a b')",
        f"{path}:4: space.hold: is missing; write width (head_dim = width / heads; parameters stay) or "
        "head_dim (width = heads × head_dim; parameters shrink)",
        f"{path}:6: space.heads.1: must be a whole number (got 'x')",
        f"{path}:8: objectives.0.direction: must be maximize or minimize (got 'up')",
        f"{path}:9: serach: is not a known key; did you mean search?",
        "--set latency.mode=decod: latency.mode: must be forward, train_step or decode (got 'decod'); "
        "did you mean decode?",
        "--set search.trials=many: search.trials: must be a whole number (got 'many')",
    )


def test_an_override_repairs_what_the_file_has_wrong(write: Write, small: str) -> None:
    path = write(small.replace("hold: width", "hold: both"))
    assert load_file(path, ["space.hold=head_dim"]).space.hold == "head_dim"


def test_an_override_with_a_wrong_key_is_named_as_it_was_typed(write: Write, small: str) -> None:
    assert refusal(write(small), "serach.trials=4", "search.trails=4") == (
        "--set search.trails=4: search.trails: is not a known key; did you mean trials?",
        "--set serach.trials=4: serach: is not a known key; did you mean search?",
    )


def test_a_storage_is_never_repeated_since_it_may_hold_a_password(write: Write, small: str) -> None:
    message = "storage: must be a URL: sqlite:///study.db for a file, or postgresql://user@host/name"
    path = write(f"{small}storage: user:hunter2@host\n")
    assert refusal(path) == (f"{path}:9: {message}",)
    assert refusal(write(small), "storage=user:hunter2@host") == (f"--set storage=…: {message}",)
    assert "hunter2" not in "".join(refusal(path, "storage=[hunter2"))


def test_overrides_that_cannot_be_used_are_all_named_beside_the_problems_of_the_file(write: Write, small: str) -> None:
    path = write(small.replace("version: 1", "version: 3"))
    assert refusal(path, "trials", "search.trials=4", "=3", "name.first=x") == (
        f"{path}:1: version: must be 1 (got 3)",
        "--set trials: is no key=value; write it as in --set search.trials=4",
        "--set =3: is no key=value; write it as in --set search.trials=4",
        "--set name.first=x: name is no mapping, so it has no key first",
    )


@pytest.mark.parametrize("text", ["- 1\n", "just text\n", "3\n"])
def test_a_file_without_keys(write: Write, text: str) -> None:
    path = write(text)
    assert refusal(path) == (
        f"{path}:1: must hold keys such as `version: 1`; `headtune init` writes a study to start from",
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "no.yaml"
    assert refusal(missing) == (f"{missing}: there is no such file; `headtune init` writes a study to start from",)
    assert refusal(tmp_path) == (
        f"{tmp_path}: is a folder; name the study file in it, such as {tmp_path / 'study.yaml'}",
    )
    under_a_file = tmp_path / "file"
    under_a_file.write_text("x")
    assert refusal(under_a_file / "study.yaml")[0].startswith(f"{under_a_file / 'study.yaml'}: cannot be read: ")
    assert refusal(Path("a\0b"))[0].startswith(r"a\x00b: cannot be read: ")


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        assert refusal(path) == (f"{path}: is no plain file; name a study file",)


def test_bytes_that_are_no_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes("version: 1\nname: ü\n".encode("latin-1"))
    assert refusal(path) == (f"{path}:2: is not UTF-8 text; save the file as UTF-8",)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path, small: str) -> None:
    (tmp_path / "train.py").touch()
    path = tmp_path / "study.yaml"
    path.write_text(small, encoding="utf-8-sig")
    assert load_file(path).name == "small"


def test_a_large_file_is_not_even_parsed(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    with path.open("wb") as file:
        file.truncate(200_000_000_000)
    assert refusal(path) == (f"{path}: has more than 100,000 bytes, which no study has; name a study file",)


def test_paths_start_from_the_file_wherever_headtune_is_run(
    write: Write, small: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(small)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    spec = load_study(Path("../study.yaml"))
    assert spec.output == tmp_path / "runs" / "small"


def test_a_wrong_file_is_refused_without_loading_torch(write: Write) -> None:
    path = write("version: 1\n")
    code = (
        "import sys, pathlib, headtune.config as c, headtune.errors as e\n"
        "try:\n    c.load_study(pathlib.Path(sys.argv[1]))\n"
        "except e.SpecError:\n    print(sorted({'torch', 'ray', 'optuna'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---- a generated battery: whatever is broken, the answer is a SpecError that names the place


def leaves(value: object, keys: Path_ = ()) -> Iterator[Path_]:
    """Paths of every key and item of nested plain values."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield (*keys, key)
        yield from leaves(child, (*keys, key))


def put(value: Nested, keys: Path_, new: object) -> Nested:
    value = copy.deepcopy(value)
    parent: Any = value
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = new
    return value


def without(value: Nested, keys: Path_) -> Nested:
    value = copy.deepcopy(value)
    parent: Any = value
    for key in keys[:-1]:
        parent = parent[key]
    del parent[keys[-1]]
    return value


def line_of(marker: str, text: str) -> int:
    (line,) = [number for number, content in enumerate(text.split("\n"), start=1) if marker in content]
    return line


@pytest.fixture
def valid(full: str) -> Nested:
    return yaml.safe_load(full.replace("1e-4", "1.0e-4").replace("1e-2", "1.0e-2").replace("2e6", "2.0e+6"))


def test_a_mapping_in_place_of_any_key_that_is_not_free_is_refused_at_its_line(write: Write, valid: Nested) -> None:
    checked = 0
    for keys in leaves(valid):
        if keys[0] == "task_args":
            continue
        text = yaml.safe_dump(put(valid, keys, {"marker_9": 1}), sort_keys=False, default_flow_style=False)
        path = write(text)
        problems = refusal(path)
        line = line_of("marker_9", text)
        named = [problem for problem in problems if re.match(rf"{re.escape(str(path))}:({line - 1}|{line}): ", problem)]
        assert named, (keys, problems)
        checked += 1
    assert checked > 60


def test_every_unknown_key_is_refused_at_its_line(write: Write, valid: Nested) -> None:
    sections = [keys for keys in [(), *leaves(valid)] if keys[:1] != ("task_args",)]
    for keys in sections:
        section: Any = valid
        for key in keys:
            section = section[key]
        if not isinstance(section, dict) or keys in [("space", "sites"), ("space", "params")]:
            continue
        text = yaml.safe_dump(put(valid, (*keys, "marker_9"), 1), sort_keys=False, default_flow_style=False)
        path = write(text)
        where = ".".join(map(str, (*keys, "marker_9")))
        (problem,) = refusal(path)
        assert problem.startswith(f"{path}:{line_of('marker_9', text)}: {where}: is not a known key; known: "), problem


@pytest.mark.parametrize("keys", REQUIRED, ids=lambda keys: ".".join(map(str, keys)))
def test_every_required_key_that_is_missing_is_named(write: Write, valid: Nested, keys: Path_) -> None:
    path = write(yaml.safe_dump(without(valid, keys), sort_keys=False))
    where = ".".join(map(str, keys))
    assert [problem for problem in refusal(path) if f": {where}: is missing; write " in problem]


nonsense = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["auto", "same", "\u0000", "\ud7ff", "🙂", "a: b", "- x", "!!str", "*x", "&x", "\t", "1e999"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def ends_well(path: Path, *overrides: str) -> None:
    """Either a study, or a SpecError whose problems all name the file with a line, or the override."""
    problems: tuple[str, ...] | None = None
    try:
        load_file(path, overrides)
    except SpecError as error:
        problems = error.problems
    assert problems != ()
    for problem in problems or ():
        assert re.match(rf"({re.escape(str(path))}:(\d+:)? |--set )", problem), problem
        assert "Traceback" not in problem
        assert "Input should" not in problem, f"an untranslated message: {problem}"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_anywhere(write: Write, valid: Nested, data: st.DataObject) -> None:
    broken = valid
    for _ in range(data.draw(st.integers(1, 4))):
        paths = list(leaves(broken))
        keys = data.draw(st.sampled_from(paths or [("version",)]))
        broken = put(broken, keys, data.draw(nonsense)) if paths else {"version": data.draw(nonsense)}
    ends_well(write(yaml.safe_dump(broken, allow_unicode=True)))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_the_text(write: Write, full: str, data: st.DataObject) -> None:
    text = full
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        new = data.draw(
            st.sampled_from(
                ["", " ", "\t", "\n", ":", "- ", "[", "}", "'", '"', "#", "&a ", "*a", "!!int ", "? ", "---\n"]
            )
            | st.text(max_size=4)
        )
        text = text[:start] + new.encode("utf-8", "ignore").decode() + text[start + cut :]
    ends_well(write(text))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
@example(content=b"\xff\xfev\x00e\x00")
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError):
        load_file(path)
    ends_well(path)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(["search.trials", "space.heads", "objectives.0", "name", "x"]) | st.text(max_size=12),
    value=st.text(max_size=12),
)
@example(key="(word)", value="")
def test_any_override(write: Write, full: str, key: str, value: str) -> None:
    ends_well(write(full), f"{key}={value}")


@pytest.mark.parametrize("overrides", [(), ("storage=sqlite:///kept.db?timeout=3",), ("output=/proc/none",)])
def test_a_study_of_which_nothing_is_kept_is_refused_at_once(
    write: Write, small: str, overrides: tuple[str, ...]
) -> None:
    path = write(small)
    code = (
        "import sys, pathlib\nfrom headtune.config import load_kept_study\nimport headtune.errors as e\n"
        f"try:\n    load_kept_study(pathlib.Path({str(path)!r}), {overrides!r})\n"
        "except e.StorageError as error:\n    print(error)\n"
        "print(sorted({'torch', 'ray', 'optuna', 'pandas', 'matplotlib'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kept = {0: f"{path.parent}/runs/small/study.db"}.get(len(overrides)) or (
        f"{path.parent}/kept.db" if "kept" in overrides[0] else "/proc/none/study.db"
    )
    assert done.stdout == (
        f"storage: there is no {kept}; run the search first, or name the storage that it wrote\n[]\n"
    )


def test_a_study_of_which_something_is_kept_is_loaded(write: Write, small: str) -> None:
    path = write(f"{small}storage: sqlite:///kept.db\n")
    (path.parent / "kept.db").touch()
    assert load_kept_study(path) == load_study(path)
    assert load_kept_study(path, ["storage=postgresql://u@h/d"]).storage == "postgresql://u@h/d"
