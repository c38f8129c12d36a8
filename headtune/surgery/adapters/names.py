"""What people call the numbers of an attention block."""

import re

from headtune.heads.count import HeadCount

_PATTERNS = {
    "heads": r"(n|num|nb|number_of)?_?((q|query|local|attn|attention)_)?heads?(_num|_count)?|n?h|n_h",
    "kv_heads": r"(n|num|nb)?_?(local_)?(kv|key_value)_?(heads?|h)?|(n|num)?_?heads_kv|h_kv|(n|num)?_?query_groups",
    "group_size": r"(n|num)_rep(eat)?s?|kv_rep(eat)?s?|num_key_value_groups|((n|num)_)?(q|queries|heads)_per_(kv|group)"
    r"|group_(size|heads)",
    "head_dim": r"(attn_|attention_)?head_(dim|size|width|features|channels)|dim_head|(d|dim)_?(head|kv|[qkvh])"
    r"|(qk|k|v|key|value)_dim|(dim|d|size|channels|features)_per_head|key_value_proj_dim|hd|hs",
    "width": r"(d|dim)_(inner|attn)|inner|(total|all)_head_(dim|size)"
    r"|split_size|(inner|attn|attention|q|qkv|proj|projection|internal|total)_(dim|size|width)",
    "kv_width": r"(kv|k|v)_(size|dim|width)|dim_kv|(inner_kv|kv_inner)(_dim)?",
}
_QUANTITIES = {quantity: re.compile(pattern) for quantity, pattern in _PATTERNS.items()}
_GROUPS = re.compile(r"((n|num)_)?(kv_)?groups?")
_SHORT = frozenset({"h", "nh", "n_h", "head"})


def quantities(count: HeadCount) -> dict[str, int]:
    """Every number that follows from a count, by name."""
    return {
        "heads": count.num_heads,
        "kv_heads": count.num_kv_heads,
        "group_size": count.num_heads // count.num_kv_heads,
        "head_dim": count.head_dim,
        "width": count.num_heads * count.head_dim,
        "kv_width": count.num_kv_heads * count.head_dim,
    }


def meant(name: str, value: int, count: HeadCount) -> str | None:
    """Which quantity an attribute of that name and value holds in a block with that count; None for none."""
    plain, numbers = _plain(name), quantities(count)
    candidates = [quantity for quantity, pattern in _QUANTITIES.items() if pattern.fullmatch(plain)]
    # Plain groups may also be those of a norm or a convolution: only grouped heads make them ours.
    if _GROUPS.fullmatch(plain) and count.num_kv_heads < count.num_heads:
        candidates += ["kv_heads", "group_size"]
    return next((quantity for quantity in candidates if numbers[quantity] == value), None)


def names_a_quantity(name: str) -> bool:
    """Whether an attribute of that name may hold a head count, whatever its value."""
    return any(pattern.fullmatch(_plain(name)) for pattern in _QUANTITIES.values())


def is_short(name: str) -> bool:
    """Whether a name for heads is one that often means something else: ``h`` may well be a height."""
    return _plain(name) in _SHORT


def spells_out_heads(name: str) -> bool:
    """Whether a name surely means query heads."""
    return _QUANTITIES["heads"].fullmatch(_plain(name)) is not None and not is_short(name)


def _plain(name: str) -> str:
    return name.lower().lstrip("_")
