"""Systems side by side: pairs, Holm's adjustment, groups, and the demand for the same units."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptb_metric.bootstrap import bootstrap
from mptb_metric.compare import compare, holm
from mptb_metric.intervals import BootstrapWarning
from mptb_metric.paired import paired_bootstrap, paired_bootstrap_percentiles
from mptb_metric.sums import Ratio, UnitCounts

# Two tracks side by side: TP, FN, FP, TN of each.
RATES = {
    "eot_recall": Ratio((0,), (0, 1)),
    "eot_fpr": Ratio((2,), (2, 3)),
    "int_recall": Ratio((4,), (4, 5)),
    "int_fpr": Ratio((6,), (6, 7)),
}


def system(shift, n_units=48, *, seed=0, prefix="c"):
    rng = np.random.default_rng(seed)
    n, ease = rng.integers(1, 9, (n_units, 4)), rng.beta(3, 2, (n_units, 4))
    hits = np.random.default_rng(seed + 1).binomial(n, np.clip(ease + shift, 0, 1))
    counts = np.stack([hits, n - hits], axis=-1).reshape(n_units, 8)
    latencies = [(rng.gamma(2, 0.3, hit) + shift).round(3).tolist() for hit in hits[:, 0]]
    return UnitCounts(tuple(f"{prefix}{i}" for i in range(n_units)), counts, {"eot_latency": latencies})


def slow_holm(p_values):
    """The textbook: adjusted p of the i-th smallest is the largest of (m - k) p_k over k <= i."""
    ranked = sorted(p_values)
    m = len(ranked)
    return [
        min(1.0, max((m - k) * ranked[k] for k in range(ranked.index(p) + 1)))
        if ranked.count(p) == 1
        else min(1.0, max((m - k) * ranked[k] for k in range(m - ranked[::-1].index(p))))
        for p in p_values
    ]


def test_holm_by_hand():
    # 4 * 0.005, then max(3 * 0.01, ...), 2 * 0.03, 1 * 0.04 raised to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_agrees_with_the_textbook(p_values):
    assert holm(p_values) == pytest.approx(slow_holm(p_values))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_nor_changes_their_order(p_values):
    adjusted = holm(p_values)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    for (p, a), (q, b) in itertools.combinations(zip(p_values, adjusted, strict=True), 2):
        assert a <= b if p <= q else a >= b


def test_holm_keeps_nan_and_still_counts_it():
    adjusted = holm([0.01, math.nan, 0.2])
    assert adjusted[0] == pytest.approx(0.03)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.4)


def test_figures_and_pairs_are_those_of_the_bootstraps():
    a, b = system(0.1), system(0.0)
    found = compare({"A": a, "B": b}, RATES, n_resamples=300, seed=2)
    own = bootstrap(a.counts, RATES["int_fpr"], n_resamples=300, seed=2)
    assert found["systems"]["A"]["int_fpr"] == own.estimate
    assert (found["systems"]["A"]["int_fpr_low"], found["systems"]["A"]["int_fpr_high"]) == (
        own.low,
        own.high,
    )
    pair = paired_bootstrap(a.counts, b.counts, RATES["eot_recall"], n_resamples=300, seed=2)
    (entry,) = found["pairs"]
    assert (entry["a"], entry["b"], found["n_units"]) == ("A", "B", 48)
    assert entry["eot_recall_difference"] == pair.difference
    assert (entry["eot_recall_difference_low"], entry["eot_recall_difference_high"]) == (pair.low, pair.high)
    assert entry["eot_recall_p_value"] == entry["eot_recall_p_value_holm"] == pair.p_value
    late = paired_bootstrap_percentiles(
        a.latencies_s["eot_latency"], b.latencies_s["eot_latency"], 50, n_resamples=300, seed=2
    )
    assert entry["eot_latency_p50_s_difference"] == late.difference
    assert entry["eot_latency_p50_s_p_value"] == late.p_value


def test_every_pair_is_compared_and_adjusted_for_their_number():
    systems = {name: system(shift, seed=5) for name, shift in zip("ABC", (0.15, 0.05, 0.0), strict=True)}
    found = compare(systems, RATES, n_resamples=500)
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [("A", "B"), ("A", "C"), ("B", "C")]
    for figure in (*RATES, "eot_latency_p50_s"):
        raw = [pair[f"{figure}_p_value"] for pair in found["pairs"]]
        assert [pair[f"{figure}_p_value_holm"] for pair in found["pairs"]] == pytest.approx(slow_holm(raw))


def test_units_are_joined_by_id_not_by_position():
    a, b = system(0.1), system(0.0)
    order = np.random.default_rng(0).permutation(48)
    expected = compare({"A": a, "B": b}, RATES, n_resamples=100)
    assert str(compare({"A": a, "B": b.subset(order)}, RATES, n_resamples=100)) == str(expected)
    assert str(compare({"A": a.subset(order), "B": b}, RATES, n_resamples=100)) == str(expected)


def test_renaming_units_does_not_change_anything():
    found = [
        compare({"A": system(0.1, prefix=p), "B": system(0.0, prefix=p)}, RATES, n_resamples=100)
        for p in "cx"
    ]
    assert str(found[0]) == str(found[1])


def test_exchanging_two_systems_negates_their_difference():
    a, b = system(0.1), system(0.0)
    (one,), (two,) = (
        compare(systems, RATES, n_resamples=100)["pairs"] for systems in ({"A": a, "B": b}, {"B": b, "A": a})
    )
    for figure in (*RATES, "eot_latency_p90_s"):
        assert one[f"{figure}_difference"] == -two[f"{figure}_difference"]
        assert one[f"{figure}_difference_low"] == -two[f"{figure}_difference_high"]
        assert one[f"{figure}_p_value"] == two[f"{figure}_p_value"]


def test_units_that_only_one_system_covers_are_listed():
    a, b = system(0.1), system(0.0)
    fewer = b.subset(np.arange(3, 48))
    with pytest.raises(ValueError, match="system 'B' against 'A': 3 missing unit: 'c0', 'c1', 'c2'"):
        compare({"A": a, "B": fewer}, RATES)
    with pytest.raises(ValueError, match="system 'B' against 'A': 3 unknown unit: 'c0', 'c1', 'c2'"):
        compare({"A": fewer, "B": b}, RATES)
    with pytest.raises(ValueError, match="unit repeated: 'c0'"):
        compare({"A": a.subset(np.array([0, 0])), "B": a.subset(np.array([0, 1]))}, RATES)


def test_groups_repeat_the_table_within_each():
    a, b = system(0.1), system(0.0)
    n_speakers = {unit: 2 + i % 4 for i, unit in enumerate(a.units)}
    found = compare({"A": a, "B": b}, RATES, by={"num_speakers": n_speakers}, n_resamples=200)
    groups = found["by"]["num_speakers"]
    assert list(groups) == ["2", "3", "4", "5"]
    rows = np.arange(0, 48, 4)
    expected = compare({"A": a.subset(rows), "B": b.subset(rows)}, RATES, n_resamples=200)
    assert groups["2"] == {key: expected[key] for key in ("n_units", "systems", "pairs")}


def test_strata_are_drawn_apart():
    a, b = system(0.1), system(0.0)
    strata = {unit: i % 3 for i, unit in enumerate(a.units)}
    found = compare({"A": a, "B": b}, RATES, strata=strata, n_resamples=200)
    labels = [i % 3 for i in range(48)]
    expected = paired_bootstrap(a.counts, b.counts, RATES["eot_recall"], strata=labels, n_resamples=200)
    assert found["pairs"][0]["eot_recall_difference_low"] == expected.low


def test_a_unit_without_a_label_is_named():
    a, b = system(0.1), system(0.0)
    with pytest.raises(ValueError, match="num_speakers: no label for 47 units, the first is 'c1'"):
        compare({"A": a, "B": b}, RATES, by={"num_speakers": {"c0": 2}})


def test_a_group_without_positives_is_nan_and_its_p_value_too():
    a, b = system(0.1, 4), system(0.0, 4)
    for each in (a, b):
        each.counts[:2, :2] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        found = compare({"A": a, "B": b}, RATES, by={"half": dict(zip(a.units, "xxyy", strict=True))})
    (pair,) = found["by"]["half"]["x"]["pairs"]
    assert math.isnan(pair["eot_recall_difference"])
    assert math.isnan(pair["eot_recall_p_value_holm"])
    assert not math.isnan(pair["int_recall_p_value_holm"])


def test_what_an_interval_left_out_is_noted_with_system_and_pair():
    a, b = (UnitCounts(("x", "y", "z"), np.array(counts)) for counts in ([[1, 0], [0, 0], [0, 1]],) * 2)
    with pytest.warns(BootstrapWarning, match="left out"):
        found = compare({"A": a, "B": b}, {"recall": Ratio((0,), (0, 1))}, n_resamples=99)
    assert [note.split(": ")[0] for note in found["notes"]] == ["A", "B", "A - B"]


def test_bare_figures_need_no_replicates():
    found = compare({"A": system(0.1), "B": system(0.0)}, RATES, n_resamples=0)
    (pair,) = found["pairs"]
    figures = found["systems"]
    assert pair["eot_recall_difference"] == figures["A"]["eot_recall"] - figures["B"]["eot_recall"]
    assert "eot_recall_p_value" not in pair


def test_results_are_plain_python():
    found = compare({"A": system(0.1), "B": system(0.0)}, RATES, n_resamples=50)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (None, "two or more"),
        (UnitCounts(("c0",), np.zeros((2, 8), dtype=int)), "system 'B': 1 units, but 2 rows of counts"),
        (UnitCounts(system(0).units, np.zeros((48, 4), dtype=int)), "system 'B': its counts or latencies"),
        (UnitCounts(system(0).units, system(0).counts), "system 'B': its counts or latencies"),
    ],
)
def test_systems_that_do_not_fit_are_named(second, message):
    systems = {"A": system(0.1)} if second is None else {"A": system(0.1), "B": second}
    with pytest.raises(ValueError, match=message):
        compare(systems, RATES)
