import gzip
import math
import random
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import ndcg_score
from torch import Tensor, nn

import headtune
from headtune.errors import TaskError
from headtune.trial.importing import import_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "next_item.py"
ITEMS = 60


@pytest.fixture(scope="module")
def next_item() -> ModuleType:
    return import_file(EXAMPLE, "next_item")


def rounds(count: int, seed: int = 0) -> list[list[int]]:
    """Users who go round a ring of items, each from one to the next, 4 to 12 of them."""
    draw = random.Random(seed)
    starts = [(draw.randrange(ITEMS), draw.randint(4, 12)) for _ in range(count)]
    return [[1 + (start + step) % ITEMS for step in range(length)] for start, length in starts]


def anything(count: int, seed: int = 0) -> list[list[int]]:
    """Users without any order, who have up to 12 items, some of which more often than others."""
    draw = random.Random(seed)
    several = [1 + min(draw.randrange(ITEMS), draw.randrange(ITEMS)) for _ in range(12 * count)]
    users = [several[12 * user : 12 * user + draw.randint(1, 12)] for user in range(count)]
    return [*users, list(range(ITEMS, 0, -1))]


def written(path: Path, users: list[list[int]]) -> Path:
    """The users' items, turn by turn, as a log of purchases has them."""
    turns = range(max(map(len, users)))
    lines = [f"u{user} i{items[t]}\n" for t in turns for user, items in enumerate(users) if t < len(items)]
    path.write_bytes(gzip.compress("".join(lines).encode()) if path.suffix == ".gz" else "".join(lines).encode())
    return path


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("purchases") / "ring.txt.gz", rounds(300))


def small(next_item: ModuleType, path: Path, **args: object) -> headtune.Task:
    task: headtune.Task = next_item.task(str(path), **{"d_model": 32, "heads": 2, "layers": 2, "context": 8, **args})
    return task


@pytest.fixture
def model(next_item: ModuleType) -> nn.Module:
    torch.manual_seed(0)
    built: nn.Module = next_item.SASRec(ITEMS, 12, 16, 2, 2, 0.3)
    return built.eval()


class Scores(nn.Module):
    """Scores each item number as it is told, whatever a user had."""

    def __init__(self, of: Tensor) -> None:
        super().__init__()
        self.of = nn.Parameter(of)

    def forward(self, history: Tensor) -> Tensor:
        return self.of.expand(len(history), -1)


# What is read


def test_each_user_keeps_the_order_of_the_file(next_item: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("ann pen\nbob ink\nann ink\r\n\nbob pen\nann cup\nann pen\n")
    assert next_item.read(tmp_path / "log.txt") == [[1, 2, 3, 1], [2, 1]]


def test_plain_and_gzipped_files_are_the_same(next_item: ModuleType, tmp_path: Path) -> None:
    users = rounds(5)
    assert next_item.read(written(tmp_path / "a.txt", users)) == next_item.read(written(tmp_path / "a.gz", users))


def test_lines_that_are_no_purchases_are_told_by_number(next_item: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "ratings.txt"
    path.write_text("u i\n1 2 5.0 978300760\nu i\nhello\n1 2 3\n1 2 3\n1 2 3\n")
    with pytest.raises(TaskError) as caught:
        next_item.read(path)
    assert str(caught.value) == (
        f"next_item: {path} must hold a user and an item in each line, but line 2 is '1 2 5.0 978300760'; "
        "line 4 is 'hello'; line 5 is '1 2 3'; and 2 more"
    )


@pytest.mark.parametrize(
    ("name", "content"), [("a.gz", b"no gzip"), ("b.gz", gzip.compress(b"u i\n")[:-9]), ("c", b"\xff")]
)
def test_what_is_no_text_is_said_to_be_none(next_item: ModuleType, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=f"^next_item: .*{name} cannot be read as text: "):
        next_item.read(tmp_path / name)


@pytest.mark.parametrize("content", ["", "u 1\nu 2\nu 3\nv 1\nv 2\n"])
def test_users_with_too_few_items(next_item: ModuleType, tmp_path: Path, content: str) -> None:
    path = tmp_path / "few.txt"
    path.write_text(content)
    with pytest.raises(TaskError) as caught:
        next_item.task(str(path))
    assert str(caught.value) == (
        f"next_item: no user of {path} has 4 items, which it takes: 2 to learn from, 1 to steer by, 1 to judge by"
    )


def test_a_file_that_is_not_there(next_item: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        next_item.task(str(tmp_path / "no.txt"))
    assert str(caught.value) == (
        f"next_item: there is no file {tmp_path / 'no.txt'}; give purchases by --set task_args.data=FILE"
    )


def test_all_that_is_wrong_is_told_at_once(next_item: ModuleType) -> None:
    with pytest.raises(TaskError) as caught:
        next_item.task(None, users=0, context=2.5, d_model="64", layers=True, negatives=-1, dropout=1)
    assert caught.value.problems == (
        "next_item: users must be a whole number from 1, got 0",
        "next_item: context must be a whole number from 1, got 2.5",
        "next_item: d_model must be a whole number from 1, got '64'",
        "next_item: layers must be a whole number from 1, got True",
        "next_item: negatives must be a whole number from 1, got -1",
        "next_item: dropout must be a number from 0 to below 1, got 1",
        "next_item: data must be a file of purchases: --set task_args.data=FILE",
    )


def test_heads_that_do_not_divide_the_width(next_item: ModuleType, ring: Path) -> None:
    with pytest.raises(TaskError) as caught:
        next_item.task(str(ring), d_model=64, heads=5)
    assert str(caught.value) == "next_item: d_model must be a multiple of heads, got 64 and 5"


def test_more_items_than_the_model_sees(next_item: ModuleType, ring: Path) -> None:
    with pytest.raises(TaskError) as caught:
        small(next_item, ring).inputs(2, 9)
    assert str(caught.value) == "next_item: seq_len must be at most context, which is 8; got 9"


# What is held out


def test_the_last_item_is_held_out_and_the_one_before_it(next_item: ModuleType) -> None:
    purchases = next_item.Purchases([[5], [6, 7], [1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8]], context=3, judged=None)
    assert purchases.train.tolist() == [[6, 7, 0, 0], [3, 4, 5, 6]]  # one item alone says nothing of what follows
    assert purchases.val.item.tolist() == [2, 7]
    assert purchases.val.history.tolist() == [[1, 0, 0], [4, 5, 6]]
    assert purchases.test.item.tolist() == [3, 8]
    assert purchases.test.before.tolist() == [[1, 2, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]]
    assert purchases.test.history.tolist() == [[1, 2, 0], [5, 6, 7]]


@pytest.mark.parametrize(("place", "split"), [(-1, "test"), (-2, "val")])
def test_what_is_held_out_reaches_no_input(next_item: ModuleType, place: int, split: str) -> None:
    users = anything(50)
    others = [[*items] for items in users]
    for items in others:
        if 2 < len(items) < ITEMS:  # the last user has every item, so that their number stays
            items[place] = 1 + items[place] % ITEMS
    one, other = (next_item.Purchases(sequences, 8, None) for sequences in (users, others))
    assert torch.equal(one.train, other.train)
    a, b = getattr(one, split), getattr(other, split)
    assert (a.item[:-1] != b.item[:-1]).all()
    assert torch.equal(a.history, b.history)
    assert torch.equal(a.before, b.before)
    if split == "test":
        assert torch.equal(one.val.item, other.val.item)
    else:
        assert not torch.equal(one.test.history, other.test.history)  # by then it is past


def test_a_sample_of_users_is_always_the_same(next_item: ModuleType) -> None:
    users = anything(200)
    one, other, whole = (next_item.Purchases(users, 8, judged) for judged in (30, 30, 10_000))
    assert len(one.test.item) == len(one.val.item) == 30
    assert len(whole.test.item) == sum(len(items) > 2 for items in users)
    assert torch.equal(one.test.before, other.test.before)
    assert torch.equal(one.train, whole.train)


def test_what_is_drawn_is_new_to_the_user(next_item: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    users = anything(100)
    sets = [set(items) for items in sorted((items for items in users if len(items) > 2), key=len)]
    for most in (7, 100):
        monkeypatch.setattr(next_item, "DRAWN", most)
        drawn = [set(row) - {0} for row in next_item.Purchases(users, 8, None).test.drawn.tolist()]
        assert [len(row) for row in drawn] == [min(most, ITEMS - len(had)) for had in sets]
        assert not any(row & had for row, had in zip(drawn, sets, strict=True))


# What is measured


def test_metrics_of_known_ranks(next_item: ModuleType) -> None:
    assert next_item.quality("x", torch.tensor([0, 2, 9, 10])) == {
        "x_ndcg10": pytest.approx((1 + 1 / 2 + 1 / math.log2(11)) / 4),
        "x_hr10": 0.75,
    }


def test_metrics_are_those_of_another_computation(next_item: ModuleType) -> None:
    """One user at a time, among the items new to the user, by scikit-learn."""
    users = anything(60)
    held = next_item.Purchases(users, 8, None).test
    scores = torch.randn(1 + ITEMS, generator=torch.Generator().manual_seed(0))
    whole = sorted((items for items in users if len(items) > 2), key=len)
    drawn = [set(row) for row in held.drawn.tolist()]
    ranks = next_item.ranks(Scores(scores), held)
    for rank, among in zip(ranks, ([set(range(1, 1 + ITEMS))] * len(whole), drawn), strict=True):
        gains, hits = [], []
        for (*had, item), allowed in zip(whole, among, strict=True):
            shown = [item, *(allowed - set(had) - {0, item})]
            if len(shown) == 1:
                gain, hit = 1.0, True
            else:
                gain = ndcg_score([[1] + [0] * (len(shown) - 1)], [scores[shown].tolist()], k=10)
                hit = item in sorted(shown, key=lambda one: -scores[one])[:10]
            gains.append(gain)
            hits.append(hit)
        assert 0.05 < sum(hits) / len(hits) < 0.95
        assert next_item.quality("x", rank) == {
            "x_ndcg10": pytest.approx(sum(gains) / len(gains)),
            "x_hr10": pytest.approx(sum(hits) / len(hits)),
        }


@pytest.mark.parametrize("score", [0.0, math.nan])
def test_a_model_that_prefers_nothing_is_right_never(next_item: ModuleType, score: float) -> None:
    held = next_item.Purchases(rounds(20), 8, None).test
    rank, _ = next_item.ranks(Scores(torch.full((1 + ITEMS,), score)), held)
    had = (held.before != 0).sum(1)
    assert torch.equal(rank, ITEMS - 1 - had)


# The model


def histories(*lengths: int) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randint(1, 1 + ITEMS, (length,), generator=draw) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def test_padding_changes_nothing(model: nn.Module) -> None:
    padded, candidates = histories(3, 12, 7), torch.tensor([4, 9])
    with torch.no_grad():
        together, learnt = model(padded), model(padded, candidates).split([3, 12, 7])
        for row, length in enumerate((3, 12, 7)):
            alone = padded[row : row + 1, :length]
            # Float32 sums in another order.
            torch.testing.assert_close(together[row : row + 1], model(alone), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(learnt[row], model(alone, candidates), rtol=1e-4, atol=1e-5)


def test_what_is_served_is_what_was_learnt_at_the_last_item(model: nn.Module) -> None:
    history = histories(5, 9)
    with torch.no_grad():
        learnt = model(history, torch.arange(1 + ITEMS))
        torch.testing.assert_close(model(history), learnt[[4, 13]], rtol=1e-4, atol=1e-5)


def test_the_future_does_not_reach_the_past(model: nn.Module) -> None:
    one, candidates = histories(9, 9), torch.arange(1, 1 + ITEMS)
    other = one.clone()
    other[:, 5:] = 1 + other[:, 5:] % ITEMS
    with torch.no_grad():
        a, b = (model(history, candidates).unflatten(0, (2, 9)) for history in (one, other))
    assert torch.equal(a[:, :5], b[:, :5])
    assert (a[:, 5:] != b[:, 5:]).any(-1).all()


def test_every_item_and_its_place_count(model: nn.Module) -> None:
    history = histories(9)
    with torch.no_grad():
        before = model(history)
        for place in range(9):
            other = history.clone()
            other[0, place] = 1 + other[0, place] % ITEMS
            assert not torch.equal(model(other), before)
        assert not torch.allclose(model(history[:, [1, 0, *range(2, 9)]]), before)


# What it learns from


def test_batches_hold_every_step_once(next_item: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_item, "TARGETS", 20)
    users = anything(100)
    purchases = next_item.Purchases(users, 8, None)
    torch.manual_seed(0)
    found = []
    sizes = []
    for history, candidates, _, following in next_item.batches(purchases, 5):
        ends = (history != 0).cumsum(1)[history != 0] - 1
        rows = (history != 0).nonzero()[:, 0]
        pasts = [tuple(history[row, : end + 1].tolist()) for row, end in zip(rows, ends, strict=True)]
        found += list(zip(pasts, candidates[following].tolist(), strict=True))
        sizes.append(len(following))
        assert len(candidates.unique()) == len(candidates)
    seen = [(items[:-2] if len(items) > 2 else items)[-9:] for items in users]
    assert sorted(found) == sorted((tuple(items[:n]), items[n]) for items in seen for n in range(1, len(items)))
    assert max(sizes) < 20 + 8


def test_each_epoch_has_an_order_of_its_own(next_item: ModuleType) -> None:
    purchases = next_item.Purchases(anything(600), 8, None)
    torch.manual_seed(0)
    one, other = next_item.batches(purchases, 5), next_item.batches(purchases, 5)
    assert len(one) > 2
    assert not all(torch.equal(a[0], b[0]) for a, b in zip(one, other, strict=True))


def test_candidates_stand_for_all_items(next_item: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighted by how rarely each is drawn, sums over the candidates are sums over all items in the mean."""
    monkeypatch.setattr(next_item, "TARGETS", 10)
    purchases = next_item.Purchases(anything(300), 8, None)
    torch.manual_seed(0)
    drawn = [batch[1:3] for _ in range(20) for batch in next_item.batches(purchases, 5)]
    number = torch.tensor([(1 / log_q.exp()).sum() for _, log_q in drawn])
    total = torch.tensor([(candidates / log_q.exp()).sum() for candidates, log_q in drawn])
    assert max(len(candidates) for candidates, _ in drawn) < ITEMS / 2
    assert number.mean() == pytest.approx(ITEMS, rel=0.05)
    assert total.mean() == pytest.approx(ITEMS * (1 + ITEMS) / 2, rel=0.05)


def test_with_all_items_as_candidates_the_loss_is_the_cross_entropy(next_item: ModuleType, model: nn.Module) -> None:
    purchases = next_item.Purchases(anything(30), 8, None)
    torch.manual_seed(0)
    batch, *rest = next_item.batches(purchases, 100 * ITEMS)
    assert not rest
    history, candidates, _, following = batch
    with torch.no_grad():
        scores = model(history, torch.arange(1 + ITEMS))[:, 1:]
        expected = F.cross_entropy(scores, candidates[following] - 1)
        assert next_item.loss(model, batch).item() == pytest.approx(expected.item(), rel=1e-5)


# The task


def test_headtune_sees_and_changes_the_heads(next_item: ModuleType, ring: Path) -> None:
    task = small(next_item, ring)
    model, example = task.model().eval(), task.inputs(3, None)
    sites = headtune.sites(model, example)
    assert [(site.path, site.role, site.num_heads) for site in sites] == [
        ("blocks.0.attn", "causal", 2),
        ("blocks.1.attn", "causal", 2),
    ]
    other = headtune.apply(model, headtune.HeadPlan.parse("*=8", sites, hold="width"), example)
    same = small(next_item, ring, heads=8).model().eval()
    same.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(other(*example), same(*example))
        assert not torch.allclose(other(*example), model(*example))


def test_heads_are_ranked_by_the_loss(next_item: ModuleType, ring: Path) -> None:
    task = small(next_item, ring)
    assert task.batches is not None
    assert task.loss is not None
    scores = headtune.importance(task.model(), task.batches, task.loss, inputs=task.inputs(3, None))
    assert {path: tuple(row.shape) for path, row in scores.items()} == {"blocks.0.attn": (2,), "blocks.1.attn": (2,)}
    assert all((row > 0).all() for row in scores.values())


def test_it_learns_what_comes_next_and_popularity_does_not(next_item: ModuleType, ring: Path) -> None:
    task = small(next_item, ring)
    assert task.train is not None
    assert task.test is not None
    torch.manual_seed(0)
    model = task.model()
    task.train(model, headtune.Run(epochs=25, device="cpu"))
    assert task.evaluate is not None
    assert task.evaluate(model)["val_hr10"] > 0.99
    learnt = task.test(model)
    assert set(learnt) == {"test_ndcg10", "test_hr10", "test_sampled_ndcg10", "test_sampled_hr10"}
    assert min(learnt.values()) > 0.9
    purchases = next_item.Purchases(next_item.read(ring), 8, None)
    popular = torch.bincount(purchases.train.flatten(), minlength=1 + ITEMS).float()
    assert task.test(Scores(popular))["test_hr10"] < 0.4


def test_it_runs_alone(ring: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(ring)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr()
    assert said.out.startswith("{'test_ndcg10': ")
    assert said.err.count("val_ndcg10") == 10


def test_alone_without_a_file_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert caught.value.code == "next_item: data must be a file of purchases: --set task_args.data=FILE"
