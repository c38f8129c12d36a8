import torch
from torch import nn

from headtune.surgery.tables import head_tables


class Windowed(nn.Module):
    """Biases for four heads, one of them a parameter; an index and a linear map that only look like tables."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(9, 4))
        self.relative = nn.Embedding(32, 4)
        self.register_buffer("slopes", torch.zeros(4, 1, 1))
        self.register_buffer("index", torch.zeros(4, 4, dtype=torch.long))
        self.scale = nn.Parameter(torch.zeros(4))
        self.q = nn.Linear(4, 4)


def test_tables_with_an_entry_for_each_head() -> None:
    assert head_tables(Windowed(), 4) == "table (9, 4), relative.weight (32, 4), slopes (4, 1, 1)"


def test_no_table_for_another_number_of_heads() -> None:
    assert head_tables(Windowed(), 8) is None
