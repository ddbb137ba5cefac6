"""Intervals of pooled rates: against literal resampling, against SciPy, and in every degenerate case."""

import json
import math
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mptb_metric import resampling
from mptb_metric.bootstrap import bootstrap
from mptb_metric.intervals import BootstrapWarning
from mptb_metric.sums import Ratio

RECALL = Ratio((0,), (0, 1))


def both_rates(sums):
    """Two statistics at once: hits and misses, each over both."""
    return sums / sums.sum(axis=-1, keepdims=True)


count_matrices = arrays(
    np.int64, st.tuples(st.integers(2, 12), st.just(2)), elements=st.integers(0, 5)
).filter(lambda counts: (counts.sum(axis=1) > 0).all())


def plain_rate(sums):
    return sums[..., 0] / (sums[..., 0] + sums[..., 1])


def literal(counts, statistic, *, n_resamples, seed):
    """Draw indices, take, sum."""
    rng = np.random.default_rng(seed)
    n = len(counts)
    return np.array([statistic(counts[rng.integers(0, n, n)].sum(axis=0)) for _ in range(n_resamples)])


def turn_counts(n_units, *, seed=0):
    """Correlated rows: some units are mostly right, some mostly wrong."""
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(1, 4, n_units)
    right = rng.binomial(n_rows, rng.beta(2, 1, n_units))
    return np.column_stack([right, n_rows - right])


@pytest.mark.parametrize("n_units", [3, 30, 2000])
def test_replicates_have_the_distribution_of_literal_resampling(n_units):
    counts = turn_counts(n_units)
    ours = bootstrap(counts, RECALL, n_resamples=4000, seed=1)
    theirs = literal(counts, plain_rate, n_resamples=4000, seed=2)
    assert stats.ks_2samp(ours.distribution, theirs).pvalue > 1e-3


def test_replicates_of_rare_and_common_vectors_together_have_the_literal_covariance():
    # 60 units share one vector, 40 have one each: both ways of drawing are at work, and must hang together.
    counts = np.vstack(
        [np.tile([1, 0, 2], (60, 1)), np.column_stack([np.arange(40)] * 2 + [np.arange(40)[::-1]])]
    )
    ours = bootstrap(counts, lambda sums: sums, n_resamples=20_000).distribution
    expected = len(counts) * np.cov(counts.T, ddof=0)
    assert np.cov(ours.T) == pytest.approx(expected, rel=0.05)
    assert ours.mean(axis=0) == pytest.approx(counts.sum(axis=0), rel=0.005)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_interval_of_a_mean_agrees_with_scipy(method):
    values = np.random.default_rng(3).gamma(1.0, 1.0, 60)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method=method, rng=np.random.default_rng(4)
    )
    ours = bootstrap(
        np.column_stack([values, np.ones(60)]), Ratio((0,), (1,)), n_resamples=20_000, method=method
    )
    # Monte Carlo error of a tail quantile is about 1.5 % of the standard error with 20,000 replicates.
    tolerance = 0.08 * theirs.standard_error
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=tolerance)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=tolerance)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.03)


def test_bca_is_not_the_percentile_interval_of_a_skewed_statistic():
    values = np.random.default_rng(3).gamma(0.5, 1.0, 30)
    counts = np.column_stack([values, np.ones(30)])
    percentile, bca = (
        bootstrap(counts, Ratio((0,), (1,)), method=method) for method in ("percentile", "bca")
    )
    assert bca.low > percentile.low
    assert bca.high > percentile.high


def test_percentile_interval_is_that_quantile_of_the_distribution():
    found = bootstrap(turn_counts(50), RECALL, confidence_level=0.9)
    assert (found.low, found.high) == pytest.approx(np.quantile(found.distribution, [0.05, 0.95]), abs=1e-12)


def test_basic_interval_mirrors_the_percentile_interval_at_the_estimate():
    counts = turn_counts(50)
    percentile, basic = bootstrap(counts, RECALL), bootstrap(counts, RECALL, method="basic")
    assert basic.low == pytest.approx(2 * percentile.estimate - percentile.high)
    assert basic.high == pytest.approx(2 * percentile.estimate - percentile.low)


def test_clusters_are_never_split():
    # 40 units of 50 rows, half all right and half all wrong: the error is that of 40 coins, not of 2,000.
    counts = np.array([[50, 0]] * 20 + [[0, 50]] * 20)
    found = bootstrap(counts, RECALL)
    assert found.standard_error == pytest.approx(0.079, abs=0.003)
    assert found.n_units == 40


@given(counts=count_matrices, order=st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_units_does_not_matter(counts, order):
    shuffled = list(counts)
    order.shuffle(shuffled)
    a = bootstrap(counts, RECALL, n_resamples=200)
    b = bootstrap(np.array(shuffled), RECALL, n_resamples=200)
    assert (a.low, a.high) == (b.low, b.high)
    assert np.array_equal(a.distribution, b.distribution)


def test_the_order_of_units_with_real_valued_sums_does_not_matter():
    values = np.random.default_rng(0).normal(size=(200, 2)) ** 2
    a, b = bootstrap(values, RECALL), bootstrap(values[::-1], RECALL)
    assert np.array_equal(a.distribution, b.distribution)


@pytest.mark.parametrize("cells", [1, 1000, 10**9])
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_and_threads_do_not_change_the_replicates(monkeypatch, cells, threads):
    counts = np.vstack([turn_counts(400), np.column_stack([np.arange(30), np.arange(30)[::-1]])])
    expected = bootstrap(counts, RECALL, n_resamples=2600).distribution
    monkeypatch.setattr(resampling, "_BATCH_CELLS", cells)
    monkeypatch.setattr(resampling, "_MAX_THREADS", threads)
    assert np.array_equal(bootstrap(counts, RECALL, n_resamples=2600).distribution, expected)


def test_the_seed_decides_and_the_global_generator_is_left_alone():
    counts = turn_counts(30)
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first, second, other = (bootstrap(counts, RECALL, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.distribution, second.distribution)
    assert not np.array_equal(first.distribution, other.distribution)
    assert np.array_equal(np.random.get_state()[1], before)


def test_a_higher_level_gives_a_wider_interval_for_every_statistic():
    counts = turn_counts(40)
    for statistic in (RECALL, both_rates):
        widths = [
            np.ravel(found.high) - np.ravel(found.low)
            for found in (bootstrap(counts, statistic, confidence_level=level) for level in (0.5, 0.9, 0.99))
        ]
        assert (widths[0] < widths[1]).all()
        assert (widths[1] < widths[2]).all()


def test_several_statistics_share_their_draws():
    found = bootstrap(turn_counts(40), both_rates)
    assert found.low.shape == found.estimate.shape == (2,)
    assert found.distribution.sum(axis=1) == pytest.approx(np.ones(9999))
    assert found.low[0] == pytest.approx(1 - found.high[1])


def test_a_ratio_and_a_plain_function_agree():
    counts = turn_counts(40)
    assert bootstrap(counts, RECALL).low == bootstrap(counts, plain_rate).low


def test_naming_columns_merges_units_that_differ_elsewhere():
    counts = np.column_stack([turn_counts(500), np.arange(500)])
    alone = bootstrap(counts[:, :2], RECALL)
    assert np.array_equal(bootstrap(counts, RECALL).distribution, alone.distribution)
    assert np.array_equal(bootstrap(counts, plain_rate, columns=[0, 1]).distribution, alone.distribution)


def test_a_statistic_that_reads_columns_it_did_not_name_is_undefined():
    with pytest.warns(BootstrapWarning):
        found = bootstrap(turn_counts(20), plain_rate, columns=[0])
    assert math.isnan(found.estimate)


def test_strata_keep_their_sizes():
    # Without strata the share of the first 10 units varies; within strata it cannot.
    counts = np.array([[1, 0]] * 10 + [[0, 1]] * 10)
    found = bootstrap(counts, RECALL, strata=["a"] * 10 + ["b"] * 10)
    assert (found.low, found.high, found.degenerate) == (0.5, 0.5, True)
    assert not bootstrap(counts, RECALL).degenerate


def test_strata_have_the_distribution_of_literal_resampling_within_each():
    counts, n = turn_counts(90, seed=6), 30
    strata = [2, 3, 4] * n
    rng = np.random.default_rng(0)
    parts = [counts[i::3] for i in range(3)]
    theirs = [plain_rate(sum(part[rng.integers(0, n, n)].sum(axis=0) for part in parts)) for _ in range(4000)]
    ours = bootstrap(counts, RECALL, strata=strata, n_resamples=4000)
    assert stats.ks_2samp(ours.distribution, theirs).pvalue > 1e-3


def test_a_missing_stratum_is_named():
    with pytest.raises(ValueError, match="strata: unit 1 has no label"):
        bootstrap([[1, 0], [0, 1]], RECALL, strata=["a", None])
    with pytest.raises(ValueError, match=r"one label per unit \(2\), got 1"):
        bootstrap([[1, 0], [0, 1]], RECALL, strata=["a"])


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
@pytest.mark.parametrize("counts", [[[4, 0]] * 48, [[0, 4]] * 48, [[k, 0] for k in range(1, 49)]])
def test_a_perfect_or_silent_system_has_a_point_interval_without_any_warning(method, counts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bootstrap(counts, RECALL, method=method)
    rate = 1.0 if counts[0][0] else 0.0
    assert (found.low, found.high, found.standard_error) == (rate, rate, 0.0)
    assert found.degenerate is True


def test_undefined_replicates_are_left_out_counted_and_warned_about():
    # Four of five units hold no positive: (4/5)^5 = 32.8 % of the draws hold none.
    with pytest.warns(BootstrapWarning, match="replicates were undefined and left out"):
        found = bootstrap([[0, 0]] * 4 + [[3, 1]], RECALL)
    assert found.n_undefined / 9999 == pytest.approx(0.8**5, abs=0.02)
    assert (found.low, found.high) == (0.75, 0.75)
    assert len(found.distribution) == 9999 - found.n_undefined


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_undefined_replicates_leave_a_finite_interval(method):
    with pytest.warns(BootstrapWarning):
        found = bootstrap([[0, 0]] * 6 + [[3, 1], [1, 3]], RECALL, method=method)
    assert 0 < found.n_undefined < 5000
    assert found.low < 0.5 < found.high


def test_more_than_half_undefined_gives_no_interval_but_a_reason():
    # Defined where both of two units among many were drawn: about (1 - 1/e)^2 = 40 % of the draws.
    counts = [[1, 0], [0, 1]] + [[0, 0]] * 30
    with pytest.warns(BootstrapWarning, match="no interval: .* more than the share of 0.5"):
        found = bootstrap(counts, lambda sums: sums[..., 0] / sums[..., 1] + sums[..., 1] / sums[..., 0])
    assert found.n_undefined / 9999 == pytest.approx(0.6, abs=0.03)
    assert found.estimate == 2.0
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert "more than the share" in found.reason


def test_an_undefined_sample_gives_no_interval_but_a_reason():
    with pytest.warns(BootstrapWarning, match="undefined on the sample itself"):
        found = bootstrap([[0, 0]] * 10, RECALL)
    assert math.isnan(found.estimate)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert found.n_undefined == 9999
    assert found.reason is not None


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_one_unit_gives_no_invented_width(method):
    with pytest.warns(BootstrapWarning, match="one unit"):
        found = bootstrap([[3, 1]], RECALL, method=method)
    assert found.estimate == 0.75
    assert math.isnan(found.low)
    assert math.isnan(found.standard_error)
    assert found.degenerate is False
    assert "one unit" in found.reason


def test_strata_of_one_unit_each_give_no_invented_width():
    with pytest.warns(BootstrapWarning, match="one unit"):
        found = bootstrap([[3, 1], [1, 3]], RECALL, strata=["a", "b"])
    assert math.isnan(found.low)


def test_bca_with_an_estimate_beyond_all_replicates_stays_within_them():
    found = bootstrap([[1, 0]] * 3 + [[0, 1]] * 3, lambda s: np.abs(s[:, 0] - 3), method="bca")
    assert 0 <= found.low <= found.high <= 3


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.zeros((0, 2)), "at least one unit"),
        ([1, 2, 3], "matrix"),
        ([[1, -1], [2, 2]], "unit 0, column 1: expected a finite count >= 0, got -1"),
        ([[1.0, 2.0], [math.nan, 1.0]], "unit 1, column 0: .* got nan"),
        ([[1.0, math.inf]], "unit 0, column 1: .* got inf"),
        ([["1", "2"]], "expected numbers"),
        ([[None, 1]], "expected numbers"),
    ],
)
def test_bad_counts_are_named_by_unit_and_column(counts, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(counts, RECALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 0}, "n_resamples"),
        ({"n_resamples": 1}, "n_resamples"),
        ({"n_resamples": -5}, "n_resamples"),
        ({"n_resamples": 10.0}, "n_resamples"),
        ({"n_resamples": True}, "n_resamples"),
        ({"confidence_level": 0.0}, "confidence_level"),
        ({"confidence_level": 1.0}, "confidence_level"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"confidence_level": math.nan}, "confidence_level"),
        ({"method": "BCa"}, "method: expected one of percentile, basic, bca"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
        ({"columns": [2]}, "columns"),
        ({"columns": [-1]}, "columns"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap([[1, 0], [0, 1]], RECALL, **options)


def test_a_statistic_that_indexes_rows_is_told_to_index_columns():
    with pytest.raises(ValueError, match=r"write sums\[\.\.\., 0\]"):
        bootstrap([[1, 0], [0, 1]], lambda sums: sums.sum())


def test_a_statistic_may_write_into_its_argument():
    def in_place(sums):
        sums /= sums.sum(axis=-1, keepdims=True)
        return sums[..., 0]

    counts = turn_counts(20)
    found = [bootstrap(counts, statistic, method="bca") for statistic in (in_place, plain_rate)]
    assert found[0].low == found[1].low


def test_infinite_replicates_are_undefined():
    with pytest.warns(BootstrapWarning, match="left out"):
        found = bootstrap([[1, 0], [1, 1], [1, 1]], lambda sums: sums[..., 0] / sums[..., 1])
    assert np.isfinite(found.distribution).all()


def test_results_for_one_statistic_are_plain_python():
    found = bootstrap(turn_counts(10), RECALL, n_resamples=50)
    figures = [
        found.estimate,
        found.low,
        found.high,
        found.standard_error,
        found.n_undefined,
        found.degenerate,
    ]
    assert {type(figure) for figure in figures} == {float, int, bool}
    json.dumps(figures, allow_nan=False)


def test_concurrent_calls_do_not_disturb_each_other():
    counts = turn_counts(300)
    expected = bootstrap(counts, RECALL).distribution
    found = []
    workers = [
        threading.Thread(target=lambda: found.append(bootstrap(counts, RECALL).distribution))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(np.array_equal(each, expected) for each in found)
