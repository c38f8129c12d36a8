"""What more attention heads of the same width cost: one attention block with 2, 4 and 8 heads beside one with one head.

    python studies/heads_cost/heads_cost.py [--batch 4] [--threads 1]

The blocks are the study's own, in ``blocks.py``: four linear maps around attention that is written out or torch's
``scaled_dot_product_attention``. Their weights are equal, only the cut into heads differs, so that whatever time they
differ by is what the heads cost. ``headtune.measure`` times each in turn with a block of one head; one head beside one
head shows how far chance takes the figures. Writes ``heads_cost.csv``, ``heads_cost.png`` and a ``README.md`` that says
what the figures show.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import torch
from blocks import timed
from cells import GROUPS, HEADS, LENGTHS, Cell, published, write_csv
from heads_findings import quoted, readme
from heads_picture import picture

from headtune.timing import LatencyProtocol, resolve
from headtune.timing.protocol import Dtype

FOLDER = Path(__file__).parent


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="What more attention heads of the same width cost.")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:<index>, mps or xpu")
    parser.add_argument("--batch", type=int, default=32, help="sequences per pass")
    parser.add_argument("--dtype", default="float32", choices=get_args(Dtype))
    parser.add_argument("--threads", type=int, default=None, help="CPU threads; torch's own number if left out")
    parser.add_argument("--rounds", type=int, default=30, help="pairs that each figure wants at least")
    parser.add_argument("--seconds", type=float, default=4.0, help="a figure takes so long, five times that at most")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="positions of the sequences")
    parser.add_argument("--width", type=int, default=512, help="d_model, a multiple of 8")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the three files")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the three files."""
    options = parsed(arguments)
    protocol = resolve(
        LatencyProtocol(
            device=options.device,
            threads=options.threads,
            dtype=options.dtype,
            batch_size=options.batch,
            min_samples=options.rounds,
            max_seconds=options.seconds,
        ),
        torch.get_num_threads(),
    )
    cells: list[Cell] = []
    for (mode, attention), length, heads in product(GROUPS, sorted(set(options.lengths)), HEADS):
        cell = timed(replace(protocol, mode=mode, seq_len=length), options.width, heads, attention)
        print(f"{mode:11}{attention:13}{length:>6}{heads:>3}{cell.one_head_ms:>10.4g} ms  {quoted(cell)}", flush=True)
        cells.append(cell)
    cells.extend(published())
    options.output.mkdir(parents=True, exist_ok=True)
    write_csv(cells, options.output / "heads_cost.csv")
    (options.output / "heads_cost.png").write_bytes(picture(cells).png())
    command = shlex.join(["python", "studies/heads_cost/heads_cost.py", *arguments])
    (options.output / "README.md").write_text(readme(cells, command, options.width), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
