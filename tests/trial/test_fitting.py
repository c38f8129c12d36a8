import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import Diverged, StopTrial, TaskError
from headtune.trial.descent import FitOptions, adamw, warmup_cosine
from headtune.trial.fitting import Fit, to_device
from headtune.trial.messages import Measurement
from headtune.trial.run import Run

OPTIONS = FitOptions(lr=1e-2, weight_decay=0.1, warmup=0.25, clip=1.0)
X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)

Batch = tuple[Tensor, Tensor]


class Recorder:
    """A channel that remembers its reports and says stop at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.reports: list[Mapping[str, float]] = []
        self._stop_at = stop_at

    def measured(self, measurement: Measurement) -> None:
        raise AssertionError("a training measures nothing")

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        self.reports.append(metrics)
        return step == self._stop_at


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Dropout(0.2), nn.Linear(8, 1))


def batches() -> list[Batch]:
    return [(X[rows], Y[rows]) for rows in torch.randperm(len(X)).split(8)]


def loss(model: nn.Module, batch: Batch) -> Tensor:
    x, y = batch
    return nn.functional.mse_loss(model(x), y)


def evaluate(model: nn.Module) -> Mapping[str, float]:
    return {"val_loss": loss(model, (X, Y)).item()}


def fit(
    *,
    batches: Callable[[], Iterable[Batch]] = batches,
    evaluate: Callable[[nn.Module], Mapping[str, float]] = evaluate,
    monitor: str = "val_loss",
    options: FitOptions = OPTIONS,
    autocast: torch.dtype | None = None,
    mode: str = "min",
) -> Fit:
    return Fit(
        batches=batches,
        loss=loss,
        evaluate=evaluate,
        monitor=monitor,
        mode="max" if mode == "max" else "min",
        options=options,
        autocast=autocast,
        save_every_s=0.0,
    )


def trained(train: Fit, run: Run) -> nn.Module:
    torch.manual_seed(0)
    model = network()
    train(model, run)
    return model


def test_the_rate_rises_in_a_line_and_falls_as_a_cosine() -> None:
    shares = [warmup_cosine(step, 12, 1 / 3) for step in range(12)]
    assert shares[:4] == [0.25, 0.5, 0.75, 1.0]
    assert shares[4:] == pytest.approx([(1 + math.cos(math.pi * k / 8)) / 2 for k in range(8)], abs=1e-15)


def test_the_rate_without_warm_up_starts_at_its_peak_and_never_rises_again() -> None:
    assert warmup_cosine(0, 10, 0.0) == 1.0
    assert warmup_cosine(5, 10, 0.0) == pytest.approx(0.5)
    assert warmup_cosine(10, 10, 0.0) == warmup_cosine(11, 10, 0.0) == 0.0


def test_only_matrices_decay() -> None:
    model = network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    optimizer = adamw(model, weight_decay=0.1)
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    # With no gradient, AdamW only multiplies by 1 - lr * weight_decay.
    values = {name: parameter.unique().item() for name, parameter in model.named_parameters()}
    assert values == pytest.approx({name: 0.95 if name in ("0.weight", "3.weight") else 1.0 for name in values})


def test_frozen_parameters_are_left_out() -> None:
    model = network()
    model[0].requires_grad_(False)  # type: ignore[index]
    groups = [len(group["params"]) for group in adamw(model, weight_decay=0.1).param_groups]
    assert groups == [1, 3]


class Named(NamedTuple):
    x: Tensor


def test_tensors_move_wherever_they_are() -> None:
    named = Named(torch.zeros(1))
    batch = {"x": torch.zeros(2), "more": [torch.zeros(3), ("text", torch.zeros(4))], "named": named}
    moved = to_device(batch, torch.device("meta"))
    assert isinstance(moved, dict)
    text, inner = moved["more"][1]
    assert (moved["x"].device.type, moved["more"][0].device.type, inner.device.type) == ("meta",) * 3
    assert text == "text"
    assert moved["named"] is named


def test_all_options_out_of_range_are_named() -> None:
    with pytest.raises(TaskError) as caught:
        FitOptions(lr=0.0, weight_decay=-1.0, warmup=1.0, clip=0.0)
    assert caught.value.problems == (
        "Supervised: lr must be above 0, got 0.0",
        "Supervised: weight_decay must be 0 or more, got -1.0",
        "Supervised: warmup is a share of the steps, from 0 to below 1; got 1.0",
        "Supervised: clip must be above 0, got 0.0; math.inf clips nothing",
    )


def test_options_that_are_no_numbers_are_named() -> None:
    with pytest.raises(TaskError) as caught:
        FitOptions(lr="x", weight_decay=True, warmup=0.1, clip=None)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "Supervised: lr must be a number, got 'x'",
        "Supervised: weight_decay must be a number, got True",
        "Supervised: clip must be a number, got None",
    )


def test_params_take_the_place_of_options_of_their_name() -> None:
    assert OPTIONS.overridden({"lr": 0.5, "warmup": 0, "dropout": 0.3}) == FitOptions(
        lr=0.5, weight_decay=0.1, warmup=0.0, clip=1.0
    )


def test_a_param_that_is_no_number_is_refused() -> None:
    with pytest.raises(TaskError) as caught:
        OPTIONS.overridden({"lr": "fast", "clip": True})
    assert caught.value.problems == (
        "Supervised: the param lr must be a number, got 'fast'",
        "Supervised: the param clip must be a number, got True",
    )


def test_two_steps_by_hand() -> None:
    torch.manual_seed(0)
    model, twin = nn.Linear(4, 1), nn.Linear(4, 1)
    twin.load_state_dict(model.state_dict())
    options = FitOptions(lr=0.1, weight_decay=0.1, warmup=0.5, clip=0.01)
    fit(batches=lambda: [(X[:8], Y[:8])], options=options)(model, Run(epochs=2, channel=Recorder(), device="cpu"))
    moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in twin.parameters()}
    for t in (1, 2):  # both steps at the peak rate: one of warm-up, then the cosine's start
        grads = torch.autograd.grad(loss(twin, (X[:8], Y[:8])), list(moments))
        norm = math.sqrt(sum(float(g.square().sum()) for g in grads))
        for (p, (m, v)), unclipped in zip(moments.items(), grads, strict=True):
            g = unclipped * (0.01 / norm)
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            decay = 1 - 0.1 * 0.1 if p.ndim > 1 else 1.0
            with torch.no_grad():
                p.copy_(p * decay - 0.1 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8))
    # The clipping adds 1e-6 to the norm, and the fused kernel orders its float32 operations otherwise.
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=1e-5, atol=1e-6)


def test_it_learns_a_sum() -> None:
    options = FitOptions(lr=0.03, weight_decay=0.0, warmup=0.1, clip=10.0)
    model = trained(fit(options=options), Run(epochs=40, channel=Recorder(), device="cpu"))
    assert evaluate(model)["val_loss"] < 0.1 * float(Y.var())


def test_each_epoch_is_reported_with_its_mean_loss() -> None:
    channel = Recorder()
    seen: list[float] = []

    def spying_loss(model: nn.Module, batch: Batch) -> Tensor:
        value = loss(model, batch)
        seen.append(value.item())
        return value

    train = Fit(
        batches=batches,
        loss=spying_loss,
        evaluate=lambda model: {"val_loss": 1.0},
        monitor="val_loss",
        mode="min",
        options=OPTIONS,
        autocast=None,
        save_every_s=0.0,
    )
    trained(train, Run(epochs=2, channel=channel, device="cpu"))
    means = [sum(seen[:3]) / 3, sum(seen[3:]) / 3]
    assert [report["train_loss"] for report in channel.reports] == pytest.approx(means, rel=1e-6)
    assert [report["val_loss"] for report in channel.reports] == [1.0, 1.0]


def test_evaluate_sees_the_model_at_rest_and_the_training_goes_on() -> None:
    modes = []

    def watching(model: nn.Module) -> Mapping[str, float]:
        modes.append((model.training, torch.is_grad_enabled()))
        return {"val_loss": 0.0}

    model = trained(fit(evaluate=watching), Run(epochs=2, channel=Recorder(), device="cpu"))
    assert modes == [(False, False)] * 2
    assert not model.training
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(("mode", "best"), [("max", 1), ("min", 2)])
def test_the_weights_of_the_best_epoch_come_back(mode: str, best: int) -> None:
    scores = iter([0.5, 0.9, 0.1, 0.9])  # an equal later epoch is not better
    kept: list[Tensor] = []

    def scored(model: nn.Module) -> Mapping[str, float]:
        kept.append(model[0].weight.clone())  # type: ignore[index]
        return {"score": next(scores)}

    model = trained(fit(evaluate=scored, monitor="score", mode=mode), Run(epochs=4, channel=Recorder(), device="cpu"))
    assert torch.equal(model[0].weight, kept[best])  # type: ignore[index]
    assert not torch.equal(kept[best], kept[-1])


def test_a_score_that_is_not_finite_is_never_best() -> None:
    scores = iter([math.nan, 0.2, math.inf])
    kept: list[Tensor] = []

    def scored(model: nn.Module) -> Mapping[str, float]:
        kept.append(model[0].weight.clone())  # type: ignore[index]
        return {"score": next(scores)}

    model = trained(fit(evaluate=scored, monitor="score", mode="max"), Run(epochs=3, device="cpu"))
    assert torch.equal(model[0].weight, kept[1])  # type: ignore[index]


def test_in_a_study_a_loss_that_explodes_ends_the_trial() -> None:
    wild = FitOptions(lr=1e30, weight_decay=0.0, warmup=0.0, clip=math.inf)
    with pytest.raises(Diverged, match=r"^train_loss nan  val_loss nan after report \d: not finite$"):
        trained(fit(options=wild), Run(epochs=5, channel=Recorder(), device="cpu"))


def test_stop_ends_it_at_once() -> None:
    channel = Recorder(stop_at=2)
    with pytest.raises(StopTrial):
        trained(fit(), Run(epochs=5, channel=channel, device="cpu"))
    assert len(channel.reports) == 2


@pytest.mark.parametrize("cut_after", [1, 2, 4])
def test_a_resumed_training_ends_with_the_very_same_weights(tmp_path: Path, cut_after: int) -> None:
    whole = trained(fit(), Run(epochs=5, channel=Recorder(), device="cpu"))
    with pytest.raises(StopTrial):  # one epoch more is trained, and lost as by a kill
        trained(fit(), Run(epochs=5, channel=Recorder(stop_at=cut_after + 1), folder=tmp_path, device="cpu"))
    channel = Recorder()
    torch.manual_seed(99)  # as in another process
    resumed = network()
    fit()(resumed, Run(epochs=5, channel=channel, folder=tmp_path, device="cpu"))
    assert len(channel.reports) == 5 - cut_after
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name


def test_the_best_epoch_is_remembered_over_a_cut(tmp_path: Path) -> None:
    scores = iter([0.9, 0.1, 0.2, 0.3])
    kept: list[Tensor] = []

    def scored(model: nn.Module) -> Mapping[str, float]:
        kept.append(model[0].weight.clone())  # type: ignore[index]
        return {"score": next(scores)}

    train = fit(evaluate=scored, monitor="score", mode="max")
    with pytest.raises(StopTrial):
        trained(train, Run(epochs=3, channel=Recorder(stop_at=3), folder=tmp_path, device="cpu"))
    model = trained(train, Run(epochs=3, channel=Recorder(), folder=tmp_path, device="cpu"))
    assert len(kept) == 4
    assert torch.equal(model[0].weight, kept[0])  # type: ignore[index]


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    first = trained(fit(), Run(epochs=3, channel=Recorder(), folder=tmp_path, device="cpu"))
    channel = Recorder()
    again = trained(fit(), Run(epochs=3, channel=channel, folder=tmp_path, device="cpu"))
    assert channel.reports == []
    assert torch.equal(again[0].weight, first[0].weight)  # type: ignore[index]


def test_batches_without_a_length_are_counted(tmp_path: Path) -> None:
    passes = []

    def stream() -> Iterator[Batch]:
        passes.append(1)
        yield from [(X[rows], Y[rows]) for rows in torch.arange(len(X)).split(8)]

    streamed = trained(fit(batches=stream), Run(epochs=2, channel=Recorder(), device="cpu"))
    assert len(passes) == 3
    listed = trained(fit(batches=lambda: list(stream())), Run(epochs=2, channel=Recorder(), device="cpu"))
    assert torch.equal(streamed[0].weight, listed[0].weight)  # type: ignore[index]


def test_no_batch_is_refused() -> None:
    with pytest.raises(TaskError) as caught:
        trained(fit(batches=list), Run(epochs=1, channel=Recorder()))
    assert str(caught.value) == "batches() gave no batch in epoch 1; it must start anew at each call"


def test_batches_that_run_out_are_refused() -> None:
    once = iter(batches() * 2)
    with pytest.raises(TaskError) as caught:
        trained(fit(batches=lambda: once), Run(epochs=2, channel=Recorder()))
    assert str(caught.value) == "batches() gave no batch in epoch 1; it must start anew at each call"


def test_a_monitored_metric_that_is_not_there() -> None:
    with pytest.raises(TaskError) as caught:
        trained(fit(monitor="val_accuracy"), Run(epochs=1, channel=Recorder()))
    assert str(caught.value) == "evaluate gave no val_accuracy, which Supervised monitors; it gave val_loss"


def test_an_evaluate_that_gives_a_bare_number() -> None:
    with pytest.raises(TaskError) as caught:
        trained(fit(evaluate=lambda model: 0.5), Run(epochs=1, channel=Recorder()))  # type: ignore[arg-type, return-value]
    assert str(caught.value) == (
        'Task.evaluate must return a mapping of metric names to numbers, such as {"val_accuracy": 0.91}; '
        "it returned 0.5 (float)"
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_the_products_are_in_the_lower_type(dtype: torch.dtype) -> None:
    types = []

    def watching_loss(model: nn.Module, batch: Batch) -> Tensor:
        y = model(batch[0])
        types.append(y.dtype)
        return nn.functional.mse_loss(y.float(), batch[1])

    train = Fit(
        batches=batches,
        loss=watching_loss,
        evaluate=evaluate,
        monitor="val_loss",
        mode="min",
        options=FitOptions(lr=0.03, weight_decay=0.0, warmup=0.1, clip=10.0),
        autocast=dtype,
        save_every_s=0.0,
    )
    model = trained(train, Run(epochs=40, channel=Recorder(), device="cpu"))
    assert set(types) == {dtype}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert evaluate(model)["val_loss"] < 0.1 * float(Y.var())


@pytest.mark.gpu
def test_it_trains_on_cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")

    def on_device(model: nn.Module) -> Mapping[str, float]:
        return {"val_loss": loss(model, (X.cuda(), Y.cuda())).item()}

    options = FitOptions(lr=0.03, weight_decay=0.0, warmup=0.1, clip=10.0)
    model = trained(fit(evaluate=on_device, options=options), Run(epochs=40, channel=Recorder(), device="cuda"))
    assert on_device(model)["val_loss"] < 0.1 * float(Y.var())
