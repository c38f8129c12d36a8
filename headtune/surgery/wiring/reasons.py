"""Why the heads of a block cannot be followed, in words."""

KEEP = "keep all its heads"

NOT_LAID_OUT = f"its scores and its output are not computed head by head in a layout that can be followed; {KEEP}"

NOT_READ = f"its output is read by no projection; let an nn.Linear read it, or {KEEP}"

ON_META = "it is on the meta device, where heads have no values to follow; load the weights first"

BLIND = (
    "its values are the same at every position of these inputs, which shows nothing of its queries and keys; "
    "give inputs of two or more different tokens"
)

COMPUTED = "a weight that is computed in the forward pass; remove weight_norm, quantisation or the like first"

SEVERAL = f"it computes attention several times, each time with other projections; {KEEP}"


def no_projection(words: str) -> str:
    """Nothing is known of where *words* come from."""
    return (
        f"its {words} come from no projection that could be followed (a quantised layer, detach() or an autograd "
        f"function of its own may stand between); let an nn.Linear make them, or {KEEP}"
    )


def mixed(words: str, name: str) -> str:
    """Several heads' *words* are made of the same features."""
    return (
        f"the {words} of its heads share features of {name}: a norm over all heads, one map for every head or the "
        f"like, so that no head can go alone; {KEEP}"
    )


def out_of_order(words: str) -> str:
    """The features of several heads' *words* stand in other orders in their projections."""
    return (
        f"the {words} of its heads are laid out differently in their projections (flipped, or shifted by features that "
        "nothing passes on), so that no mean of their rows is a mean of heads; keep its key/value heads"
    )


def changed_before(name: str) -> str:
    """Something stands between the heads and the projection that reads them."""
    return (
        f"its heads are gated, normalised or mixed before {name or 'a projection'} reads them, so that they cannot be "
        f"followed; {KEEP}"
    )
