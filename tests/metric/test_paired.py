"""Two systems on the same units: exact symmetry, shared draws, and the p-value's formula."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mptb_metric.intervals import BootstrapWarning
from mptb_metric.paired import paired_bootstrap, paired_bootstrap_percentiles
from mptb_metric.sums import Ratio

RECALL = Ratio((0,), (0, 1))


def both_rates(sums):
    """Two statistics at once: hits and misses, each over both."""
    return sums / sums.sum(axis=-1, keepdims=True)


METHODS = ["percentile", "basic", "bca"]

pairs_of_counts = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        arrays(np.int64, (n, 2), elements=st.integers(0, 3)),
        arrays(np.int64, (n, 2), elements=st.integers(0, 3)),
    )
)
pairs_of_latencies = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        *[st.lists(st.lists(st.integers(-2, 9).map(float), max_size=3), min_size=n, max_size=n)] * 2
    )
)


def two_systems(n_units=60, *, seed=0, better=0.1):
    """Both find the same units hard; the first is a little better."""
    rng = np.random.default_rng(seed)
    n_rows, ease = rng.integers(1, 6, n_units), rng.beta(2, 2, n_units)
    right = [rng.binomial(n_rows, np.clip(ease + shift, 0, 1)) for shift in (better, 0.0)]
    return [np.column_stack([r, n_rows - r]) for r in right]


def assert_mirrored(found, swapped):
    for name in ("difference", "standard_error", "p_value", "n_undefined"):
        sign = -1 if name == "difference" else 1
        assert np.array_equal(getattr(found, name), sign * np.asarray(getattr(swapped, name)), equal_nan=True)
    assert np.array_equal(found.low, -np.asarray(swapped.high), equal_nan=True)
    assert np.array_equal(found.high, -np.asarray(swapped.low), equal_nan=True)
    assert np.array_equal(found.estimate_a, swapped.estimate_b, equal_nan=True)


@given(counts=pairs_of_counts, method=st.sampled_from(METHODS))
@settings(max_examples=150, deadline=None)
def test_exchanging_the_systems_negates_everything_exactly_and_keeps_the_p_value(counts, method):
    a, b = counts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        found = paired_bootstrap(a, b, RECALL, method=method, n_resamples=99)
        swapped = paired_bootstrap(b, a, RECALL, method=method, n_resamples=99)
    assert_mirrored(found, swapped)


@given(latencies=pairs_of_latencies, method=st.sampled_from(METHODS))
@settings(max_examples=60, deadline=None)
def test_exchanging_the_systems_negates_latency_differences_exactly(latencies, method):
    a, b = latencies
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        found = paired_bootstrap_percentiles(a, b, method=method, n_resamples=99)
        swapped = paired_bootstrap_percentiles(b, a, method=method, n_resamples=99)
    assert_mirrored(found, swapped)


@given(counts=pairs_of_counts, order=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_units_does_not_matter(counts, order):
    a, b = counts
    rows = list(range(len(a)))
    order.shuffle(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        found = paired_bootstrap(a, b, RECALL, n_resamples=99)
        shuffled = paired_bootstrap(a[rows], b[rows], RECALL, n_resamples=99)
    assert np.array_equal(
        [found.difference, found.low, found.high, found.p_value],
        [shuffled.difference, shuffled.low, shuffled.high, shuffled.p_value],
        equal_nan=True,
    )


@pytest.mark.parametrize("method", METHODS)
def test_identical_systems_differ_by_exactly_nothing(method):
    a, _ = two_systems()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = paired_bootstrap(a, a.copy(), RECALL, method=method)
        latencies = [[0.1 * k, 0.3] for k in range(20)]
        late = paired_bootstrap_percentiles(latencies, latencies, 50, method=method)
    for each in (found, late):
        assert (each.difference, each.low, each.high, each.p_value) == (0.0, 0.0, 0.0, 1.0)
        assert each.degenerate is True


def test_real_valued_identical_systems_differ_by_exactly_nothing():
    sums = np.random.default_rng(0).gamma(1, 1, (300, 2))
    found = paired_bootstrap(sums, sums, RECALL)
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_both_systems_are_judged_on_the_same_draws():
    # The second has one hit less in every unit: the difference is the same whatever is drawn.
    a = np.array([[k, 10 - k] for k in range(1, 11)])
    found = paired_bootstrap(a, a + np.array([-1, 1]), RECALL)
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))
    assert found.standard_error == pytest.approx(0, abs=1e-12)


def test_pairing_is_narrower_than_two_separate_intervals():
    a, b = two_systems(200)
    rng = np.random.default_rng(0)
    paired = paired_bootstrap(a, b, RECALL)
    unpaired = paired_bootstrap(a, b[rng.permutation(200)], RECALL)
    assert paired.standard_error < 0.8 * unpaired.standard_error


def test_the_p_value_follows_its_formula():
    a, b = two_systems(40, better=0.05)
    found = paired_bootstrap(a, b, RECALL, n_resamples=999)
    d = found.distribution
    expected = min(1, 2 * min((1 + (d <= 0).sum()) / 1000, (1 + (d >= 0).sum()) / 1000))
    assert found.p_value == expected
    assert 0.002 < found.p_value < 1


def test_replicates_have_the_distribution_of_literal_resampling():
    a, b = two_systems(50)
    rng = np.random.default_rng(0)
    theirs = []
    for _ in range(4000):
        rows = rng.integers(0, 50, 50)
        theirs.append(float(RECALL(a[rows].sum(axis=0)) - RECALL(b[rows].sum(axis=0))))
    ours = paired_bootstrap(a, b, RECALL, n_resamples=4000)
    assert stats.ks_2samp(ours.distribution, theirs).pvalue > 1e-3


def test_latency_differences_have_the_distribution_of_literal_resampling():
    rng = np.random.default_rng(0)
    a = [rng.gamma(2, 0.4, 8) for _ in range(30)]
    b = [unit + rng.normal(0.1, 0.1, 8) for unit in a]
    theirs = []
    for _ in range(3000):
        rows = rng.integers(0, 30, 30)
        medians = [np.percentile(np.concatenate([system[i] for i in rows]), 50) for system in (a, b)]
        theirs.append(medians[0] - medians[1])
    ours = paired_bootstrap_percentiles(a, b, 50, n_resamples=3000)
    assert stats.ks_2samp(ours.distribution, theirs).pvalue > 1e-3


def test_several_statistics_come_as_arrays():
    a, b = two_systems()
    found = paired_bootstrap(a, b, both_rates)
    assert found.difference.shape == found.p_value.shape == (2,)
    assert found.p_value[0] == found.p_value[1]


def test_strata_are_kept_apart():
    a = np.array([[1, 0]] * 10 + [[0, 1]] * 10)
    found = paired_bootstrap(a, 1 - a, RECALL, strata=["a"] * 10 + ["b"] * 10)
    assert (found.difference, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([[0, 0]] * 9, [[1, 1]] * 9, "undefined on the sample"),
        ([[3, 1]], [[1, 3]], "one unit"),
    ],
)
def test_the_p_value_is_nan_whenever_the_interval_is(a, b, reason):
    with pytest.warns(BootstrapWarning, match=reason):
        found = paired_bootstrap(a, b, RECALL)
    assert math.isnan(found.low)
    assert math.isnan(found.p_value)
    assert reason in found.reason


def test_a_replicate_is_undefined_where_either_system_is():
    with pytest.warns(BootstrapWarning, match="left out"):
        found = paired_bootstrap([[1, 1], [1, 0], [0, 1]], [[2, 1], [0, 0], [0, 0]], RECALL)
    assert found.n_undefined / 9999 == pytest.approx((2 / 3) ** 3, abs=0.02)


def test_matrices_of_different_units_are_refused():
    with pytest.raises(ValueError, match="the same units"):
        paired_bootstrap([[1, 0]] * 3, [[1, 0]] * 4, RECALL)
    with pytest.raises(ValueError, match="the same units"):
        paired_bootstrap_percentiles([[1.0]] * 3, [[1.0]] * 4)


def test_bad_counts_are_told_by_system():
    with pytest.raises(ValueError, match="counts_b: unit 1, column 0"):
        paired_bootstrap([[1, 0], [1, 0]], [[1, 0], [-1, 0]], RECALL)
