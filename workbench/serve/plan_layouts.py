"""Every layout within a number of devices, each with what is wrong with it and what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import log, prod

from workbench.serve import plan_rules as rules
from workbench.serve.layouts import describe
from workbench.serve.plan_facts import Facts
from workbench.serve.plan_memory import Estimate, Memory, fullest
from workbench.serve.shards import final_problem
from workbench.specs import Parallelism, Sampling

SIZES = (
    "tensor_parallel_size",
    "ulysses_degree",
    "ring_degree",
    "cfg_parallel_size",
    "vae_patch_parallel_size",
)
_MOST_OFFERED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way of spreading a model over devices."""

    parallelism: Parallelism
    replicas: int
    """How many of it the devices hold side by side, for data parallelism; 0 if not even one."""
    reasons: tuple[str, ...]
    """What the engine would refuse or ignore; empty if it is valid."""
    estimate: Estimate = field(repr=False)
    """Of the model's memory."""
    capacity: int = field(repr=False)
    """Bytes of one device."""
    choices: Sequence[Parallelism] = field(default=(), repr=False)
    """The valid layouts within the devices there are."""

    @property
    def valid(self) -> bool:
        """Whether the engine runs it as asked; :attr:`fits` says whether memory suffices."""
        return not self.reasons

    @property
    def memory(self) -> Memory:
        """Component -> estimated bytes on each rank."""
        return self.estimate.memory(self.parallelism)

    @property
    def needed(self) -> int:
        """Estimated bytes on the rank that needs most."""
        return fullest(self.memory)

    @property
    def fits(self) -> bool:
        """Whether the estimate of every rank is within a device's memory."""
        return self.needed <= self.capacity

    @property
    def nearest(self) -> Parallelism | None:
        """For an invalid one the valid layout of the closest sizes, if any; None if it is valid.

        Closest by the sum of the ratios' logarithms; of two as close the one of more devices.
        """
        if self.valid or not self.choices:
            return None
        return min(self.choices, key=lambda one: _distance(self.parallelism, one))

    def __str__(self) -> str:
        name = describe(self.parallelism)
        return f"{name}: {'; '.join(self.reasons)}" if self.reasons else name


class Layouts:
    """The rules and the estimate for one model, one sampling and one kind of device."""

    def __init__(
        self,
        facts: Facts,
        sampling: Sampling,
        *,
        gpus: int,
        capacity: int,
        on_cpu: bool = False,
        batch: int = 1,
    ) -> None:
        self.facts, self.sampling, self.on_cpu = facts, sampling, on_cpu
        self.gpus, self.capacity = gpus, capacity
        self.batch = batch
        self._estimate = Estimate(facts, sampling, on_cpu=on_cpu, batch=batch)
        self._choices: list[Parallelism] = []
        self._divided = cache(self._divided_problems)
        self._of_ranks = cache(self._problems_of_ranks)
        self.all = tuple(self._every())

    def judge(self, parallelism: Parallelism) -> Layout:
        """Any layout, also one that needs more devices than there are."""
        return Layout(
            parallelism=parallelism,
            replicas=self.gpus // parallelism.world_size,
            reasons=tuple(self._reasons(parallelism)),
            estimate=self._estimate,
            capacity=self.capacity,
            choices=self._choices,
        )

    def smallest(self) -> Layout | None:
        """The valid layout that fits on the fewest devices, with most memory to spare."""
        fitting = (one for one in self.all if one.valid and one.fits)
        return min(fitting, key=_size, default=None)

    def but(self, facts: Facts) -> Layouts:
        """The same question of the model at another precision."""
        return Layouts(
            facts,
            self.sampling,
            gpus=self.gpus,
            capacity=self.capacity,
            on_cpu=self.on_cpu,
            batch=self.batch,
        )

    def _every(self) -> Iterator[Layout]:
        for sizes in _within(self.gpus):
            layout = self.judge(Parallelism(**dict(zip(SIZES, sizes, strict=True))))
            if layout.valid:
                self._choices.append(layout.parallelism)
            yield layout

    def _reasons(self, layout: Parallelism) -> Iterator[str]:
        yield from filter(None, (self._too_many(layout),))
        yield from self._of_ranks(*(getattr(layout, name) for name in SIZES[:-1]))
        yield from filter(None, (rules.patches_problem(self.facts.support, layout),))

    def _problems_of_ranks(self, *sizes: int) -> tuple[str, ...]:
        """All but what hangs on the patches of the VAE, of which there are many for one layout."""
        layout = Parallelism(**dict(zip(SIZES, sizes, strict=False)))
        support = self.facts.support
        found = (
            *self._heads(layout),
            *self._divided(layout.tensor_parallel_size),
            *rules.support_problems(support, layout),
            rules.sequence_problem(support, layout, self._estimate.tokens),
            rules.ring_problem(layout, on_cpu=self.on_cpu),
            rules.guidance_problem(support, layout, self.sampling),
        )
        return tuple(filter(None, found))

    def _heads(self, layout: Parallelism) -> Iterator[str | None]:
        alone = Parallelism(tensor_parallel_size=layout.tensor_parallel_size)
        for name, (heads, kv_heads) in self.facts.heads.items():
            inside = name in self.facts.family.transformers  # an encoder has no Ulysses
            yield rules.heads_problem(name, heads, layout if inside else alone, kv_heads)

    def _divided_problems(self, size: int) -> tuple[str, ...]:
        """What tensor parallelism cuts: rows, columns, groups of scales, the final projection."""
        found = []
        for part in self.facts.parts:
            problem = part.share.problem(size) if part.share else None
            if problem:
                where = f"{part.component}.{part.name} in {part.scheme}"
                found.append(f"tensor_parallel_size={size}: {where} {problem}")
            outside = final_problem(self.facts.support, part.name, part.outputs, size)
            found += [outside] if outside else []
        return tuple(found)

    def _too_many(self, layout: Parallelism) -> str | None:
        if layout.world_size <= self.gpus:
            return None
        among = [one for one in self._choices if _divides(one, layout)]
        best = sorted(among, key=lambda one: -one.world_size)[:_MOST_OFFERED]
        return rules.device_problem(layout, self.gpus, map(describe, best))


def _within(devices: int) -> list[tuple[int, ...]]:
    """Sizes of every layout of at most so many devices, fewest ranks first; patches up to those."""
    return sorted(_sizes(devices), key=lambda sizes: prod(sizes[:4]))


def _sizes(devices: int) -> Iterator[tuple[int, ...]]:
    for tensor, ulysses in product(range(1, devices + 1), repeat=2):
        for ring in range(1, devices // (tensor * ulysses) + 1):
            for branches in (1, 2):
                ranks = tensor * ulysses * ring * branches
                if ranks <= devices:
                    yield from ((tensor, ulysses, ring, branches, n) for n in range(1, ranks + 1))


def _size(layout: Layout) -> tuple[int, int, int]:
    asked = layout.parallelism
    return asked.world_size, asked.vae_patch_parallel_size, layout.needed


def _distance(asked: Parallelism, other: Parallelism) -> tuple[float, int, int]:
    ratios = (getattr(asked, name) / getattr(other, name) for name in SIZES)
    far = sum(abs(log(ratio)) for ratio in ratios)
    return round(far, 9), -other.world_size, other.tensor_parallel_size


def _divides(one: Parallelism, asked: Parallelism) -> bool:
    whole = all(getattr(asked, name) % getattr(one, name) == 0 for name in SIZES[:4])
    return whole and one.vae_patch_parallel_size == 1
