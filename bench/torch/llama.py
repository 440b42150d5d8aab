"""
Llama as ordinary PyTorch, with the parameter names of Hugging Face: RMSNorm, rotary positions, SwiGLU, grouped-query
attention, a head of its own. And how its layers are cut over ranks that share them (Megatron-LM's 1-D).
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class Attention(nn.Module):
    def __init__(self, model: dict):
        super().__init__()
        hidden, self.head_dim = model["hidden"], model["hidden"] // model["heads"]
        keys = model["kvHeads"] * self.head_dim
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, keys, bias=False)
        self.v_proj = nn.Linear(hidden, keys, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.heads(linear(x)) for linear in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(attended.transpose(1, 2).flatten(2))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, this rank's heads * head_dim] -> [batch, heads, sequence, head_dim]"""
        return x.unflatten(2, (-1, self.head_dim)).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, model: dict):
        super().__init__()
        self.gate_proj = nn.Linear(model["hidden"], model["mlp"], bias=False)
        self.up_proj = nn.Linear(model["hidden"], model["mlp"], bias=False)
        self.down_proj = nn.Linear(model["mlp"], model["hidden"], bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, model: dict):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(model["hidden"], eps=model["epsilon"])
        self.self_attn = Attention(model)
        self.post_attention_layernorm = nn.RMSNorm(model["hidden"], eps=model["epsilon"])
        self.mlp = FeedForward(model)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, model: dict):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(model["vocab"], model["hidden"])
        self.model.layers = nn.ModuleList(Block(model) for _ in range(model["layers"]))
        self.model.norm = nn.RMSNorm(model["hidden"], eps=model["epsilon"])
        self.lm_head = nn.Linear(model["hidden"], model["vocab"], bias=False)
        head_dim = model["hidden"] // model["heads"]
        pairs = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        positions = torch.arange(model["context"], dtype=torch.float64)
        angles = torch.outer(positions, model["ropeTheta"] ** -pairs)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        cos, sin = (table[: tokens.shape[1]] for table in (self.cos, self.sin))
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x, cos, sin)
        return self.lm_head(self.model.norm(x))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=3)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=3)


def cut(llama: Llama, mesh: DeviceMesh, sequence_parallel: bool) -> None:
    """
    Column then row, vocabulary-parallel embedding, logits left cut by vocabulary. With `sequence_parallel` what lies
    between the cut layers is cut by positions instead of repeated. What several linear layers read is made whole, and
    its gradient reduced, once for all of them: PrepareModuleInput does that; without it each would reduce its own.
    """
    stream = Shard(1) if sequence_parallel else Replicate()
    norm = SequenceParallel() if sequence_parallel else None
    row = RowwiseParallel(output_layouts=stream)
    attention = PrepareModuleInput(
        input_layouts=(stream, None, None), desired_input_layouts=(Replicate(), None, None)
    )
    feed_forward = PrepareModuleInput(input_layouts=stream, desired_input_layouts=Replicate())
    outside = {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "model.norm": norm,
        "lm_head": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False),
    }
    of_block = {
        "input_layernorm": norm,
        "self_attn": attention,
        **{f"self_attn.{name}": ColwiseParallel() for name in ("q_proj", "k_proj", "v_proj")},
        "self_attn.o_proj": row,
        "post_attention_layernorm": norm,
        "mlp": feed_forward,
        **{f"mlp.{name}": ColwiseParallel() for name in ("gate_proj", "up_proj")},
        "mlp.down_proj": row,
    }
    for module, plan in [(llama, outside), *((block, of_block) for block in llama.model.layers)]:
        parallelize_module(module, mesh, {name: style for name, style in plan.items() if style is not None})
