import pytest

from workbench.errors import ComparisonRefused
from workbench.eval import compare, summary
from workbench.eval.comparison import IDENTICAL
from workbench.eval.summary import EXCLUDED
from workbench.records import Trajectory


@pytest.fixture
def table(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    candidates = [make_set("FP8", noise=0.02), make_set("INT8", noise=0.005, elapsed_s=1.0)]
    return summary(reference, candidates, floor=floor).set_index("precision")


def test_one_row_a_precision_with_the_reference_and_the_floor_first(table):
    assert list(table.index) == ["BF16", "BF16 repeat", "FP8", "INT8"]
    assert table["against_floor"].tolist() == ["reference", "identical", "above", "above"]


def test_the_first_picture_is_left_out_of_latency_as_warm_up(table):
    fp8 = table.loc["FP8"]  # 12.0, 2.1, 2.2, 2.3 s
    assert (fp8.latency_s_min, fp8.latency_s, fp8.latency_s_max) == pytest.approx((2.1, 2.2, 2.3))
    assert table.loc["INT8", "speed_ratio"] == pytest.approx(2.2 / 1.2)


def test_a_lone_picture_is_its_own_latency(make_set):
    one = {"prompts": ("a cup",), "seeds": (0,)}
    reference = make_set(**one)
    found = summary(reference, [], floor=compare(reference, make_set(repeat=1, **one)))
    assert found["latency_s"].tolist() == [12.0, 12.0]


def test_bytes_are_counted_by_component(table):
    row = table.loc["INT8"]
    assert row.transformer_bytes == 4 * 2**20
    assert row.checkpoint_bytes == 5 * 2**20
    assert row.weight_bytes == 3 * 2**20
    assert row.peak_memory_bytes == 103 * 2**20
    assert row.coverage == 0.5
    assert row.flops_coverage == 0.75  # 2 x 3 rows of 2 x 3 + 2 x 1


def test_fidelity_is_a_median_with_its_range(table):
    row = table.loc["FP8"]
    assert row.psnr_db_min <= row.psnr_db <= row.psnr_db_max
    assert row.n == 4
    assert table.loc["BF16 repeat", "psnr_db"] == float("inf")
    assert table.loc["BF16 repeat", "identical"] == 4


def test_a_candidate_no_farther_than_the_repeat_is_inside_the_floor(reference, repeat, make_set):
    found = summary(reference, [make_set("INT8", noise=0.001)], floor=compare(reference, repeat))
    assert found["against_floor"].tolist()[-1] == "inside the floor"


def test_reference_kernels_and_cpu_are_noted(table, reference, make_set):
    assert table.loc["FP8", "kernel"] == "SomeKernel (reference kernel)"
    found = summary(
        reference, [make_set("FP8", noise=0.02)], floor=compare(reference, make_set(repeat=1))
    )
    assert found.attrs["speed_note"].startswith(
        "Speed is not meaningful here: FP8 runs on reference kernels; this ran on"
    )


def test_speed_stands_without_a_note_on_a_gpu(make_set):
    cuda = {"audit": {"platform": "cuda"}}
    reference = make_set(**cuda)
    found = summary(
        reference,
        [make_set("INT8", noise=0.01, **cuda)],
        floor=compare(reference, make_set(repeat=1, **cuda)),
    )
    assert found.attrs["speed_note"] == ""


def test_latents_that_are_no_numbers_are_said(reference, make_set):
    def broken(kept):
        latents = kept.latents.copy()
        latents[3:] = float("nan")
        return Trajectory(latents=latents, timesteps=kept.timesteps)

    floor = compare(reference, make_set(repeat=1))
    found = summary(reference, [make_set("FP8", noise=0.02, trajectory=broken)], floor=floor)
    assert found["against_floor"].tolist()[-1] == "not finite"


def test_a_candidate_that_cannot_be_compared_is_refused(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    with pytest.raises(ComparisonRefused, match="max_num_seqs"):
        summary(reference, [make_set("FP8", launch={"max_num_seqs": 2})], floor=floor)


def test_identical_pixels_at_another_precision_are_flagged(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    with pytest.warns(UserWarning, match="gave the very pixels"):
        found = summary(
            reference, [make_set("INT8"), make_set("FP8", noise=0.02)], floor=floor
        ).set_index("precision")
    assert found["identical"].tolist()[1:] == [4, 4, 0]
    assert found["flag"].to_dict() == {"BF16": "", "BF16 repeat": "", "INT8": IDENTICAL, "FP8": ""}


def test_d9_a_set_that_does_not_run_what_was_asked_is_marked_and_has_no_figures(
    reference, make_set
):
    floor = compare(reference, make_set(repeat=1))
    fake = make_set("FP8", audit={"verdict": "not applied"})
    found = summary(reference, [fake, make_set("INT8", noise=0.01)], floor=floor)
    row = found.set_index("precision").loc["FP8"]
    assert (row.verdict, row.flag) == ("not applied", EXCLUDED)
    assert row.drop(["verdict", "flag"]).isna().all()
    assert (
        found.attrs["speed_note"] == "Speed is not meaningful here: this ran on a CPU. Fidelity is."
    )


def test_comparisons_at_hand_are_used_as_they_are(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    candidate = make_set("FP8", noise=0.02)
    by_set, by_comparison = (
        summary(reference, [one], floor=floor)
        for one in (candidate, compare(reference, candidate, floor=floor))
    )
    assert by_set.equals(by_comparison)
