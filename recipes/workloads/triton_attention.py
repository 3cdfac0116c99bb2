"""Flash attention: keys and values in blocks, softmax kept online; lengths that divide nothing."""

import math

import numpy as np
import torch
import triton
import triton.language as tl

BATCH = 2
HEADS = 3
QUERIES = 77
KEYS = 83
DIM = 64
TILE_Q = 64
TILE_K = 32


@triton.jit
def attention(
    q, k, v, out, queries, keys, scale,
    DIM: tl.constexpr, TILE_Q: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    query = tl.program_id(0) * TILE_Q + tl.arange(0, TILE_Q)
    part = tl.arange(0, DIM)
    places = head * queries * DIM + query[:, None] * DIM + part[None, :]
    asked = tl.load(q + places, mask=query[:, None] < queries, other=0.0)
    most = tl.full((TILE_Q,), -float("inf"), tl.float32)
    total = tl.zeros((TILE_Q,), tl.float32)
    weighted = tl.zeros((TILE_Q, DIM), tl.float32)
    for first in range(0, keys, TILE_K):
        key = first + tl.arange(0, TILE_K)
        there = key < keys
        places_k = head * keys * DIM + key[:, None] * DIM + part[None, :]
        known = tl.load(k + places_k, mask=there[:, None], other=0.0)
        value = tl.load(v + places_k, mask=there[:, None], other=0.0)
        score = tl.dot(asked, tl.trans(known), input_precision="ieee") * scale
        score = tl.where(there[None, :], score, -float("inf"))
        larger = tl.maximum(most, tl.max(score, axis=1))
        weight = tl.exp(score - larger[:, None])
        shrink = tl.exp(most - larger)
        total = total * shrink + tl.sum(weight, axis=1)
        weighted = tl.dot(
            weight.to(value.dtype), value, weighted * shrink[:, None], input_precision="ieee"
        )
        most = larger
    result = weighted / total[:, None]
    tl.store(out + places, result.to(out.dtype.element_ty), mask=query[:, None] < queries)


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(BATCH, HEADS, QUERIES, DIM),
        torch.randn(BATCH, HEADS, KEYS, DIM),
        torch.randn(BATCH, HEADS, KEYS, DIM),
    ]


def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(q)
    attention[(triton.cdiv(QUERIES, TILE_Q), BATCH * HEADS)](
        q, k, v, out, QUERIES, KEYS, 1.0 / math.sqrt(DIM), DIM, TILE_Q, TILE_K, num_warps=4
    )
    return out


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    score = q @ np.swapaxes(k, -1, -2) / math.sqrt(DIM)
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True) @ v
