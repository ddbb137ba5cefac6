"""Matching: the rules of the protocol page, edge by edge, and what bad input gets."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptb_metric.matching import Counts, match

PROTOCOLS = ("mptb", "turnbench")


def score(positives=(), spans=(), excluded=(), predictions=(), protocol="mptb"):
    return match(positives, spans, excluded, predictions, protocol=protocol)


def as_row(counts):
    row = {key: getattr(counts, key) for key in ("tp", "fn", "fp", "tn")}
    return {**row, "latencies_s": list(counts.latencies_s)}


# Times on a grid of 50 ms in 12 s: windows, spans and edges collide all the time.
grid_times = st.lists(st.integers(0, 240).map(lambda n: n * 0.05), max_size=8)
grid_spans = st.lists(
    st.tuples(st.integers(0, 240), st.integers(0, 60)).map(lambda s: (s[0] * 0.05, (s[0] + s[1]) * 0.05)),
    max_size=5,
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_published_vector_matches(load_vectors, protocol):
    for case in load_vectors("matching"):
        found = score(
            case["positives"], case["negative_spans"], case["excluded_spans"], case["predictions"], protocol
        )
        assert as_row(found) == case["expected"][protocol], case["name"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(positives=grid_times, spans=grid_spans, excluded=grid_spans, predictions=grid_times)
def test_counts_equal_a_plain_rewrite_of_the_rules(
    slow_match, protocol, positives, spans, excluded, predictions
):
    found = score(positives, spans, excluded, predictions, protocol)
    assert as_row(found) == slow_match(positives, spans, excluded, predictions, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(
    positives=st.lists(st.floats(0, 30), max_size=6),
    predictions=st.lists(st.floats(0, 30), max_size=12),
    spans=st.lists(st.tuples(st.floats(0, 30), st.floats(0, 3)).map(lambda s: (s[0], sum(s))), max_size=4),
)
def test_arbitrary_floats_equal_the_plain_rewrite(slow_match, protocol, positives, predictions, spans):
    found = score(positives, spans, (), predictions, protocol)
    assert as_row(found) == slow_match(positives, spans, (), predictions, protocol)


@pytest.mark.parametrize(
    ("positive", "prediction", "hit"),
    [
        (127.984, 130.984, True),  # float subtraction misses these three
        (0.119, 3.119, True),
        (0.251, 0.001, True),
        (1.1, 0.85, True),
        (1.1, 0.849999, False),
        (1.1, 4.1, True),
        (1.1, 4.100001, False),
        (2.0, 5.001, False),
        (2.0, 5.0000004, True),  # less than half a microsecond past the edge is on it
    ],
)
def test_a_positive_s_window_is_closed_to_the_microsecond(positive, prediction, hit):
    assert score([positive], predictions=[prediction]).tp == hit


@pytest.mark.parametrize(
    ("prediction", "dropped"), [(9.75, True), (10.25, True), (9.749, False), (10.251, False)]
)
def test_an_excluded_span_is_closed_at_both_ends(prediction, dropped):
    assert bool(score(excluded=[(9.75, 10.25)], predictions=[prediction]).dropped) == dropped


@given(
    shift_ms=st.integers(0, 10**6),
    positives=st.lists(st.integers(0, 20_000), max_size=5),
    predictions=st.lists(st.integers(0, 20_000), max_size=8),
)
def test_shifting_all_times_by_milliseconds_changes_nothing(shift_ms, positives, predictions):
    def at(ms, shift):
        return [(t + shift) / 1000 for t in ms]

    spans = [(2000, 4000)]
    here = score(at(positives, 0), [at(s, 0) for s in spans], (), at(predictions, 0))
    there = score(at(positives, shift_ms), [at(s, shift_ms) for s in spans], (), at(predictions, shift_ms))
    assert here == there


@given(data=st.data(), positives=grid_times, spans=grid_spans, predictions=grid_times)
def test_the_order_of_the_arguments_is_free(data, positives, spans, predictions):
    shuffled = [data.draw(st.permutations(list(x))) for x in (positives, spans, predictions)]
    for protocol in PROTOCOLS:
        one = score(positives, spans, (), predictions, protocol)
        other = score(shuffled[0], shuffled[1], (), shuffled[2], protocol)
        assert as_row(one) == as_row(other)


def test_the_match_is_greedy_in_time_not_the_closest_pair():
    both = score([10.0, 12.9], predictions=[12.8, 15.9])
    assert both.latencies_s == (2.8, 3.0)
    one = score([10.0, 12.9], predictions=[12.8])
    assert (one.tp, one.fn, one.hits) == (1, 1, ((0, 0),))


# gold:      2.0   3.0            15.0----16.0
# predicted:        3.1 3.7  14.8
@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("mptb", (2, 0, 0, 1, (1.1, 0.7))), ("turnbench", (1, 1, 1, 0, (0.1,)))],
)
def test_the_two_protocols_part_at_the_next_positive_and_before_a_span(protocol, expected):
    found = score([2.0, 3.0], [(15.0, 16.0)], (), [3.1, 3.7, 14.8], protocol)
    assert (found.tp, found.fn, found.fp, found.tn, found.latencies_s) == expected


def test_under_turnbench_equal_positives_share_one_full_window():
    found = score([2.0, 2.0], predictions=[2.1, 4.9], protocol="turnbench")
    assert found.latencies_s == (0.1, 2.9)


def test_index_pairs_refer_to_the_arguments_as_they_were_given():
    found = score([9.0, 2.0], [(20.0, 21.0), (5.5, 6.0)], [(30.0, 31.0)], [30.5, 9.1, 2.1, 5.7])
    assert found.hits == ((1, 2), (0, 1))
    assert found.false_alarms == ((1, 3),)
    assert found.dropped == (0,)


def test_gold_as_predictions_is_perfect_and_silence_scores_cleanly():
    perfect = score([2.0, 9.0], [(4.0, 4.5)], (), [2.0, 9.0])
    assert (perfect.recall, perfect.fpr, perfect.latency_p50_s) == (1.0, 0.0, 0.0)
    silent = score([2.0, 9.0], [(4.0, 4.5)])
    assert (silent.recall, silent.fpr) == (0.0, 0.0)
    assert math.isnan(silent.latency_p50_s)


def test_firing_everywhere_pays_on_every_negative_span():
    # 25 decisions a second: one in each window is claimed, the rest charge both spans
    found = score([2.0], [(4.0, 4.5), (6.0, 7.0)], (), [n / 25 for n in range(1, 250)])
    assert (found.tp, found.fp, found.tn) == (1, 2, 0)


def test_without_gold_a_prediction_counts_nowhere_and_rates_are_undefined():
    found = score(predictions=[1.0])
    assert (found.tp, found.fn, found.fp, found.tn) == (0, 0, 0, 0)
    assert math.isnan(found.recall)
    assert math.isnan(found.fpr)


def test_counts_pool_by_sums_so_that_an_empty_channel_changes_no_rate():
    three_of_four = score([10.0, 20.0, 30.0, 40.0], predictions=[10.0, 20.0, 30.0])
    pooled = sum([score(predictions=[1.0]), three_of_four, score()])
    assert pooled == Counts(3, 1, 0, 0, (0.0, 0.0, 0.0))
    assert pooled.recall == 0.75


def test_latency_percentiles_are_numpy_s_linear_ones():
    counts = score([0.0, 10.0, 20.0], predictions=[0.1, 10.5, 22.0])
    assert counts.latency_p10_s == np.percentile([0.1, 0.5, 2.0], 10)
    assert counts.latency_p90_s == np.percentile([0.1, 0.5, 2.0], 90)


def test_counts_are_frozen_and_survive_pickling():
    found = score([2.0], predictions=[2.1])
    with pytest.raises(AttributeError):
        found.tp = 9
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda x: np.array(x, np.float32)])
def test_lists_tuples_and_arrays_of_any_width_give_the_same(make):
    found = match(make([2.0]), make([(5.0, 6.0)]), make([(8.0, 9.0)]), make([2.5, 5.5, 8.5]))
    assert (found.tp, found.fp, found.latencies_s, found.dropped) == (1, 1, (0.5,), (2,))


def test_spans_may_be_start_end_mappings():
    assert score(spans=[{"start": 5.0, "end": 6.0}], predictions=[5.5]).fp == 1


def test_empty_arrays_of_any_shape_are_no_gold():
    assert match(np.array([]), np.empty((0, 2)), (), []) == match([], [], [], [])


def test_an_excluded_span_may_begin_as_early_as_its_margin():
    assert score([0.1], excluded=[(-0.25, 0.25)], predictions=[0.2]).dropped == (0,)


def test_results_are_plain_python_numbers():
    found = match(np.array([2.0]), np.array([(5.0, 6.0)]), [], np.array([2.5]))
    assert {type(found.tp), type(found.fp), type(found.recall)} == {int, float}
    assert json.loads(json.dumps(found.latencies_s)) == [0.5]


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, -0.001, 1e300, "1.5", None, True, [1.0], np.bool_(True)]
)
@pytest.mark.parametrize("argument", ["positives", "predictions"])
def test_what_is_not_a_time_is_refused_by_argument_and_index(argument, bad):
    with pytest.raises(ValueError, match=rf"{argument}\[1\]: expected a finite time"):
        score(**{argument: [1.0, bad]})


@pytest.mark.parametrize(
    "bad",
    [(1.0,), (1.0, 2.0, 3.0), "ab", 4.0, None, {"start": 1.0}, {"onset": 1.0, "offset": 2.0}, {1.0, 2.0}],
)
@pytest.mark.parametrize("argument", ["spans", "excluded"])
def test_what_is_not_a_span_is_refused_by_argument_and_index(argument, bad):
    with pytest.raises(ValueError, match=r"_spans\[1\]: expected \(start, end\)"):
        score(**{argument: [(1.0, 2.0), bad]})


@pytest.mark.parametrize("bad", [(math.nan, 2.0), (1.0, math.inf), ("1", 2.0), (1.0, None), (-1.0, 2.0)])
def test_an_end_of_a_span_that_is_not_a_time_is_refused(bad):
    for argument in ("spans", "excluded"):
        with pytest.raises(ValueError, match=r"_spans\[0\]: expected a finite time"):
            score(**{argument: [bad]})


def test_a_span_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match=r"negative_spans\[0\]: ends before it starts: 2.0 to 1.0"):
        score(spans=[(2.0, 1.0)])


@pytest.mark.parametrize("bad", [None, 1.0, "1.0", {"start": 1.0}, np.array(1.0)])
def test_what_is_not_a_sequence_is_refused_by_argument(bad):
    with pytest.raises(ValueError, match=r"predictions: expected a sequence of seconds"):
        score(predictions=bad)


def test_an_unknown_protocol_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="'MPTB' is unknown; expected one of mptb, turnbench"):
        score(protocol="MPTB")
