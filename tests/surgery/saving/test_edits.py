import copy
import pickle

import torch
from torch import nn

from headtune.heads import HeadCount
from headtune.surgery.saving.edits import NONE, Edits, edits_of, is_mark, mark


def test_a_mark_goes_where_its_module_goes_and_is_no_state() -> None:
    module = nn.Linear(2, 2)
    assert edits_of(module) is NONE
    edits = Edits(attributes=frozenset({"num_heads"}), count=HeadCount(2, 2, 4))
    mark(module, edits)
    assert list(module.state_dict()) == ["weight", "bias"]
    module.load_state_dict(nn.Linear(2, 2).state_dict())
    for copied in (module, copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        assert edits_of(copied.to(torch.float64)) == edits


def test_nothing_to_say_leaves_no_mark() -> None:
    module = nn.Linear(2, 2)
    before = dict(vars(module))
    mark(module, NONE)
    assert vars(module) == before
    mark(module, Edits(tensors=frozenset({"weight"})))
    assert [name for name in vars(module) if name not in before] == [name for name in vars(module) if is_mark(name)]


def test_later_edits_add_to_earlier_ones_and_the_last_count_holds() -> None:
    first = Edits(attributes=frozenset("a"), fields=frozenset({("c", "x")}), count=HeadCount(8, 8, 1))
    then = Edits(attributes=frozenset("b"), tensors=frozenset({"w"}), count=HeadCount(4, 4, 1))
    assert first.followed_by(then) == Edits(
        attributes=frozenset("ab"),
        fields=frozenset({("c", "x")}),
        tensors=frozenset({"w"}),
        count=HeadCount(4, 4, 1),
    )
    assert then.followed_by(NONE) == then
