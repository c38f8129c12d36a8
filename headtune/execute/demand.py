"""What one trial asks of the machine that it runs on."""

from dataclasses import dataclass

SHARE = 0.001
"""Of the one unit that Ray gives each machine's address and accelerator type: so little that a thousand trials fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """How much a trial asks, and where.

    Attributes:
        cpus: CPU cores.
        gpus: GPUs; a fraction shares one.
        node: address or host name of the one machine that will do; ``None`` for any.
        accelerator: Ray's name for the accelerator that the machine must have, such as ``A100``; ``None`` for any.
    """

    cpus: float = 1
    gpus: float = 0
    node: str | None = None
    accelerator: str | None = None

    def __str__(self) -> str:
        where = "" if self.node is None else f" on {self.node}"
        beside = "" if self.accelerator is None else f" beside accelerator {self.accelerator}"
        return f"{amounts(self.cpus, self.gpus)}{where}{beside}"

    @property
    def placed(self) -> bool:
        """Whether not every machine will do."""
        return self.node is not None or self.accelerator is not None

    @property
    def marks(self) -> dict[str, float]:
        """The place as Ray's resources; ``node`` must be an address."""
        node = {} if self.node is None else {f"node:{self.node}": SHARE}
        return node | ({} if self.accelerator is None else {f"accelerator_type:{self.accelerator}": SHARE})


def amounts(cpus: float, gpus: float) -> str:
    """CPUs and GPUs in words."""
    return " and ".join(f"{n:g} {name}{'' if n == 1 else 's'}" for n, name in ((cpus, "CPU"), (gpus, "GPU")))
