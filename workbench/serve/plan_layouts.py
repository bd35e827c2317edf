"""Every layout within a number of devices, each with what is wrong with it and what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
from math import prod

from workbench.serve import plan_rules as rules
from workbench.serve.layouts import describe
from workbench.serve.plan_facts import Facts, cut_problem
from workbench.serve.plan_memory import Estimate, Memory
from workbench.serve.plan_nearest import SIZES, Choices, sizes_of
from workbench.serve.shards import final_problem
from workbench.specs import Parallelism, Sampling

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
    choices: Choices = field(repr=False)
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
        return sum(self.estimate.fullest(self.parallelism).values())

    @property
    def fits(self) -> bool:
        """Whether the estimate of every rank is within a device's memory."""
        return self.needed <= self.capacity

    @property
    def nearest(self) -> Parallelism | None:
        """For an invalid one the valid layout of the closest sizes, if any; None if it is valid.

        Closest by the sum of the ratios' logarithms; of two as close the one of more devices.
        """
        return None if self.valid else self.choices.nearest(self.parallelism)

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
        stepped: bool = False,
    ) -> None:
        self.facts, self.sampling, self.on_cpu = facts, sampling, on_cpu
        self.gpus, self.capacity = gpus, capacity
        self.batch, self.stepped = batch, stepped
        self._estimate = Estimate(facts, sampling, on_cpu=on_cpu, batch=batch, stepped=stepped)
        self._choices = Choices()
        self._divided = cache(self._divided_problems)
        self._of_ranks = cache(self._problems_of_ranks)
        self.all = tuple(self._every())

    def judge(self, parallelism: Parallelism) -> Layout:
        """Any layout, also one that needs more devices than there are."""
        return Layout(
            parallelism=parallelism,
            replicas=self.gpus // parallelism.world_size,
            reasons=self._reasons(parallelism),
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
            stepped=self.stepped,
        )

    def _every(self) -> Iterator[Layout]:
        for parallelism in _within(self.gpus):
            layout = self.judge(parallelism)
            if layout.valid:
                self._choices.add(layout.parallelism)
            yield layout

    def _reasons(self, layout: Parallelism) -> tuple[str, ...]:
        *ranks, _ = sizes_of(layout)
        many = self._too_many(layout)
        patches = rules.patches_problem(self.facts.support, layout)
        return (
            *((many,) if many else ()),
            *self._of_ranks(*ranks),
            *((patches,) if patches else ()),
        )

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
        parts = self.facts.parts
        outside = (final_problem(self.facts.support, p.name, p.outputs, size) for p in parts)
        return tuple(filter(None, (cut_problem(parts, size), *outside)))

    def _too_many(self, layout: Parallelism) -> str | None:
        if layout.world_size <= self.gpus:
            return None
        among = [one for one in self._choices if _divides(one, layout)]
        best = sorted(among, key=lambda one: -one.world_size)[:_MOST_OFFERED]
        here = f"{self.gpus} are here"
        seen = f"{layout.world_size} workers and {here}" if self.on_cpu else ""
        return rules.device_problem(layout, self.gpus, map(describe, best), seen)


@lru_cache(maxsize=2)
def _within(devices: int) -> tuple[Parallelism, ...]:
    """Every layout of at most so many devices, fewest ranks first; patches up to those."""
    ordered = sorted(_sizes(devices), key=lambda sizes: prod(sizes[:4]))
    return tuple(Parallelism(**dict(zip(SIZES, sizes, strict=True))) for sizes in ordered)


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


def _divides(one: Parallelism, asked: Parallelism) -> bool:
    whole = all(getattr(asked, name) % getattr(one, name) == 0 for name in SIZES[:4])
    return whole and one.vae_patch_parallel_size == 1
