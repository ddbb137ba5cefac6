"""`n_samples`: from a moment to a count of samples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turn_end_prefix import n_samples

RATES = (8000, 16000, 22050, 24000, 44100, 48000)
LONGEST_S = 210


@pytest.mark.parametrize(
    ("at_s", "rate", "expected"),
    [
        (1.001, 16000, 16016),
        (0.29, 24000, 6960),
        (1001 / 16000, 16000, 1001),
        (0.000875, 16000, 14),
        (0.0, 16000, 0),
        (-0.0, 16000, 0),
        (1e-9, 24000, 0),
        (1, 24000, 24000),
        (2.0, 24000, 48000),
        (2.0, 16000, 32000),
        (np.float64(0.29), np.int64(24000), 6960),
        (Fraction(29, 100), 24000, 6960),
    ],
)
def test_a_moment_counts_the_samples_that_are_over_by_it(at_s, rate, expected):
    assert n_samples(at_s, rate) == expected


@pytest.mark.parametrize("rate", [16000, 24000])
def test_every_sample_boundary_of_the_longest_recording_is_inverted_exactly(rate):
    counts = np.arange(LONGEST_S * rate + 1)
    times = counts / rate
    assert all(n_samples(time, rate) == count for time, count in zip(times[::37], counts[::37], strict=True))
    # The same rule on whole arrays, for all that the loop leaves out.
    np.testing.assert_array_equal(np.floor(times * rate + 1e-6), counts)


@pytest.mark.parametrize("rate", [16000, 24000])
def test_every_millisecond_is_cut_as_exact_arithmetic_says(rate):
    for millisecond in range(0, LONGEST_S * 1000, 7):
        assert n_samples(millisecond / 1000, rate) == millisecond * rate // 1000


@given(st.fractions(0, LONGEST_S, max_denominator=10**6), st.sampled_from(RATES))
def test_no_sample_after_the_moment_is_counted_and_none_before_it_lost(at_s, rate):
    count = n_samples(float(at_s), rate)
    slack = Fraction(2, 10**6)
    assert Fraction(count) <= at_s * rate + slack
    assert Fraction(count + 1) > at_s * rate - slack


def test_a_float32_moment_means_the_number_that_it_holds():
    assert n_samples(np.float32(1.001), 16000) == 16016
    assert n_samples(np.float32(0.29), 24000) == int(Fraction(float(np.float32(0.29))) * 24000)


@pytest.mark.parametrize(
    "at_s", [float("nan"), float("inf"), -float("inf"), -0.001, -1, np.float32("nan"), 1e308]
)
def test_what_is_no_moment_of_a_recording_is_a_value_error(at_s):
    with pytest.raises(ValueError, match="at_s: expected finite seconds >= 0"):
        n_samples(at_s, 16000)


@pytest.mark.parametrize("at_s", ["1.0", None, True, np.bool_(True), [1.0], 1j])
def test_what_is_no_number_of_seconds_is_a_type_error(at_s):
    with pytest.raises(TypeError, match="at_s: expected a number of seconds"):
        n_samples(at_s, 16000)


@pytest.mark.parametrize("rate", [0, -16000])
def test_a_rate_that_is_not_positive_is_a_value_error(rate):
    with pytest.raises(ValueError, match="sampling_rate: expected Hz > 0"):
        n_samples(1.0, rate)


@pytest.mark.parametrize("rate", [16000.0, "16000", None, True])
def test_a_rate_that_is_no_whole_number_is_a_type_error(rate):
    with pytest.raises(TypeError, match="sampling_rate: expected a whole number"):
        n_samples(1.0, rate)
