import numpy as np
import pandas as pd
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval.trajectory import divergence, envelope, first_not_finite, first_step_outside
from workbench.records import Trajectory


def trajectory(rows, timesteps=(900.0, 500.0)):
    return Trajectory(latents=np.array(rows, np.float32), timesteps=np.array(timesteps))


A = trajectory([[1, 0], [3, 4], [0, 2]])


def test_divergence_of_a_hand_case():
    found = divergence(A, trajectory([[1, 0], [3, 3], [2, 0]]))
    assert found["step"].tolist() == [0, 1, 2]
    assert found["timestep"].tolist()[1:] == [900.0, 500.0]
    assert np.isnan(found["timestep"][0])
    assert found["relative_l2"].tolist() == pytest.approx([0, 1 / 5, np.sqrt(8) / 2])
    assert found["cosine"].tolist() == pytest.approx([1, 21 / (5 * np.sqrt(18)), 0])
    decibels = [np.inf, 20 * np.log10(5), 20 * np.log10(2 / np.sqrt(8))]
    assert found["signal_to_error_db"].tolist() == pytest.approx(decibels)
    assert found["share_of_final"].tolist() == pytest.approx([0, 1 / np.sqrt(8), 1])


def test_identical_runs_diverge_nowhere():
    found = divergence(A, A)
    assert (found["relative_l2"] == 0).all()
    assert (found["cosine"] == 1).all()
    assert (found["signal_to_error_db"] == np.inf).all()
    assert (found["share_of_final"] == 0).all()


def test_latents_of_zero_are_infinitely_far_from_anything_else():
    found = divergence(trajectory([[1, 0], [0, 0], [0, 0]]), trajectory([[1, 0], [0, 0], [1, 0]]))
    assert found["relative_l2"].tolist() == [0, 0, np.inf]


def test_other_timesteps_are_refused_by_value():
    with pytest.raises(ComparisonRefused, match=r"candidate has no step at 500 and the .* at 400;"):
        divergence(A, trajectory(A.latents, timesteps=(900.0, 400.0)))
    with pytest.raises(ComparisonRefused, match="another order"):
        divergence(A, trajectory(A.latents, timesteps=(500.0, 900.0)))


@pytest.mark.parametrize(
    ("timesteps", "said"),
    [
        ((900.0, 500.0, 100.0), "2 against 3: the reference has no step at 100; one .* off by one"),
        ((500.0,), "2 against 1: the candidate has no step at 900; one recording is off by one"),
        ((500.0, 100.0), "no step at 900 and the reference has no step at 100; one .* off by one"),
        ((800.0, 400.0), "no step at 900, 500 and the reference has no step at 800, 400; generate"),
    ],
)
def test_an_off_by_one_is_named(timesteps, said):
    with pytest.raises(ComparisonRefused, match=said):
        divergence(A, trajectory([[1, 0]] * (len(timesteps) + 1), timesteps))


def test_a_missing_initial_noise_is_named():
    with pytest.raises(ComparisonRefused, match="the candidate holds 2 latents for 2 steps"):
        divergence(A, trajectory(A.latents[1:]))


def test_the_first_step_that_is_not_finite_is_named():
    assert first_not_finite(A) is None
    assert first_not_finite(trajectory([[1, 0], [np.inf, 0], [np.nan, 0]])) == 1
    assert first_not_finite(trajectory([[np.nan, 0], [0, 0], [0, 0]])) == 0


def test_other_noise_is_refused():
    with pytest.raises(ComparisonRefused, match=r"initial latents differ by up to 0\.5"):
        divergence(A, trajectory([[1, 0.5], [3, 4], [0, 2]]))


def test_other_shapes_are_refused():
    with pytest.raises(ComparisonRefused, match=r"\(3, 2\) and \(3, 3\)"):
        divergence(A, trajectory(np.zeros((3, 3))))


def steps(*relative_l2):
    return pd.DataFrame({"step": range(len(relative_l2)), "relative_l2": relative_l2})


@pytest.mark.parametrize(
    ("relative_l2", "floor", "expected"),
    [
        ((0, 0.1, 0.3, 0.5), (0, 0.2, 0.2, 0.2), 2),
        ((0, 0.1, 0.1, 0.1), (0, 0.2, 0.2, 0.2), None),
        ((0, 0.2, 0.2, 0.2), (0, 0.2, 0.2, 0.2), None),
        ((0, 0.0, 1e-9, 0.1), (0, 0.0, 0.0, 0.0), 2),
        ((0, 0.1, np.nan, np.nan), (0, 0.2, 0.2, 0.2), 2),
        ((0, 0.1, 0.1, 0.1), (0, 0.2, 0.2, np.nan), 3),
        ((0, 0.1, 0.3, 0.5), None, None),
        ((0, 0.1, np.nan, 0.5), None, 2),
    ],
)
def test_first_step_outside(relative_l2, floor, expected):
    limit = None if floor is None else envelope(steps(*floor))
    assert first_step_outside(steps(*relative_l2), limit) == expected


def test_a_floor_over_other_steps_is_refused():
    with pytest.raises(ComparisonRefused, match="steps 0 to 1 and this pair 0 to 2"):
        first_step_outside(steps(0, 1, 1), envelope(steps(0, 1)))


def test_the_envelope_is_the_largest_of_all_pairs():
    both = pd.concat([steps(0, 0.1, 0.4), steps(0, 0.3, 0.2)])
    assert envelope(both).tolist() == [0, 0.3, 0.4]
