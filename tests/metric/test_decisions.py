"""Decisions: rising edges, the refractory period, frame ends, 64-bit comparison."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptb_metric.decisions import decide


def test_every_published_vector_is_decided(load_vectors):
    for case in load_vectors("decisions"):
        times = decide(case["scores"], case["frame_rate"], case["theta"], refractory_s=case["refractory_s"])
        assert times.tolist() == case["expected"]


@given(
    scores=st.lists(st.integers(0, 4).map(lambda n: n / 4), max_size=60),
    frame_rate=st.sampled_from([1, 7, 10, 12.5, 25, 31.25]),
    theta=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.75, 1.0]),
    refractory_s=st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.0]),
    lookahead_s=st.sampled_from([0.0, 0.08]),
)
def test_decisions_equal_a_frame_by_frame_rewrite(
    slow_decide, scores, frame_rate, theta, refractory_s, lookahead_s
):
    times = decide(scores, frame_rate, theta, refractory_s=refractory_s, lookahead_s=lookahead_s)
    assert times.dtype == np.float64
    assert times.tolist() == slow_decide(scores, frame_rate, theta, refractory_s, lookahead_s)


def test_a_decision_is_taken_at_the_end_of_its_frame():
    assert decide([0.0, 0.0, 1.0], 10, 0.5).tolist() == [0.3]


def test_a_score_equal_to_the_threshold_does_not_fire():
    assert decide([0.5, 0.5], 10, 0.5).size == 0


def test_the_first_frame_can_be_an_edge():
    assert decide([1.0, 1.0], 10, 0.5).tolist() == [0.1]


def test_an_edge_in_the_refractory_period_is_lost_not_delayed():
    # edges at 0, 1.9 and 2.5 s; after the first, 2 s are deaf
    scores = np.zeros(30)
    scores[[0, 19, 20, 21, 22, 25]] = 1
    assert decide(scores, 10, 0.5).tolist() == [0.1, 2.6]


def test_an_edge_exactly_one_refractory_period_later_fires():
    scores = np.zeros(30)
    scores[[0, 20]] = 1
    assert decide(scores, 10, 0.5).tolist() == [0.1, 2.1]


def test_the_refractory_period_rounds_half_to_even_frames():
    # 0.25 s at 10 Hz is 2.5 frames, which rounds to 2
    assert decide([1, 0, 1, 0], 10, 0.5, refractory_s=0.25).tolist() == [0.1, 0.3]


def test_no_refractory_period_keeps_every_edge():
    assert decide([1, 0, 1, 0, 1], 10, 0.5, refractory_s=0.0).size == 3


def test_lookahead_delays_every_decision():
    assert decide([0, 1], 10, 0.5, lookahead_s=0.16).tolist() == [0.2 + 0.16]


def test_float32_scores_meet_a_float64_threshold_in_64_bits():
    # float32(0.1) is a little more than 0.1; NumPy 2 would compare in float32 and see them equal
    assert decide(np.float32([0.1]), 10, 0.1).size == 1
    assert decide(np.float32([0.1]), 10, float(np.float32(0.1))).size == 0
    assert decide(np.float16([0.1]), 10, 0.1).size == 0  # float16(0.1) is a little less


def test_infinite_thresholds_are_always_and_never():
    assert decide([0.3, 0.1], 10, -np.inf).tolist() == [0.1]
    assert decide([0.3, 0.1], 10, np.inf).size == 0


def test_an_empty_trace_decides_nothing():
    assert decide([], 10, 0.5).tolist() == []


def test_the_scores_given_are_not_changed():
    scores = np.array([0.0, 1.0])
    decide(scores, 10, 0.5)
    assert scores.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused_by_name_and_frame(bad):
    with pytest.raises(ValueError, match=r"dev_00001 speaker_2: frame 3: expected a finite score"):
        decide([0.1, 0.2, 0.3, bad], 10, 0.5, name="dev_00001 speaker_2")


@pytest.mark.parametrize(
    "bad", [[[0.1, 0.2]], 0.5, [[0.1], [0.2, 0.3]], ["0.5"], [None], "0.5", None, [True]]
)
def test_what_is_not_one_number_per_frame_is_refused(bad):
    with pytest.raises(ValueError, match="scores: expected"):
        decide(bad, 10, 0.5)


@pytest.mark.parametrize("theta", [np.nan, "0.5", None])
def test_a_threshold_that_is_no_number_is_refused(theta):
    with pytest.raises(ValueError, match="theta: expected a number"):
        decide([0.1], 10, theta)


@pytest.mark.parametrize("frame_rate", [0, -25, np.nan, np.inf, "25", None])
def test_a_frame_rate_must_be_a_finite_number_above_zero(frame_rate):
    with pytest.raises(ValueError, match="frame_rate: expected frames per second"):
        decide([0.1], frame_rate, 0.5)


@pytest.mark.parametrize("argument", ["refractory_s", "lookahead_s"])
@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, "2"])
def test_durations_must_be_finite_and_not_negative(argument, value):
    with pytest.raises(ValueError, match=f"{argument}: expected seconds"):
        decide([0.1], 10, 0.5, **{argument: value})
