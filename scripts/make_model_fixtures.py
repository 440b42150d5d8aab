"""Records what Hugging Face transformers computes for tiny models, as JSON under src/models/fixtures/.

    python -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.17.0
    venv/bin/python scripts/make_model_fixtures.py && npx biome check --write src/models/fixtures

Everything runs in float64 with eager attention. The library rounds some intermediate values to float32 whatever the
dtype of the weights (root mean square, rotary angles, softmax); `in_float64` makes each of these float64 too, so that
the figures are those of the mathematics and a test may ask for twelve digits.

Weights are random with four decimals, which keeps the files short and exact. Losses are summed over the labels that
are not negative; gradients are of that sum. Labels stand at the position that predicts them: nothing is shifted.
"""

import contextlib
import json
import pathlib

import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "src" / "models" / "fixtures"


@contextlib.contextmanager
def in_float64():
    saved = torch.float, torch.float32, torch.Tensor.float
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float, torch.float32, torch.Tensor.float = saved


def fill(model):
    """Weights of every kind away from their usual start, so that no term of a gradient vanishes by luck."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            centre = 1.0 if parameter.ndim == 1 else 0.0
            parameter.copy_(torch.round((centre + 0.4 * values) * 1e4) / 1e4)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                values = torch.randn(buffer.shape, generator=generator, dtype=torch.float64)
                buffer.copy_(torch.round(0.1 * values * 1e4) / 1e4)


def tensors_of(model):
    """Name, values and gradient of all that a checkpoint holds, experts stacked but otherwise named as there."""
    mixtral = model.config.model_type == "mixtral"
    for name, parameter in model.named_parameters():
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        pair = parameter.detach(), parameter.grad
        if name.endswith(".experts.gate_up_proj"):
            stem = name.removesuffix("gate_up_proj")
            gate, up = zip(*(tensor.chunk(2, dim=1) for tensor in pair))
            yield f"{stem}{'w1' if mixtral else 'gate_proj'}.weight", *gate
            yield f"{stem}{'w3' if mixtral else 'up_proj'}.weight", *up
        elif name.endswith(".experts.down_proj"):
            yield f"{name.removesuffix('down_proj')}{'w2' if mixtral else 'down_proj'}.weight", *pair
        else:
            yield name, *pair
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            yield name, buffer, torch.zeros_like(buffer)


def record(name, model, batch, sequence):
    model = model.double().eval()
    fill(model)
    vocabulary = model.config.vocab_size
    generator = torch.Generator().manual_seed(11)
    tokens = torch.randint(0, vocabulary, (batch, sequence), generator=generator)
    labels = torch.randint(0, vocabulary, (batch, sequence), generator=generator)
    labels[1, 1] = -100
    logits = model(input_ids=tokens, use_cache=False).logits
    assert logits.dtype == torch.float64
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, vocabulary), labels.reshape(-1), ignore_index=-100, reduction="sum"
    )
    loss.backward()
    config = {
        key: value
        for key, value in json.loads(model.config.to_json_string(use_diff=False)).items()
        if not key.startswith("_") and value is not None
    }
    write(
        name,
        {
            "config": config,
            "tokens": tokens.tolist(),
            "labels": labels.tolist(),
            "loss": loss.item(),
            "parameters": {
                key: {
                    "shape": list(values.shape),
                    "values": values.flatten().tolist(),
                    "gradient": gradient.flatten().tolist(),
                }
                for key, values, gradient in tensors_of(model)
            },
        },
    )


def write(name, document):
    # One line for each parameter: short to read, short to compare.
    lines = []
    for key, value in document.items():
        if key == "parameters":
            inner = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f'  "parameters": {{\n{inner}\n  }}')
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    (FIXTURES / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def rotary(**options):
    # The real sizes of Llama 3.1: head size 128, theta 500000.
    config = LlamaConfig(
        hidden_size=4096, num_attention_heads=32, max_position_embeddings=131072, rope_parameters=options
    )
    frequencies, factor = ROPE_INIT_FUNCTIONS[options["rope_type"]](config)
    return {"parameters": options, "headDim": 128, "factor": factor, "frequencies": frequencies.tolist()}


with in_float64():
    torch.manual_seed(1)
    record(
        "gpt2",
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=11,
                n_positions=6,
                n_embd=8,
                n_layer=2,
                n_head=2,
                n_inner=20,
                attn_implementation="eager",
            )
        ),
        batch=2,
        sequence=5,
    )
    record(
        "llama",
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=11,
                hidden_size=8,
                intermediate_size=12,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=4,
                max_position_embeddings=32,
                rms_norm_eps=1e-5,
                rope_parameters={
                    "rope_type": "llama3",
                    "rope_theta": 20.0,
                    "factor": 4.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 2.0,
                    "original_max_position_embeddings": 16,
                },
                attn_implementation="eager",
            )
        ),
        batch=2,
        sequence=5,
    )
    record(
        "mixtral",
        MixtralForCausalLM(
            MixtralConfig(
                vocab_size=11,
                hidden_size=8,
                intermediate_size=6,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=4,
                max_position_embeddings=32,
                num_local_experts=4,
                num_experts_per_tok=2,
                rope_parameters={"rope_type": "default", "rope_theta": 20.0},
                attn_implementation="eager",
                experts_implementation="eager",
            )
        ),
        batch=2,
        sequence=5,
    )
    # Groups that leave experts out, a dense layer first, all of latent attention, and a rotary scaling that bites.
    record(
        "deepseek-v3",
        DeepseekV3ForCausalLM(
            DeepseekV3Config(
                vocab_size=11,
                hidden_size=8,
                intermediate_size=10,
                moe_intermediate_size=3,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=2,
                n_routed_experts=6,
                num_experts_per_tok=2,
                n_shared_experts=2,
                n_group=3,
                topk_group=2,
                first_k_dense_replace=1,
                q_lora_rank=5,
                kv_lora_rank=6,
                qk_nope_head_dim=3,
                qk_rope_head_dim=4,
                v_head_dim=5,
                max_position_embeddings=64,
                num_nextn_predict_layers=0,
                rope_parameters={
                    "rope_type": "yarn",
                    "rope_theta": 20.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": 16,
                    "beta_fast": 2,
                    "beta_slow": 1,
                    "mscale": 0.7,
                    "mscale_all_dim": 1.0,
                },
                attn_implementation="eager",
                experts_implementation="eager",
            )
        ),
        batch=2,
        sequence=7,
    )
    (FIXTURES / "rotary.json").write_text(
        json.dumps(
            [
                rotary(
                    rope_type="llama3",
                    rope_theta=500000.0,
                    factor=8.0,
                    low_freq_factor=1.0,
                    high_freq_factor=4.0,
                    original_max_position_embeddings=8192,
                ),
                rotary(rope_type="linear", rope_theta=10000.0, factor=4.0),
                rotary(
                    rope_type="yarn",
                    rope_theta=10000.0,
                    factor=40.0,
                    original_max_position_embeddings=4096,
                    beta_fast=32,
                    beta_slow=1,
                    mscale=0.7,
                    mscale_all_dim=1.0,
                ),
                rotary(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=2048),
            ],
            indent=2,
        )
        + "\n"
    )
