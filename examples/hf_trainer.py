"""A small BERT in transformers' Trainer: are most tokens of a sequence large?

Alone:       python examples/hf_trainer.py
In a study:  task: examples/hf_trainer.py:task, with the objective eval_accuracy

Needs pip install 'headtune[hf]'.
"""

import tempfile

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import headtune
from headtune.errors import MissingExtraError

try:
    import accelerate  # noqa: F401 - Trainer needs it
    from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments
except ModuleNotFoundError as error:
    raise MissingExtraError("hf_trainer needs transformers: pip install 'headtune[hf]'") from error

WORDS, LENGTH = 12, 9


class Sequences(Dataset[dict[str, Tensor]]):
    """Random sequences, and whether most of their tokens are large; always the same for a seed."""

    def __init__(self, count: int, seed: int) -> None:
        self.tokens = torch.randint(WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
        self.labels = ((self.tokens >= WORDS // 2).sum(1) > LENGTH // 2).long()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def build_model() -> nn.Module:
    """A new BERT of two layers with 4 heads."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model: nn.Module = BertForSequenceClassification(
        BertConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, **sizes)
    )
    return model


def train(model: nn.Module, run: headtune.Run) -> None:
    """Let Trainer train: the callback reports each evaluation to *run*, and ends the training when it says so."""
    arguments = TrainingArguments(
        output_dir=tempfile.gettempdir(),
        num_train_epochs=run.epochs,
        learning_rate=2e-3,
        per_device_train_batch_size=64,
        eval_strategy="epoch",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=run.seed,
        use_cpu=run.device.type == "cpu",
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=Sequences(4096, seed=0),
        eval_dataset=Sequences(512, seed=1),
        compute_metrics=lambda seen: {"accuracy": float((seen.predictions.argmax(-1) == seen.label_ids).mean())},
        callbacks=[headtune.trainer_callback(run)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


@torch.no_grad()
def accuracy(model: nn.Module, seed: int) -> float:
    """Share of new sequences that are told right."""
    model.eval()
    data, device = Sequences(1024, seed), next(model.parameters()).device
    return float((model(data.tokens.to(device)).logits.argmax(-1).cpu() == data.labels).float().mean())


def task() -> headtune.Task:
    """The task; quality is what Trainer's last evaluation says."""
    return headtune.Task(
        model=build_model,
        inputs=lambda batch_size, seq_len: {"input_ids": torch.randint(WORDS, (batch_size, seq_len or LENGTH))},
        train=train,
        test=lambda model: {"test_accuracy": accuracy(model, seed=2)},
    )


def main() -> None:
    """Train once."""
    torch.manual_seed(0)
    model = build_model()
    train(model, headtune.Run(epochs=6))
    print(f"test accuracy: {accuracy(model, seed=2):.3f}")


if __name__ == "__main__":
    main()
