"""GPT-2 as ordinary PyTorch: pre-norm blocks, learned positions, tanh GELU, head tied to the embedding."""

import json
import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(hidden)
        self.c_attn = nn.Linear(hidden, 3 * hidden)
        self.c_proj = nn.Linear(hidden, hidden)
        self.ln_2 = nn.LayerNorm(hidden)
        self.c_fc = nn.Linear(hidden, 4 * hidden)
        self.c_out = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, hidden = x.shape
        parts = self.c_attn(self.ln_1(x)).split(hidden, dim=2)
        q, k, v = (p.view(batch, sequence, self.heads, hidden // self.heads).transpose(1, 2) for p in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Stage(nn.Module):
    """Layers `first` up to `last` of the model; the first stage also embeds, the last also makes logits."""

    def __init__(self, model: dict, first: int, last: int):
        super().__init__()
        hidden = model["hidden"]
        self.embeds = first == 0
        self.heads_out = last == model["layers"]
        if self.embeds or self.heads_out:
            self.wte = nn.Embedding(model["vocab"], hidden)
        if self.embeds:
            self.wpe = nn.Embedding(model["context"], hidden)
        self.h = nn.ModuleList(Block(hidden, model["heads"]) for _ in range(first, last))
        if self.heads_out:
            self.ln_f = nn.LayerNorm(hidden)
        self.first = first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embeds:
            x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight) if self.heads_out else x

    def load(self, weights: dict) -> None:
        """Takes the weights by their Hugging Face names; linear layers are stored [in, out] there."""
        inside = {"c_attn": "attn.c_attn", "c_proj": "attn.c_proj", "c_fc": "mlp.c_fc", "c_out": "mlp.c_proj"}
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parts = name.split(".")
                if parts[0] == "h":
                    parts[1] = str(int(parts[1]) + self.first)
                    parts[2] = inside.get(parts[2], parts[2])
                linear = parts[0] == "h" and parts[-1] == "weight" and "ln_" not in parts[2]
                value = weights["transformer." + ".".join(parts)]
                parameter.copy_(value.t() if linear else value)


def summed_loss(scale: float):
    """Cross-entropy summed over the targets, times `scale`."""

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") * scale

    return loss


def mean_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def make_optimizer(module: nn.Module, settings: dict, fused: bool) -> torch.optim.Optimizer:
    """
    AdamW as PyTorch makes it by default, or its fused form. On a CPU the default is the loop over tensors; asking for
    `foreach` gives the same loop there. Biases and norms do not decay.
    """
    parameters = list(module.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings["weightDecay"]},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=settings["learningRate"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["epsilon"],
        fused=True if fused else None,
    )


def read_safetensors(path: str) -> dict:
    """The f32 tensors of a safetensors file: a length, a JSON header, raw bytes."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, _ = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.float32, count=math.prod(entry["shape"]), offset=begin)
        tensors[name] = flat.view(entry["shape"])
    return tensors
