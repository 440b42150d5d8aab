"""Runs schedule files with PyTorch's own pipelining runtime and compares gradients with a serial run.

Takes one JSON file: {"ranks": 4, "folder": ..., "cells": [...], "jobs": [{"name", "file", "format", "microbatches", "stages": [[0], [1]]}]}.
All jobs have as many ranks, one process each, and gloo on the CPU. Rank 0 prints one JSON line for each job with the
largest relative difference of any gradient (float64), and leaves what PyTorch makes of the file in the folder:
NAME.compute.csv and NAME.comms.csv as its runtime prints them. Before that, one line says what PyTorch reads in each
of "cells": the action as it prints it, "" for an idle cell, null where it refuses.
"""

import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _Action, _PipelineScheduleRuntime

WIDTH, SEQUENCE, SAMPLES = 6, 3, 2


class Block(nn.Module):
    """One stage: a pre-norm transformer block with one head."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / WIDTH**0.5, -1)
        x = x + self.out(weights @ v)
        return x + self.down(torch.tanh(self.up(self.norm2(x))))


def mean_square(output, target):
    return ((output - target) ** 2).mean()


def read_cell(cell):
    try:
        action = _Action.from_str(cell)
    except RuntimeError:
        return None
    return "" if action is None else str(action)


def run_job(job, rank, folder):
    torch.manual_seed(7)
    stage_count = 1 + max(stage for row in job["stages"] for stage in row)
    # As PyTorch is used: every rank has its own stages, here cut from the same chain, which is also run serially.
    serial = [Block().double() for _ in range(stage_count)]
    pipelined = [Block().double() for _ in range(stage_count)]
    for mine, theirs in zip(pipelined, serial):
        mine.load_state_dict(theirs.state_dict())
    batch = SAMPLES * job["microbatches"]
    x = torch.randn(batch, SEQUENCE, WIDTH, dtype=torch.float64)
    target = torch.randn(batch, SEQUENCE, WIDTH, dtype=torch.float64)

    mean_square(nn.Sequential(*serial)(x), target).backward()

    own = job["stages"][rank]
    stages = [PipelineStage(pipelined[s], s, stage_count, torch.device("cpu")) for s in own]
    schedule = _PipelineScheduleRuntime(stages, job["microbatches"], loss_fn=mean_square)
    schedule._load_csv(job["file"], format=job["format"])
    if rank == 0:
        schedule._dump_csv(os.path.join(folder, job["name"] + ".comms.csv"), format="compute_comms")
        if job["format"] == "compute_only":
            schedule._dump_csv(os.path.join(folder, job["name"] + ".compute.csv"), format="compute_only")
    losses = []
    arguments = (x,) if 0 in own else ()
    keywords = {"target": target, "losses": losses} if stage_count - 1 in own else {}
    schedule.step(*arguments, **keywords)

    worst = torch.zeros(1, dtype=torch.float64)
    for s in own:
        for (name, mine), theirs in zip(pipelined[s].named_parameters(), serial[s].parameters()):
            if mine.grad is None:
                raise RuntimeError(f"{job['name']}: {name} of stage {s} has no gradient")
            difference = (mine.grad - theirs.grad).abs().max() / theirs.grad.abs().max()
            worst = torch.maximum(worst, difference.reshape(1))
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"name": job["name"], "format": job["format"], "worst": worst.item()}), flush=True)


def run_rank(rank, work):
    torch.set_num_threads(1)
    store = "file://" + os.path.join(work["folder"], "store")
    dist.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=work["ranks"], timeout=timedelta(seconds=60)
    )
    for job in work["jobs"]:
        run_job(job, rank, work["folder"])
    dist.destroy_process_group()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        work = json.load(source)
    print(json.dumps({"cells": [read_cell(cell) for cell in work["cells"]]}), flush=True)
    mp.start_processes(run_rank, args=(work,), nprocs=work["ranks"], start_method="spawn")
