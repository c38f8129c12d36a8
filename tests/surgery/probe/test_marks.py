import gc

import torch
from torch import Tensor

from headtune.surgery.probe.flow import Flow
from headtune.surgery.probe.marks import Mark, Scores, Trail, Weights

FLOW = Flow(weights=frozenset({"w"}), positions=6, scale=1.0)
SCORES = Scores(q=FLOW, k=FLOW, num_heads=4, num_kv_heads=4, head_dim=2, two_inputs=False, scale=1.0)


def carried(mark: Mark, function: object, before: Tensor, after: Tensor, factor: float = 1.0) -> Mark:
    trail = Trail()
    trail.put(before, mark)
    trail.carry(function, [before], [after], factor)
    return trail.on(after)


def test_marks_belong_to_tensors_not_to_values() -> None:
    trail, x = Trail(), torch.ones(2)
    trail.put(x, Mark(loose=True))
    assert trail.on(x).loose
    assert trail.on(torch.ones(2)) == Mark()


def test_marks_die_with_their_tensors() -> None:
    trail, x = Trail(), torch.ones(2)
    trail.put(x, Mark(loose=True))
    del x
    gc.collect()
    assert len(trail._marks) == 0


def test_a_flow_passes_through_every_operation_and_collects_the_scale() -> None:
    x = torch.ones(2, 3, 8)
    assert carried(Mark(flow=FLOW), torch.Tensor.view, x, x.view(6, 8)).flow == FLOW
    scaled = carried(Mark(flow=FLOW), torch.mul, x, x * 3, factor=3.0).flow
    assert scaled == Flow(weights=frozenset({"w"}), positions=6, scale=3.0)
    grown = carried(Mark(flow=FLOW), Tensor.expand, x[:1], x[:1].expand(5, 3, 8)).flow
    assert grown.positions == 30
    halved = carried(Mark(flow=FLOW), torch.chunk, x, x[..., :4]).flow
    assert halved.positions == 6


def test_all_outputs_of_an_operation_are_marked() -> None:
    trail, x = Trail(), torch.ones(2, 8)
    trail.put(x, Mark(flow=FLOW))
    parts = list(x.chunk(2, -1))
    trail.carry(torch.chunk, [x], parts, 1.0)
    assert [trail.on(part).flow for part in parts] == [FLOW, FLOW]


def test_scores_stay_scores_while_they_are_a_map() -> None:
    x = torch.ones(2, 4, 5, 5)
    mark = Mark(scores=SCORES)
    assert carried(mark, torch.mul, x, x * 2, factor=2.0).scores.scale == 2.0
    assert carried(mark, Tensor.view, x, x.view(8, 5, 5)).scores == SCORES
    assert carried(mark, torch.add, x[:1], x[:1] + x).scores == SCORES
    assert carried(mark, Tensor.sum, x, x.sum(-1)).scores is None
    assert carried(mark, Tensor.mean, x, x.mean(1)).scores is None


def test_weights_and_loose_softmaxes_do_so_too() -> None:
    x = torch.ones(2, 4, 5, 5)
    weights = Weights(scores=SCORES, causal=True)
    assert carried(Mark(weights=weights, loose=True), torch.dropout, x, x.clone()) == Mark(weights=weights, loose=True)
    assert carried(Mark(weights=weights, loose=True), Tensor.sum, x, x.sum(-1)) == Mark()


def test_a_mixture_of_several_heads_weights_is_loose_and_known_as_such() -> None:
    x = torch.ones(2, 4, 5, 5)
    mark = Mark(weights=Weights(scores=SCORES, causal=True))
    assert carried(mark, Tensor.__getitem__, x, x[:, :2]) == Mark(loose=True, mixture=True)
    assert carried(mark, Tensor.mean, x, x.mean(1)) == Mark(loose=True, mixture=True)
    assert carried(Mark(loose=True, mixture=True), Tensor.mean, x, x.mean(1)) == Mark(loose=True, mixture=True)
    assert carried(Mark(loose=True, mixture=True), torch.mul, x, x * 2) == Mark(loose=True, mixture=True)


def test_fewer_softmaxes_of_anything_else_are_loose_only() -> None:
    x = torch.ones(2, 4, 5, 5)
    assert carried(Mark(loose=True), Tensor.mean, x, x.mean(1)) == Mark(loose=True)


def test_an_output_is_followed_to_its_projection_but_not_into_the_residual_stream() -> None:
    x = torch.ones(2, 4, 5, 3)
    assert carried(Mark(call=0), Tensor.transpose, x, x.transpose(1, 2)).call == 0
    assert carried(Mark(call=0), torch.mul, x, x * x).call == 0
    assert carried(Mark(call=0), torch.add, x, x + x).call is None
    assert carried(Mark(call=0), Tensor.mean, x, x.mean(1)).call is None
