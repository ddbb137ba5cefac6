"""Latency percentiles by weights: against NumPy on the replicated list itself."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mptb_metric.intervals import BootstrapWarning
from mptb_metric.percentiles import WeightedPercentiles, bootstrap_percentiles
from mptb_metric.resampling import DistinctUnits

latency = st.integers(-250, 3000).map(lambda ms: ms / 1000)
latency_units = st.lists(st.lists(latency, max_size=5), min_size=1, max_size=40)


def conversations(n_units=40, *, seed=0, mean=14):
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(mean, n_units)
    return [(rng.gamma(2, 0.4, size) + rng.normal(0, 0.2) - 0.25).round(3).tolist() for size in sizes]


def weighted(units, weights, percentiles):
    """Percentiles of units that were drawn ``weights`` times each, by the code under test."""
    distinct = DistinctUnits(
        np.arange(len(units))[:, None].astype(float), np.ones(len(units), dtype=int), (slice(0, len(units)),)
    )
    measure = WeightedPercentiles(distinct, [tuple(unit) for unit in units], np.asarray(percentiles) / 100)
    return measure.reduce(np.asarray([weights], dtype=float))[0]


@given(
    units=latency_units,
    data=st.data(),
    percentiles=st.lists(st.floats(0, 100), min_size=1, max_size=3),
)
@settings(max_examples=200, deadline=None)
def test_weights_give_what_numpy_gives_for_the_replicated_list_to_the_last_bit(units, data, percentiles):
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(units), max_size=len(units)))
    found = weighted(units, weights, percentiles)
    pooled = [value for unit, weight in zip(units, weights, strict=True) for value in unit * weight]
    if pooled:
        assert found.tolist() == np.percentile(pooled, percentiles).tolist()
    else:
        assert np.isnan(found).all()


def test_runs_longer_than_one_block_are_counted_right():
    units = [(np.arange(700) / 100).tolist(), [3.005] * 200]
    for weights in ([1, 1], [0, 2], [3, 0], [1, 7]):
        pooled = units[0] * weights[0] + units[1] * weights[1]
        expected = np.percentile(pooled, [0, 10, 50, 90, 100])
        assert weighted(units, weights, [0, 10, 50, 90, 100]).tolist() == expected.tolist()


def test_replicates_have_the_distribution_of_literal_resampling():
    units = [np.array(unit) for unit in conversations()]
    rng = np.random.default_rng(1)
    theirs = np.array(
        [
            np.percentile(np.concatenate([units[i] for i in rng.integers(0, 40, 40)]), [10, 50, 90])
            for _ in range(3000)
        ]
    )
    ours = bootstrap_percentiles(units, n_resamples=3000).distribution
    for column in range(3):
        # On a grid of milliseconds there are ties, which make this test conservative.
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3


def test_the_estimate_is_the_percentile_of_all_latencies():
    units = conversations()
    pooled = [value for unit in units for value in unit]
    assert bootstrap_percentiles(units, 50).estimate == np.percentile(pooled, 50)


def test_neither_the_order_of_units_nor_that_within_them_matters():
    units = conversations(30)
    a = bootstrap_percentiles(units, n_resamples=300)
    b = bootstrap_percentiles([unit[::-1] for unit in units[::-1]], n_resamples=300)
    assert np.array_equal(a.distribution, b.distribution)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_every_method_brackets_the_estimate(method):
    found = bootstrap_percentiles(conversations(60), method=method)
    assert (found.low < found.estimate).all()
    assert (found.estimate < found.high).all()


def test_units_without_latencies_are_drawn_too():
    # Three of four units have none: (3/4)^4 of the draws hold no latency at all.
    with pytest.warns(BootstrapWarning, match="left out"):
        found = bootstrap_percentiles([[0.5], [], [], []], 50)
    assert found.n_undefined / 9999 == pytest.approx(0.75**4, abs=0.02)
    assert (found.low, found.high, found.degenerate) == (0.5, 0.5, True)


def test_no_latency_at_all_gives_no_interval_but_a_reason():
    with pytest.warns(BootstrapWarning, match="undefined on the sample"):
        found = bootstrap_percentiles([[], []])
    assert np.isnan(found.estimate).all()
    assert np.isnan(found.low).all()
    assert all(reason is not None for reason in found.reason)


def test_one_unit_gives_no_invented_width():
    with pytest.warns(BootstrapWarning, match="one unit"):
        found = bootstrap_percentiles([[0.1, 0.5, 0.9]], 50)
    assert found.estimate == 0.5
    assert math.isnan(found.low)


def test_equal_units_have_a_point_interval_without_any_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bootstrap_percentiles([[0.1, 0.3]] * 20, 50, method="bca")
    assert found.low == found.high == found.estimate == 0.2


def test_strata_are_kept_apart():
    found = bootstrap_percentiles([[0.0]] * 5 + [[1.0]] * 5, 50, strata="a" * 5 + "b" * 5)
    assert (found.low, found.high) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([], "at least one unit"),
        ([[0.1], [math.nan]], "unit 1: expected finite seconds, got nan"),
        ([[0.1], [0.2, math.inf]], "unit 1: .* got inf"),
        ([["0.1"], [0.2]], "unit 0: .* got '0.1'"),
        ([[0.1, None]], "unit 0: .* got None"),
        ([[True, True]], "unit 0: .* got True"),
        ([[[0.1]]], "a sequence of numbers per unit"),
    ],
)
def test_bad_latencies_are_named_by_unit(units, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_percentiles(units)


@pytest.mark.parametrize("percentiles", [-1, 101, math.nan, [], "50", [[10]]])
def test_bad_percentiles_are_refused(percentiles):
    with pytest.raises(ValueError, match="percentiles"):
        bootstrap_percentiles([[0.1], [0.2]], percentiles)
