"""One training step in four forms: one process, DistributedDataParallel, 1F1B pipeline, tensor parallel."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel

from llama import Llama, cut
from model import Stage, make_optimizer, mean_loss, summed_loss

Batches = list[tuple[torch.Tensor, torch.Tensor]]
# Runs step number `index` and gives its loss (as far as this rank knows it).
Step = Callable[[int], float]


def whole_model(job: dict, weights: dict) -> Stage:
    stage = Stage(job["model"], 0, job["model"]["layers"])
    stage.load(weights)
    return stage


def replica_step(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    around: Callable[[], AbstractContextManager] = nullcontext,
) -> Step:
    def step(index: int) -> float:
        tokens, labels = batches[index % len(batches)]
        optimizer.zero_grad(set_to_none=True)
        with around():
            loss = mean_loss(module(tokens), labels)
            loss.backward()
        optimizer.step()
        return loss.item()

    return step


def make_single(job: dict, weights: dict, batches: Batches, fused: bool) -> Step:
    module = whole_model(job, weights)
    return replica_step(module, make_optimizer(module, job["optimizer"], fused), batches)


def make_data(job: dict, weights: dict, batches: Batches, fused: bool) -> Step:
    """Each rank takes its run of the samples; gradients are averaged, so the mean loss of each is the right one."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    share = job["samples"] // ranks
    mine = [tuple(part[rank * share : (rank + 1) * share].contiguous() for part in batch) for batch in batches]
    # The settings with which it is fastest here.
    options = {"gradient_as_bucket_view": True, "static_graph": True}
    module = DistributedDataParallel(whole_model(job, weights), **options)
    return replica_step(module, make_optimizer(module, job["optimizer"], fused), mine)


def make_pipeline(job: dict, weights: dict, batches: Batches, fused: bool) -> Step:
    """
    The tied embedding lives on the first and on the last stage. Each adds up its own gradient, then both are summed
    before the update, as Megatron-LM does it.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    first = sum(job["stages"][:rank])
    module = Stage(job["model"], first, first + job["stages"][rank])
    module.load(weights)
    optimizer = make_optimizer(module, job["optimizer"], fused)
    loss_fn = summed_loss(1 / (job["samples"] * job["sequence"]))
    stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, job["microbatches"], loss_fn=loss_fn, scale_grads=False)

    def step(index: int) -> float:
        tokens, labels = batches[index % len(batches)]
        optimizer.zero_grad(set_to_none=True)
        losses: list[torch.Tensor] = []
        given = (tokens,) if rank == 0 else ()
        wanted = {"target": labels, "losses": losses} if rank == ranks - 1 else {}
        schedule.step(*given, return_outputs=False, **wanted)
        dist.all_reduce(module.wte.weight.grad)
        optimizer.step()
        return sum(loss.item() for loss in losses)

    return step


def make_tensor(job: dict, weights: dict, batches: Batches, fused: bool) -> Step:
    """Llama, its layers cut over the ranks; all ranks have all samples. One process has it whole."""
    module = Llama(job["model"])
    module.load_state_dict(weights)
    around = nullcontext
    if dist.is_initialized():
        cut(module, init_device_mesh("cpu", (dist.get_world_size(),)), job["sequenceParallel"])
        around = loss_parallel
    return replica_step(module, make_optimizer(module, job["optimizer"], fused), batches, around)


makers = {"single": make_single, "data": make_data, "pipeline": make_pipeline, "tensor": make_tensor}
