import torch
from torch import nn

from headtune.timing import count_parameters


def test_closed_form_of_a_linear_chain() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 7, bias=False))
    assert count_parameters(model) == 3 * 5 + 5 + 5 * 7


def test_an_attention_block_has_four_square_projections_whatever_its_heads() -> None:
    for heads in (1, 2, 4, 8):
        assert count_parameters(nn.MultiheadAttention(64, heads)) == 4 * 64 * 64 + 4 * 64


def test_a_shared_parameter_counts_once() -> None:
    embedding, head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    head.weight = embedding.weight
    assert count_parameters(nn.ModuleList([embedding, head])) == 40


def test_frozen_weights_count_and_buffers_do_not() -> None:
    model = nn.BatchNorm1d(6).requires_grad_(False)
    model.register_buffer("table", torch.zeros(100))
    assert count_parameters(model) == 12
