"""The machines of a Ray cluster: which of them a trial may run on, and how many it holds there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from headtune.errors import InputError
from headtune.execute.demand import Demand, amounts

_ACCELERATOR = "accelerator_type:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine of the cluster, as Ray sees it.

    Attributes:
        accelerators: Ray's names for what it has, such as ``A100``.
    """

    address: str
    host: str
    cpus: float
    gpus: float
    accelerators: tuple[str, ...]

    def __str__(self) -> str:
        return self.address if self.host in ("", self.address) else f"{self.address} ({self.host})"

    def suits(self, demand: Demand) -> bool:
        """Whether it is where the demand says, whatever its size."""
        return demand.node in (None, self.address) and demand.accelerator in (None, *self.accelerators)

    def holds(self, demand: Demand) -> int:
        """How many trials it holds at once."""
        asked = [(self.cpus, demand.cpus), (self.gpus, demand.gpus)]
        # Half a GPU fits twice although floats may say 1.9999….
        return min(int(has / amount + 1e-9) for has, amount in asked if amount > 0)


def machines() -> tuple[Machine, ...]:
    """Those that are alive."""
    return tuple(_machine(node) for node in ray.nodes() if node["Alive"])  # type: ignore[no-untyped-call]


def capacity(demand: Demand) -> int:
    """How many trials the cluster holds at once where they may run; a trial lies on one machine."""
    return sum(machine.holds(demand) for machine in machines() if machine.suits(demand))


def located(cluster: str, demand: Demand) -> Demand:
    """The demand with its node's address, if some machine can hold it.

    Raises:
        InputError: no such machine, no such accelerator, or nothing large enough; with what there is.
    """
    there = machines()
    if demand.node is not None:
        demand = replace(demand, node=_address(cluster, demand.node, there))
    suitable = [machine for machine in there if machine.suits(demand)]
    if not suitable:
        raise InputError(_no_accelerator(cluster, demand, there))
    if not any(machine.holds(demand) for machine in suitable):
        sizes = dict.fromkeys(amounts(machine.cpus, machine.gpus) for machine in suitable)
        has = f"has {next(iter(sizes))}" if len(sizes) == 1 else f"has machines of {', of '.join(sizes)}"
        raise InputError(
            f"resources: a trial asks {demand}; the {cluster} cluster {has}{' there' if demand.placed else ''}: "
            "ask less, or name a cluster that has them"
        )
    return demand


def _address(cluster: str, node: str, there: Sequence[Machine]) -> str:
    found = dict.fromkeys(machine.address for machine in there if node in (machine.address, machine.host))
    if len(found) > 1:
        raise InputError(f"resources.node: {node} is the name of several machines; name one of {', '.join(found)}")
    if not found:
        known = ", ".join(map(str, there)) or "none"
        raise InputError(f"resources.node: the {cluster} cluster has no machine {node!r}; it has {known}")
    return next(iter(found))


def _no_accelerator(cluster: str, demand: Demand, there: Sequence[Machine]) -> str:
    known = {machine: ", ".join(machine.accelerators) for machine in there if machine.accelerators}
    has = "; ".join(f"{names} on {machine}" for machine, names in known.items()) or "none that Ray knows"
    return (
        f"resources.accelerator: the {cluster} cluster has no {demand.accelerator}"
        f"{'' if demand.node is None else f' on {demand.node}'}; it has {has}"
    )


def _machine(node: dict[str, Any]) -> Machine:
    resources: dict[str, float] = node["Resources"]
    return Machine(
        address=node["NodeManagerAddress"],
        host=node["NodeManagerHostname"],
        cpus=resources.get("CPU", 0),
        gpus=resources.get("GPU", 0),
        accelerators=tuple(
            sorted(name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR))
        ),
    )
