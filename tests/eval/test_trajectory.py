import numpy as np
import pandas as pd
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval.trajectory import divergence, envelope, first_step_outside
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


def test_identical_runs_diverge_nowhere():
    found = divergence(A, A)
    assert (found["relative_l2"] == 0).all()
    assert (found["cosine"] == 1).all()


def test_latents_of_zero_are_infinitely_far_from_anything_else():
    found = divergence(trajectory([[1, 0], [0, 0], [0, 0]]), trajectory([[1, 0], [0, 0], [1, 0]]))
    assert found["relative_l2"].tolist() == [0, 0, np.inf]


def test_other_timesteps_are_refused_by_value():
    with pytest.raises(ComparisonRefused, match="500 against 400 at steps 2"):
        divergence(A, trajectory(A.latents, timesteps=(900.0, 400.0)))
    with pytest.raises(ComparisonRefused, match="2 steps against 3"):
        divergence(A, trajectory([[1, 0]] * 4, timesteps=(900.0, 500.0, 100.0)))


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
