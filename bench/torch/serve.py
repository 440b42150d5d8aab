"""
The PyTorch side of the benchmark. Reads one JSON command a line from standard input and answers on standard output
with one line that starts with "@". Under torchrun rank 0 does so, and tells the others. The one argument is a JSON file
that says what to train (`job.ts`), or null.

    {"run": "default" | "fused", "steps": n}   -> {"seconds": [...], "losses": [...]}
    {"memory": true}                           -> {"bytes": peak resident memory, all ranks together, or null}
    {"multiply": n, "sizes": [m, k, n]}        -> {"seconds": [...]} of an [m, k] x [k, n] product
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

from model import read_safetensors
from sides import makers


def peak_resident_bytes() -> int | None:
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return None


def read_batches(job: dict) -> list:
    shape = (-1, 2, job["samples"], job["sequence"])
    with open(job["batches"], "rb") as file:
        both = torch.frombuffer(bytearray(file.read()), dtype=torch.int32).view(shape).long()
    return [(tokens.contiguous(), labels.contiguous()) for tokens, labels in both]


class Server:
    def __init__(self, job: dict | None):
        self.job = job
        self.sides: dict = {}
        self.done: dict = {}
        self.weights = read_safetensors(job["weights"]) if job else {}
        self.batches = read_batches(job) if job else []

    def answer(self, command: dict) -> dict:
        if "run" in command:
            return self.run(command["run"], command["steps"])
        if "multiply" in command:
            return multiply(command["sizes"], command["multiply"])
        own = peak_resident_bytes()
        every = [own]
        if dist.is_initialized():
            every = [None] * dist.get_world_size()
            dist.all_gather_object(every, own)
        return {"bytes": None if None in every else sum(every)}

    def run(self, variant: str, steps: int) -> dict:
        if variant not in self.sides:
            maker = makers[self.job["mode"]]
            self.sides[variant] = maker(self.job, self.weights, self.batches, variant == "fused")
            self.done[variant] = 0
        step, first = self.sides[variant], self.done[variant]
        self.done[variant] += steps
        if dist.is_initialized():
            dist.barrier()
        seconds, losses = [], []
        for index in range(first, first + steps):
            began = time.perf_counter()
            loss = step(index)
            seconds.append(time.perf_counter() - began)
            losses.append(loss)
        return {"seconds": seconds, "losses": self.joined(losses)}

    def joined(self, losses: list) -> list:
        """
        The whole batch's: replicas have the mean of their share, ranks that share layers all have the whole one, of the
        stages only the last has any.
        """
        if not dist.is_initialized():
            return losses
        total = torch.tensor(losses, dtype=torch.float64)
        dist.all_reduce(total)
        return (total / (1 if self.job["mode"] == "pipeline" else dist.get_world_size())).tolist()


def multiply(sizes: list, times: int) -> dict:
    m, k, n = sizes
    a, b = torch.randn(m, k), torch.randn(k, n)
    out = torch.empty(m, n)
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds}


def commands():
    """Lines of standard input, on every rank. An empty one, or the end, ends it."""
    while True:
        line = [None]
        if not dist.is_initialized() or dist.get_rank() == 0:
            line[0] = sys.stdin.readline().strip()
        if dist.is_initialized():
            dist.broadcast_object_list(line)
        if not line[0]:
            return
        yield json.loads(line[0])


def main() -> None:
    with open(sys.argv[1]) as file:
        job = json.load(file)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    server = Server(job)
    speaks = not dist.is_initialized() or dist.get_rank() == 0
    say = lambda answer: print("@" + json.dumps(answer), flush=True) if speaks else None
    say({"torch": torch.__version__})
    for command in commands():
        say(server.answer(command))
    if dist.is_initialized():
        dist.destroy_process_group()


main()
