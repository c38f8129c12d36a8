"""Multi-head attention whose width is free: ``num_heads * head_dim`` need not be ``embed_dim``.

B batch, T queries, S keys, E embed_dim, H query heads, K key/value heads, D features per head.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import PlanError
from headtune.nn.local import local_attention
from headtune.nn.masks import merge


class HeadedAttention(nn.Module):
    """Drop-in for ``nn.MultiheadAttention`` with its own ``head_dim`` and grouped key/value heads.

    The constructor and ``forward`` take what ``nn.MultiheadAttention`` takes, in the same order, and with equal weights
    compute the same wherever both exist. One exception: with ``add_bias_kv`` or ``add_zero_attn`` the ``is_causal``
    hint never stands in for ``attn_mask`` (PyTorch applies it to the lengthened keys and so masks the added ones).

    It works inside ``nn.TransformerEncoderLayer`` and ``nn.TransformerDecoderLayer``, where it takes the ordinary path:
    PyTorch's fused encoder layer and nested tensors know no such widths.

    With a ``window`` every query sees the keys less than so many positions away, and nothing else is computed, so that
    time and memory grow with the length and not with its square. The ``is_causal`` hint then also spares later keys;
    ``attn_mask`` is read along the band alone. Queries and keys are of one sequence, and no weights are returned.

    References:
        Vaswani et al., Attention Is All You Need, 2017; Ainslie et al., GQA: Training Generalized Multi-Query
        Transformer Models from Multi-Head Checkpoints, 2023; Beltagy, Peters and Cohan, Longformer: The Long-Document
        Transformer, 2020 (§3.1, sliding window).

    Args:
        embed_dim: features of the queries that come in and of the output.
        num_heads: query heads.
        dropout: on the attention weights, while training.
        bias: whether the four projections have biases.
        add_bias_kv: append one learned key and value to every sequence.
        add_zero_attn: append one zero key and value to every sequence.
        kdim: features of the keys that come in; ``embed_dim`` when None.
        vdim: features of the values that come in; ``embed_dim`` when None.
        batch_first: ``(B, T, E)`` instead of ``(T, B, E)``.
        device: of the parameters.
        dtype: of the parameters.
        head_dim: features per head; ``embed_dim / num_heads`` when None.
        num_kv_heads: key/value heads, a divisor of ``num_heads``; ``num_heads`` when None.
        window: a causal query sees so many keys, its own among them, any other one as many to each side; every key when
            None. Not with ``add_bias_kv`` or ``add_zero_attn``, whose keys have no position.

    Raises:
        PlanError: the counts do not fit each other, or a window does not fit the options.
    """

    # nn.TransformerEncoder(Layer) reads these to choose its path; so valued, they rule out its fused kernel.
    in_proj_weight: None = None
    in_proj_bias: None = None
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        head_dim: int | None = None,
        num_kv_heads: int | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.window = embed_dim, num_heads, window
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check(embed_dim, num_heads, self.num_kv_heads, head_dim, window)
        if window is not None and (add_bias_kv or add_zero_attn):
            option = "add_bias_kv" if add_bias_kv else "add_zero_attn"
            raise PlanError(f"HeadedAttention: {option} appends a key without a position; use no window with it")
        self.head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn

        width, kv_width = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(embed_dim, width, bias, device, dtype)
        self.k_proj = nn.Linear(self.kdim, kv_width, bias, device, dtype)
        self.v_proj = nn.Linear(self.vdim, kv_width, bias, device, dtype)
        self.out_proj = nn.Linear(width, embed_dim, bias, device, dtype)
        self.bias_k: nn.Parameter | None = None
        self.bias_v: nn.Parameter | None = None
        if add_bias_kv:
            self.bias_k = nn.Parameter(torch.empty(1, 1, kv_width, device=device, dtype=dtype))
            self.bias_v = nn.Parameter(torch.empty(1, 1, kv_width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights as ``nn.MultiheadAttention`` does: Xavier uniform going in, Kaiming uniform going out."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        stacked = self.kdim == self.vdim == self.embed_dim
        rows = sum(projection.out_features for projection in projections)
        for projection in projections:
            # PyTorch draws q, k and v as one stacked matrix when they read equal widths: its fan-out counts all rows.
            fan_out = rows if stacked else projection.out_features
            bound = math.sqrt(6 / (projection.in_features + fan_out))
            nn.init.uniform_(projection.weight, -bound, bound)
        self.out_proj.reset_parameters()
        for projection in (*projections, self.out_proj):
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` to ``key`` and ``value``; arguments and results are those of ``nn.MultiheadAttention``.

        Args:
            query: ``(B, T, E)`` if ``batch_first``, else ``(T, B, E)``; or ``(T, E)`` without a batch.
            key: the same with S and ``kdim``.
            value: the same with S and ``vdim``.
            key_padding_mask: ``(B, S)``, or ``(S,)`` without a batch; boolean (True is padding) or added to the scores.
            need_weights: also return the attention weights, which needs the slower, unfused computation.
            attn_mask: ``(T, S)`` or ``(B*H, T, S)``; boolean (True is blocked) or added to the scores.
            average_attn_weights: return the weights' mean over heads, ``(B, T, S)``, instead of ``(B, H, T, S)``.
            is_causal: a hint that ``attn_mask`` is the causal mask, which must still be given.

        Returns:
            The output, shaped like ``query``, and the weights or None.

        Raises:
            RuntimeError: a nested tensor, a causal hint without a mask, or a 3-D mask for another head count; with a
                window also keys of another length, and weights that are needed.
        """
        if query.is_nested:
            raise RuntimeError("HeadedAttention takes no nested tensors: set use_nested_tensor=False on the encoder")
        if is_causal and attn_mask is None:
            raise RuntimeError("is_causal is a hint about attn_mask: give attn_mask too")
        batched = query.dim() == 3
        if not batched:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        # The kernel's own causal mode goes with no other mask, that of a window with any.
        local = self.window is not None and self.window < query.shape[1]
        hinted = is_causal and (key_padding_mask is None or local) and not need_weights
        output, weights = self._attend(query, key, value, key_padding_mask, attn_mask, need_weights, hinted)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        need_weights: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The output ``(B, T, E)`` and the weights ``(B, H, T, S)``, if needed, of batch-first inputs."""
        if self.window is not None:
            self._check_local(query.shape[1], key.shape[1], need_weights)
        q_BHTD = self._split(self.q_proj(query), self.num_heads)
        k_BKSD, v_BKSD, extra = self._keys_and_values(key, value)
        if self.window is not None and self.window < query.shape[1]:
            o_BHTD = local_attention(
                q_BHTD,
                k_BKSD,
                v_BKSD,
                self.window,
                causal=is_causal,
                attn_mask=None if is_causal else attn_mask,
                key_padding_mask=key_padding_mask,
                dropout=self.dropout if self.training else 0.0,
            )
            return self.out_proj(o_BHTD.transpose(1, 2).flatten(2)), None
        is_causal = is_causal and not extra
        bias = merge(
            None if is_causal else attn_mask,
            key_padding_mask,
            batch=query.shape[0],
            num_heads=self.num_heads,
            extra=extra,
            dtype=q_BHTD.dtype,
        )
        weights = None
        if need_weights:
            o_BHTD, weights = self._unfused(q_BHTD, k_BKSD, v_BKSD, bias)
        else:
            o_BHTD = self._fused(q_BHTD, k_BKSD, v_BKSD, bias, is_causal)
        return self.out_proj(o_BHTD.transpose(1, 2).flatten(2)), weights

    def _check_local(self, queries: int, keys: int, need_weights: bool) -> None:
        if need_weights:
            raise RuntimeError(
                f"HeadedAttention with window={self.window} computes no whole matrix of weights: call it with "
                "need_weights=False"
            )
        if queries != keys:
            raise RuntimeError(
                f"HeadedAttention with window={self.window} attends within one sequence: got {queries} queries and "
                f"{keys} keys; set window=None for cross attention"
            )

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """``(B, T, heads * D)`` as ``(B, heads, T, D)``."""
        return x.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)

    def _keys_and_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, int]:
        """Keys and values ``(B, K, S + extra, D)``, and how many were appended."""
        k, v, extra = self.k_proj(key), self.v_proj(value), 0
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.to(k.dtype).expand(k.shape[0], -1, -1)], dim=1)
            v = torch.cat([v, self.bias_v.to(v.dtype).expand(v.shape[0], -1, -1)], dim=1)
            extra += 1
        if self.add_zero_attn:
            k, v, extra = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)), extra + 1
        return self._split(k, self.num_kv_heads), self._split(v, self.num_kv_heads), extra

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, is_causal: bool) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        grouped = self.num_kv_heads != self.num_heads
        return F.scaled_dot_product_attention(q, k, v, bias, dropout, is_causal, enable_gqa=grouped)

    def _unfused(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        group = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores_BHTS = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
        weights_BHTS = F.softmax(scores_BHTS if bias is None else scores_BHTS + bias, dim=-1)
        weights_BHTS = F.dropout(weights_BHTS, self.dropout, self.training)
        return weights_BHTS @ v, weights_BHTS

    def extra_repr(self) -> str:
        """The counts, for ``print(model)``."""
        window = "" if self.window is None else f", window={self.window}"
        heads = f"{self.num_heads}/{self.num_kv_heads}"
        return f"embed_dim={self.embed_dim}, heads={heads}, head_dim={self.head_dim}{window}"


def _check(embed_dim: int, num_heads: int, num_kv_heads: int, head_dim: int | None, window: int | None) -> None:
    """Raise a PlanError that names every count that does not fit."""
    problems = [
        f"HeadedAttention: {name} is {count}; it must be at least 1"
        for name, count in (
            ("embed_dim", embed_dim),
            ("num_heads", num_heads),
            ("num_kv_heads", num_kv_heads),
            ("head_dim", 1 if head_dim is None else head_dim),
            ("window", 1 if window is None else window),
        )
        if count < 1
    ]
    if not problems and num_heads % num_kv_heads:
        problems.append(
            f"HeadedAttention: {num_heads} heads cannot share {num_kv_heads} kv heads; choose a divisor of {num_heads}"
        )
    if not problems and head_dim is None and embed_dim % num_heads:
        problems.append(f"HeadedAttention: embed_dim {embed_dim} does not divide into {num_heads} heads; give head_dim")
    if problems:
        raise PlanError(*problems)
