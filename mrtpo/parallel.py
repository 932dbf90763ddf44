"""Data parallel processes: each samples, replays and differentiates its share of the prompts.

Every process holds the whole policy. Prompts are dealt in whole groups, in order, so that lists
gathered from all processes are in the order that one process would have made. Rollouts and rewards
are gathered, so advantages and denominators are of the whole batch; gradients are summed. One
process and several give the same numbers, up to the order of additions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object, parse_flag_from_env

Item = TypeVar("Item")
BUCKET = 1 << 24  # numbers reduced at once


def this_process() -> PartialState:
    """This process among those that were launched together; joins them on the first call.

    They talk over CPUs where there is no accelerator or `ACCELERATE_USE_CPU` is set, of which
    accelerate has to be told.
    """
    cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    return PartialState(cpu=cpu)


class Ranks:
    """The processes of this training, and which of them this is."""

    def __init__(self) -> None:
        self.state = this_process()
        self.count = self.state.num_processes
        self.own = self.state.process_index

    @property
    def main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.own == 0

    def share(self, total: int) -> slice:
        """This process's part of `total` things, in order; sizes differ by at most one."""
        return slice(self.own * total // self.count, (self.own + 1) * total // self.count)

    def gather(self, items: Sequence[Item]) -> list[Item]:
        """The lists of all processes, joined in order; the same in each."""
        return list(items) if self.count == 1 else list(gather_object(list(items)))

    def same(self, value: Item) -> Item:
        """The first process's value, in all."""
        if self.count == 1:
            return value
        (shared,) = broadcast_object_list([value])
        return shared

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Add up the gradients of all processes. One without a gradient counts as 0."""
        if self.count == 1:
            return
        bucket: list[torch.Tensor] = []
        for parameter in parameters:
            if not parameter.requires_grad:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            if sum(gradient.numel() for gradient in bucket) >= BUCKET:
                _sum_in_place(bucket)
                bucket = []
        if bucket:
            _sum_in_place(bucket)

    def wait(self) -> None:
        """Until all processes are here."""
        self.state.wait_for_everyone()


def _sum_in_place(gradients: Sequence[torch.Tensor]) -> None:
    flat: Any = torch.cat([gradient.reshape(-1) for gradient in gradients])
    torch.distributed.all_reduce(flat)
    start = 0
    for gradient in gradients:
        gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
