"""A small vision transformer on scikit-learn's handwritten digits.

Alone:       python examples/digits_vit.py
In a study:  headtune search studies/digits_vit.yaml
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import headtune

PATCH = 2  # pixels a side: 16 patches of a picture of 8 × 8
WIDTH = 64
LAYERS = 3
HEADS = 4
BATCH = 32

Digits = tuple[Tensor, Tensor]
"""Pictures (N, 8, 8) and their labels (N,)."""


def load() -> tuple[Digits, Digits, Digits]:
    """898 digits to train on, 360 to steer by, 539 to judge by."""
    pictures, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pictures, dtype=torch.float32).view(-1, 8, 8), torch.tensor(labels)
    rest, test = train_test_split(range(len(y)), test_size=539, random_state=0, stratify=y)
    train, val = train_test_split(rest, test_size=360, random_state=0, stratify=y[rest])
    x = (x - x[train].mean()) / x[train].std()
    return (x[train], y[train]), (x[val], y[val]), (x[test], y[test])


train, val, test = load()


class ViT(nn.Module):
    """Pictures to the logits of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(PATCH * PATCH, WIDTH)
        self.position = nn.Parameter(torch.randn((8 // PATCH) ** 2, WIDTH) * 0.3)
        self.layers = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(WIDTH, HEADS, WIDTH, dropout=0.0, batch_first=True, norm_first=True)
                for _ in range(LAYERS)
            )
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.digit = nn.Linear(WIDTH, 10)

    def forward(self, pictures: Tensor) -> Tensor:  # (B, 8, 8)
        """Return logits, (B, 10)."""
        patches = pictures.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).flatten(3).flatten(1, 2)  # (B, 16, 4)
        x = self.layers(self.patch(patches) + self.position)
        logits: Tensor = self.digit(self.norm(x.mean(1)))
        return logits


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Pictures to time the model with; their number of patches is fixed."""
    return (torch.randn(batch_size, 8, 8),)


def batches() -> list[Digits]:
    """The training digits, shuffled."""
    x, y = train
    return [(x[rows], y[rows]) for rows in torch.randperm(len(y)).split(BATCH)]


def loss(model: nn.Module, batch: Digits) -> Tensor:
    """Cross-entropy."""
    pictures, labels = batch
    return F.cross_entropy(model(pictures), labels)


def accuracy(model: nn.Module, digits: Digits) -> float:
    """Share of *digits* that the model reads right."""
    device = next(model.parameters()).device
    pictures, labels = digits
    with torch.no_grad():
        return int((model(pictures.to(device)).argmax(1).cpu() == labels).sum()) / len(labels)


task = headtune.Supervised(
    model=ViT,
    inputs=inputs,
    batches=batches,
    loss=loss,
    evaluate=lambda model: {"val_accuracy": accuracy(model, val)},
    test=lambda model: {"test_accuracy": accuracy(model, test)},
    monitor="val_accuracy",
    mode="max",
    lr=3e-3,
)

if __name__ == "__main__":
    torch.manual_seed(0)
    model = ViT()
    assert task.train is not None
    task.train(model, headtune.Run(epochs=10))
    print(f"test accuracy: {accuracy(model, test):.3f}")
