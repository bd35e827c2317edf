import numpy as np
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval import compare
from workbench.eval.floor import NoiseFloor
from workbench.records import Trajectory

STEPS = 4  # of every synthetic set


def test_pairs_are_matched_by_prompt_and_seed_whatever_their_order(reference, make_set):
    prompts, seeds = reference.spec.prompts.prompts, reference.spec.seeds
    table = compare(
        reference, make_set("FP8", noise=0.02, prompts=prompts[::-1], seeds=seeds[::-1])
    ).table()
    assert {tuple(row) for row in table[["prompt", "seed"]].values} == {
        (p, s) for p in prompts for s in seeds
    }
    assert table["psnr_db"].between(25, 45).all()


def test_the_table_has_the_worst_pair_first(reference, make_set):
    table = compare(reference, make_set("FP8", noise=0.02)).table()
    assert list(table) == [
        "prompt",
        "seed",
        "psnr_db",
        "ssim",
        "flip",
        "mae",
        "high_frequency_error",
        "relative_l2",
        "cosine",
        "first_step_outside",
        "first_not_finite",
        "identical",
    ]
    assert table["psnr_db"].is_monotonic_increasing
    assert table["first_step_outside"].isna().all()  # no floor was measured


def test_steps_are_long(reference, make_set):
    found = compare(reference, make_set("FP8", noise=0.02)).steps()
    assert list(found) == [
        "precision",
        "prompt",
        "seed",
        "step",
        "timestep",
        "relative_l2",
        "cosine",
        "signal_to_error_db",
        "share_of_final",
    ]
    assert len(found) == len(reference) * (STEPS + 1)
    assert (found.loc[found["step"] == 0, "relative_l2"] == 0).all()


def test_a_bit_identical_repeat_is_infinite_and_poisons_nothing(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    summary = floor.summary().loc["psnr_db"]
    assert (summary["n"], summary["identical"], summary["finite"]) == (4, 4, 0)
    candidate = compare(reference, make_set("FP8", noise=0.02), floor=floor)
    assert (candidate.table()["first_step_outside"] == 1).all()
    assert np.isfinite(candidate.summary().loc["psnr_db", "median"])


def test_a_candidate_quieter_than_the_floor_stays_inside(reference, repeat, make_set):
    floor = compare(reference, repeat)
    inside = compare(reference, make_set("INT8", noise=0.0001), floor=floor)
    assert inside.table()["first_step_outside"].isna().all()


def test_flip_and_scrub_show_the_row_of_the_table(reference, make_set):
    found = compare(reference, make_set("FP8", noise=0.02))
    frames = [found.pairs[0][0].image] * (STEPS + 1)
    for shown in (found.flip(), found.scrub(0, frames, frames)):
        assert f"seed {found.table()['seed'][0]}" in shown._repr_html_()
    with pytest.raises(
        ComparisonRefused, match="'candidate FP8' has 1 frames for 4 timesteps; pass 5"
    ):
        found.scrub(0, frames, frames[:1])


def test_plot_divergence_has_the_floor(reference, repeat, make_set):
    found = compare(reference, make_set("FP8", noise=0.02), floor=compare(reference, repeat))
    assert [trace.name for trace in found.plot_divergence().data][-1] == "noise floor"


def test_the_summary_has_interval_mean_and_floor(reference, repeat, make_set):
    floor = compare(reference, repeat)
    found = compare(reference, make_set("FP8", noise=0.02), floor=floor).summary()
    row, values = found.loc["psnr_db"], floor.table()["psnr_db"]
    assert row["min"] <= row["low"] <= row["median"] <= row["high"] <= row["max"]
    assert row["floor"] == values.min()
    assert found.loc["flip", "floor"] == floor.table()["flip"].max()
    assert np.isnan(compare(reference, repeat).summary().loc["ssim", "floor"])


def test_each_verdict_against_the_floor(reference, repeat, make_set):
    candidate = make_set("FP8", noise=0.02)
    assert compare(reference, candidate).against_floor == "no floor measured"
    assert compare(reference, candidate, floor=compare(reference, repeat)).against_floor == "above"
    wide = compare(reference, make_set(repeat=1, noise=0.05))
    assert compare(reference, candidate, floor=wide).against_floor == "inside the floor"
    same = compare(reference, make_set(repeat=2), floor=wide)
    assert same.against_floor == "identical"


def test_metrics_can_be_chosen_and_missing_ones_say_why(reference, make_set):
    candidate = make_set("FP8", noise=0.02)
    found = compare(reference, candidate, metrics=["mae", "lpips"])
    assert {"mae", "relative_l2"} <= set(found.table())
    assert "psnr_db" not in found.table()
    assert found.table()["relative_l2"].is_monotonic_decreasing
    assert found.missing["lpips"].startswith("weights not available")
    with pytest.raises(ComparisonRefused, match="at least 176 x 176"):
        compare(reference, candidate, metrics=["ms_ssim"])


def test_conditions_may_differ_when_they_are_named(reference, make_set):
    other = make_set(audit={"attention_backend": "FLASH_ATTN"}, repeat=1, noise=0.01)
    with pytest.raises(ComparisonRefused, match="attention_backend is 'TORCH_SDPA' against"):
        compare(reference, other)
    assert len(compare(reference, other, across=("attention_backend",)).pairs) == 4
    with pytest.raises(ComparisonRefused, match=r"across=\['size'\] are no conditions; there are"):
        compare(reference, other, across=("size",))


def test_the_floor_of_other_conditions_is_not_taken(reference, make_set):
    backend = {"attention_backend": "FLASH_ATTN"}
    across = {"across": ("attention_backend",)}
    moved = compare(reference, make_set(audit=backend, repeat=1, noise=0.05), **across)
    repeated = compare(reference, make_set(repeat=2))
    floor = NoiseFloor(reference=reference, measured={"repeat": repeated, "attention": moved})
    candidate = make_set("FP8", noise=0.02)
    assert compare(reference, candidate, floor=floor).against_floor == "above"
    other = make_set("INT8", noise=0.02, audit=backend)
    found = compare(reference, other, floor=floor, **across)
    assert found.floor is moved
    assert found.against_floor == "inside the floor"
    with pytest.raises(ComparisonRefused, match="another attention_backend than the reference"):
        compare(reference, candidate, floor=moved)
    assert list(floor.table()["condition"]) == ["repeat", "attention"]
    assert "so this floor is zero" in str(floor)


def test_two_candidates_on_the_same_pairs(reference, make_set):
    near = compare(reference, make_set("FP8", noise=0.01))
    far = compare(reference, make_set("INT8", noise=0.03))
    effect = near.against(far)
    assert effect["n"] == effect["larger"] == 4
    assert 0 < effect["low"] <= effect["median"] <= effect["high"]


def test_views_of_a_pair_name_it(reference, make_set):
    found = compare(reference, make_set("FP8", noise=0.02))
    seed = found.table()["seed"][0]
    for shown in (found.slider(), found.error_map()):
        assert f"seed {seed}" in shown._repr_html_()
    assert f"seed&nbsp;{seed}" in found.worst(2)._repr_html_()
    assert set(found.spectrum(2)["precision"]) == {"FP8"}


def test_nan_names_its_first_step(reference, make_set):
    def spoiled(kept):
        latents = kept.latents.copy()
        latents[2:] = np.nan
        return Trajectory(latents=latents, timesteps=kept.timesteps)

    found = compare(reference, make_set("FP8", noise=0.02, trajectory=spoiled))
    assert (found.table()["first_not_finite"] == 2).all()
    assert found.against_floor == "not finite"
    assert found.summary().loc["relative_l2", "left_out"] == 4
    held = NoiseFloor(reference=reference, measured={"repeat": found})
    assert held.table()["says"].item() == "latents have no finite distance in 4 of 4 pairs"


def test_it_says_itself_in_a_line(reference, repeat, make_set):
    found = compare(reference, make_set("FP8", noise=0.02), floor=compare(reference, repeat))
    assert str(found).startswith("FP8 against BF16, 4 pairs: relative L2 of the last latents 0.0")
    assert str(found).endswith("; above")
