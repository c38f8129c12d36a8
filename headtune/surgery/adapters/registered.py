"""An adapter of a person's own: complete from the start, and named wherever it fails."""

from dataclasses import dataclass
from typing import Any

from torch import nn

import headtune.rules as rules
from headtune.errors import HeadtuneError, SurgeryError, in_words, place_of
from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.adapter import Adapter
from headtune.surgery.probe import AttentionCall, Projections

MEMBERS = tuple(name for name in vars(Adapter) if not name.startswith("_"))

_MODULE = rules.a(nn.Module, "the edited model, a torch.nn.Module")
_NOTHING = rules.a(type(None), "None")
_REASON = rules.optional(rules.text)


def check_adapter(adapter: object) -> None:
    """Make sure that *adapter* has every member of the protocol.

    Raises:
        SurgeryError: names those that it lacks.
    """
    if isinstance(adapter, type):
        raise SurgeryError(f"register_adapter: {adapter.__name__} is a class: give an instance, {adapter.__name__}()")
    lacking = [name for name in MEMBERS if not _has(adapter, name)]
    if lacking:
        raise SurgeryError(
            f"register_adapter: {type(adapter).__name__} has no {', '.join(lacking)}, which every Adapter has; "
            "subclass headtune.surgery.Handwritten, and write only what is different"
        )


@dataclass(frozen=True, slots=True)
class Registered:
    """Passes every call on to a person's adapter; what it raises, or returns by mistake, is said in its name."""

    adapter: Adapter

    @property
    def reads_projections(self) -> bool:
        """As the adapter says."""
        return self.adapter.reads_projections

    def matches(self, module: nn.Module) -> bool:
        """As the adapter says."""
        return bool(self._ask("matches", rules.truth, module))

    def num_kv_heads(self, model: nn.Module, path: str, call: AttentionCall) -> int:
        """As the adapter says."""
        return int(self._ask("num_kv_heads", rules.count, model, path, call))

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """As the adapter says."""
        reason: str | None = self._ask("why_not_rehead", _REASON, model, site, wanted)
        return reason

    def why_not_resize(
        self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount
    ) -> str | None:
        """As the adapter says."""
        reason: str | None = self._ask("why_not_resize", _REASON, model, site, projections, wanted)
        return reason

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """As the adapter does."""
        self._ask("rehead", _NOTHING, model, site, wanted)

    def resize(self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount) -> nn.Module:
        """As the adapter does."""
        edited: nn.Module = self._ask("resize", _MODULE, model, site, projections, wanted)
        return edited

    def settle(self, model: nn.Module) -> None:
        """As the adapter does."""
        self._ask("settle", _NOTHING, model)

    def _ask(self, method: str, rule: rules.Rule, *args: object) -> Any:  # noqa: ANN401
        name = f"{type(self.adapter).__name__}.{method}"
        try:
            answer = getattr(self.adapter, method)(*args)
        except HeadtuneError:
            raise
        except Exception as error:
            raise SurgeryError(
                f"the adapter's {name} raised {in_words(error)} ({place_of(error)}); mend it, and check it by "
                "headtune.surgery.conformance"
            ) from error
        if problems := rules.broken({"what it returns": (answer, rule)}):
            raise SurgeryError(f"the adapter's {name}: {problems[0]}")
        return answer


def _has(adapter: object, name: str) -> bool:
    """Whether it is there, and no stub of the protocol that a subclass left as it is."""
    if not hasattr(adapter, name) or getattr(type(adapter), name, None) is vars(Adapter)[name]:
        return False
    return name == "reads_projections" or callable(getattr(adapter, name))
