"""A byte-level GPT in plain PyTorch: nothing in this file knows that it will be trained sharded.

Shapes: B batch, T bytes in the context, D model width, H heads, V vocabulary (256 bytes).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes of the GPT; the defaults are tuned for five minutes on two CPU cores."""

    vocabulary: int = 256
    context: int = 128
    width: int = 192
    heads: int = 6
    layers: int = 4


class Block(nn.Module):
    """One transformer block, pre-norm; [B, T, D] to [B, T, D]."""

    def __init__(self, config: ModelConfig) -> None:
        """Makes the layers of one block."""
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Attention and MLP, each added to its input."""
        batch, length, width = x_BTD.shape
        qkv = self.qkv(self.attention_norm(x_BTD))
        q, k, v = qkv.view(batch, length, 3, self.heads, width // self.heads).unbind(2)
        mixed = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x_BTD = x_BTD + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x_BTD + self.down(functional.gelu(self.up(self.mlp_norm(x_BTD)), approximate="tanh"))


class GPT(nn.Module):
    """Embedding, blocks, norm, and a head that shares its weight with the embedding."""

    def __init__(self, config: ModelConfig) -> None:
        """Makes the layers; weights start as in GPT-2."""
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.apply(_initialise)
        for block in self.blocks:
            for last in (block.proj, block.down):
                nn.init.normal_(last.weight, std=0.02 / (2 * config.layers) ** 0.5)

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor | None = None) -> Tensor:
        """The mean cross-entropy in nats (a scalar) if there are targets, else logits [B, T, V]."""
        position = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        x_BTD = self.embedding(tokens_BT) + self.position(position)
        for block in self.blocks:
            x_BTD = block(x_BTD)
        logits_BTV: Tensor = self.head(self.norm(x_BTD))
        if targets_BT is None:
            return logits_BTV
        return functional.cross_entropy(logits_BTV.flatten(0, 1).float(), targets_BT.flatten())


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
