"""Sweep: equal to deciding and matching anew everywhere; the rules that choose a threshold."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mptb_metric.decisions import decide
from mptb_metric.matching import match
from mptb_metric.sweep import channel_counts, sweep

COUNTS = ("tp", "fn", "fp", "tn")


def channel(positives=(), spans=(), scores=(), excluded=()):
    return {
        "positives": list(positives),
        "negative_spans": list(spans),
        "excluded_spans": list(excluded),
        "scores": scores,
    }


def pulses(**score_at_s):
    """A trace at 10 Hz of 40 s, zero but for single frames whose decision is taken at the given times."""
    scores = np.zeros(400)
    for time_s, score in score_at_s.values():
        scores[round(time_s * 10) - 1] = score
    return scores


def assert_equal_to(rows, found):
    assert len(found) == len(rows)
    for i, row in enumerate(rows):
        assert {key: getattr(found, key)[i] for key in COUNTS} == {key: row[key] for key in COUNTS}, i
        for percent in (10, 50, 90):
            value = getattr(found, f"latency_p{percent}_s")[i]
            if row["latencies_s"]:
                assert value == np.percentile(row["latencies_s"], percent)
            else:
                assert math.isnan(value)


def slow_operating_point(rows, budget):
    """The rule as a sentence, in fractions."""
    able = [
        row
        for row in rows
        if row["tp"] + row["fn"]
        and row["fp"] + row["tn"]
        and Fraction(row["fp"], row["fp"] + row["tn"]) <= Fraction(str(budget))
    ]
    if not able:
        return None

    def median_us(row):
        latencies = sorted(round(t * 1e6) for t in row["latencies_s"]) or [0]
        return Fraction(latencies[(len(latencies) - 1) // 2] + latencies[len(latencies) // 2], 2)

    return max(able, key=lambda r: (r["tp"], -r["fp"], -median_us(r), r["theta"]))


times = st.integers(0, 120).map(lambda n: n * 0.05)
spans = st.tuples(times, st.integers(0, 40)).map(lambda s: (s[0], s[0] + s[1] * 0.05))
score_traces = st.one_of(
    st.lists(st.integers(0, 5).map(lambda n: n / 5), max_size=80),  # ties everywhere
    st.lists(st.floats(-1, 1, width=32), max_size=80).map(lambda x: np.array(x, np.float32)),
    st.builds(lambda value, n: [value] * n, st.floats(0, 1), st.integers(0, 40)),  # constant, one frame, none
)
channels = st.lists(
    st.builds(
        channel,
        st.lists(times, max_size=5),
        st.lists(spans, max_size=4),
        score_traces,
        st.lists(spans, max_size=2),
    ),
    max_size=3,
)


def test_every_published_sweep_matches_row_by_row(load_vectors):
    for case in load_vectors("sweep"):
        found = sweep(case["channels"], case["frame_rate"])
        assert found.exact
        assert len(found) == len(case["rows"])
        for i, row in enumerate(case["rows"]):
            for key, value in row.items():
                expected = math.nan if value is None else value
                assert getattr(found, key)[i] == pytest.approx(expected, abs=1e-12, nan_ok=True), (i, key)
        chosen = found.operating_point()
        for key, value in case["operating_point"].items():
            assert chosen[key] == pytest.approx(value, abs=1e-12), key


@settings(max_examples=300)
@given(
    channels=channels,
    protocol=st.sampled_from(["mptb", "turnbench"]),
    refractory_s=st.sampled_from([0.0, 0.3, 2.0]),
    frame_rate=st.sampled_from([10, 12.5, 25]),
    lookahead_s=st.sampled_from([0.0, 0.08]),
    budget=st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]),
)
def test_an_exact_sweep_equals_deciding_and_matching_anew(
    slow_sweep, channels, protocol, refractory_s, frame_rate, lookahead_s, budget
):
    scores = {float(np.float64(s)) for c in channels for s in c["scores"]}
    thresholds = {*scores, min(scores) - 1} if scores else set()
    options = {"protocol": protocol, "refractory_s": refractory_s, "lookahead_s": lookahead_s}
    rows = slow_sweep(channels, frame_rate, thresholds, **options)
    found = sweep(channels, frame_rate, **options)
    assert found.theta.tolist() == [row["theta"] for row in rows]
    assert_equal_to(rows, found)
    expected, chosen = slow_operating_point(rows, budget), found.operating_point(budget)
    assert (chosen and chosen["theta"]) == (expected and expected["theta"])


@given(
    channels=channels,
    grid=st.sets(st.integers(-3, 13).map(lambda n: n / 10), min_size=1, max_size=8),
    protocol=st.sampled_from(["mptb", "turnbench"]),
)
def test_a_grid_equals_deciding_and_matching_anew(slow_sweep, channels, grid, protocol):
    found = sweep(channels, 10, thresholds=list(grid), protocol=protocol, refractory_s=0.3)
    assert not found.exact
    assert found.theta.tolist() == sorted(grid)
    assert_equal_to(slow_sweep(channels, 10, grid, protocol, 0.3), found)


@pytest.mark.parametrize("protocol", ["mptb", "turnbench"])
@pytest.mark.parametrize("refractory_s", [0.0, 2.0])
def test_long_float32_traces_equal_a_sample_of_thresholds_scored_anew(protocol, refractory_s):
    rng = np.random.default_rng(3)
    corpus = []
    for _ in range(6):
        walk = np.cumsum(rng.normal(size=2500))
        walk -= np.convolve(walk, np.ones(50) / 50, "same")
        starts = rng.uniform(0, 95, 8).round(3)
        corpus.append(
            channel(
                rng.uniform(0, 100, 12).round(3),
                [(s, s + 1.2) for s in starts],
                (1 / (1 + np.exp(-walk))).astype(np.float32),
                [(s, s + 0.5) for s in rng.uniform(0, 95, 3).round(3)],
            )
        )
    found = sweep(corpus, 25, protocol=protocol, refractory_s=refractory_s)
    assert len(found) > 10_000
    for i in rng.integers(0, len(found), 150):
        options = {"protocol": protocol, "refractory_s": refractory_s}
        pooled = sum(channel_counts(corpus, 25, float(found.theta[i]), **options))
        assert {key: found.__getattribute__(key)[i] for key in COUNTS} == {
            key: getattr(pooled, key) for key in COUNTS
        }
        assert found.latency_p50_s[i] == pytest.approx(pooled.latency_p50_s, abs=1e-12, nan_ok=True)


def test_the_exact_set_is_every_distinct_score_and_one_value_below_them_all():
    found = sweep([channel(scores=np.float32([0.1, 0.3])), channel(scores=[0.3, 0.2])], 10)
    scores = sorted({float(np.float32(0.1)), float(np.float32(0.3)), 0.3, 0.2})
    assert found.theta.tolist() == [scores[0] - 1, *scores]


def test_below_all_scores_the_first_frame_alone_fires():
    found = sweep([channel([0.1], scores=[0.5, 0.7, 0.6])], 10)
    assert (found.theta[0], found.tp[0]) == (-0.5, 1)


def test_the_highest_threshold_never_fires():
    found = sweep([channel([0.1], [(0.0, 1.0)], [0.5, 0.7])], 10)
    assert (found.tp[-1], found.fp[-1]) == (0, 0)


def test_among_huge_scores_the_lowest_threshold_is_still_below_them():
    found = sweep([channel(scores=[1e300, 2e300])], 10)
    assert len(found) == 3
    assert found.theta[0] < 1e300


def test_recall_may_rise_with_the_threshold():
    # at 0.2 the edge is 4 s before the positive and the score never falls again; at 0.6 it is in time
    found = sweep([channel([6.0], scores=[0.0] * 20 + [0.5] * 40 + [0.9] * 10)], 10)
    assert found.recall[found.theta == 0.0] == 0.0
    assert found.recall[found.theta == 0.5] == 1.0


def test_arrays_are_64_bit_and_counts_add_up_to_the_gold():
    found = sweep([channel([1.0, 2.0], [(3.0, 4.0)], [0.1, 0.9, 0.4])], 10)
    assert all(getattr(found, key).dtype == np.int64 for key in COUNTS)
    assert found.theta.dtype == found.recall.dtype == found.latency_p50_s.dtype == np.float64
    assert set(found.tp + found.fn) == {2}
    assert set(found.fp + found.tn) == {1}


def test_rates_without_gold_are_undefined_and_nothing_is_chosen():
    found = sweep([channel(scores=[0.1, 0.9])], 10)
    assert np.isnan(found.recall).all()
    assert np.isnan(found.fpr).all()
    assert found.operating_point(1.0) is None


def test_a_track_without_negatives_cannot_qualify():
    found = sweep([channel([0.2], scores=[0.1, 0.9])], 10)
    assert found.recall.max() == 1.0
    assert found.operating_point(1.0) is None
    assert found.lowest_fpr(1.0) is None
    assert len(found.pareto()["fpr"]) == 0


def test_a_track_without_positives_cannot_qualify():
    assert sweep([channel(spans=[(0.0, 1.0)], scores=[0.1, 0.9])], 10).operating_point(1.0) is None


@pytest.mark.parametrize("empty", [[], [channel([1.0], [(2.0, 3.0)])]])
def test_without_scores_there_is_no_threshold_to_choose(empty):
    found = sweep(empty, 10)
    assert len(found) == 0
    assert found.operating_point() is None
    assert len(found.pareto()["theta"]) == 0


def test_without_scores_a_grid_counts_all_gold_as_missed():
    found = sweep([channel([1.0], [(2.0, 3.0)])], 10, thresholds=[0.5])
    assert (found.fn.tolist(), found.tn.tolist()) == ([1], [1])


def test_three_of_thirty_is_within_a_budget_of_a_tenth():
    # three of thirty spans hold a pulse as high as the hit's
    spans = [(1.0 * n, 1.0 * n + 0.5) for n in range(30)]
    scores = pulses(hit=(35.0, 0.9), a=(0.3, 0.9), b=(10.3, 0.9), c=(20.3, 0.9))
    found = sweep([channel([35.0], spans, scores)], 10)
    chosen = found.operating_point(0.10)
    assert (chosen["tp"], chosen["fp"], chosen["fpr"]) == (1, 3, 0.1)
    assert found.operating_point(0.0999)["tp"] == 0


@pytest.mark.parametrize("budget", [0.15, np.float64(0.15), np.float32(0.15), Fraction(3, 20)])
def test_a_budget_is_read_as_the_decimal_that_it_prints_as(budget):
    # 0.15 in binary is a little less than 3 / 20
    spans = [(1.0 * n, 1.0 * n + 0.5) for n in range(20)]
    scores = pulses(hit=(35.0, 0.9), a=(0.3, 0.9), b=(8.3, 0.9), c=(16.3, 0.9))
    assert sweep([channel([35.0], spans, scores)], 10).operating_point(budget)["fp"] == 3


def test_equal_recall_goes_to_the_lower_fpr():
    # the false alarm fires up to 0.5, the hit up to 0.9
    scores = pulses(hit=(10.0, 0.9), alarm=(20.0, 0.5))
    chosen = sweep([channel([10.0], [(19.0, 21.0)], scores)], 10).operating_point(1.0)
    assert (chosen["recall"], chosen["fpr"], chosen["theta"]) == (1.0, 0.0, 0.5)


def test_a_lower_fpr_goes_before_a_lower_latency():
    scores = pulses(fast=(10.1, 0.4), slow=(10.5, 0.9), alarm=(20.0, 0.4))
    chosen = sweep([channel([10.0], [(19.0, 21.0)], scores)], 10, refractory_s=0.0).operating_point(1.0)
    assert (chosen["fp"], chosen["latency_p50_s"]) == (0, 0.5)


def test_equal_rates_go_to_the_lower_median_latency_then_to_the_higher_threshold():
    # up to 0.4 the early pulse hits first; from 0.4 on only the late one is left
    scores = pulses(early=(10.1, 0.4), low=(30.0, 0.2), late=(10.5, 0.9))
    chosen = sweep([channel([10.0], [(25.0, 26.0)], scores)], 10, refractory_s=0.0).operating_point()
    assert (chosen["latency_p50_s"], chosen["theta"]) == (0.1, 0.2)


def test_no_threshold_within_the_budget_is_none_never_the_nearest():
    # in a grid without a quiet threshold
    scores = pulses(hit=(10.0, 0.9), alarm=(20.0, 0.9))
    found = sweep([channel([10.0], [(19.0, 21.0)], scores)], 10, thresholds=[0.1, 0.2])
    assert found.operating_point(0.10) is None


def test_the_operating_point_says_whether_it_is_at_the_edge_of_the_grid():
    scores = pulses(hit=(10.0, 0.9), alarm=(20.0, 0.5))
    corpus = [channel([10.0], [(19.0, 21.0)], scores)]
    assert sweep(corpus, 10, thresholds=[0.6, 0.7]).operating_point()["at_edge"] is True
    assert sweep(corpus, 10, thresholds=[0.4, 0.6, 0.95]).operating_point()["at_edge"] is False


def test_the_operating_point_holds_plain_python_numbers():
    chosen = sweep([channel([0.2], [(5.0, 6.0)], [0.1, 0.9])], 10).operating_point()
    assert {type(value) for value in chosen.values()} == {float, int, bool}


def test_the_lowest_fpr_within_a_latency_budget_is_chosen_and_ties_go_to_higher_recall():
    # the two slow hits (0.5 s) outlast the fast ones (0.1 s), which come with a false alarm
    scores = pulses(
        fast=(10.1, 0.4), slow=(10.5, 0.9), fast2=(15.1, 0.4), slow2=(15.5, 0.9), alarm=(20.0, 0.3)
    )
    corpus = [channel([10.0, 15.0], [(19.0, 21.0)], scores)]
    found = sweep(corpus, 10, refractory_s=0.0)
    assert found.lowest_fpr(0.3)["theta"] == 0.3
    assert found.lowest_fpr(0.3)["recall"] == 1.0
    assert found.lowest_fpr(0.09) is None


def test_the_lowest_fpr_budget_is_closed():
    scores = pulses(hit=(10.3, 0.9))
    found = sweep([channel([10.0], [(19.0, 21.0)], scores)], 10)
    assert found.lowest_fpr(0.3)["latency_p50_s"] == 0.3
    assert found.lowest_fpr(0.299999) is None


@settings(max_examples=60)
@given(channels=channels)
def test_the_pareto_front_is_exactly_the_settings_that_nothing_beats(channels):
    found = sweep(channels, 10, refractory_s=0.3)
    front = found.pareto()
    if not len(found) or not (found.tp[0] + found.fn[0]) or not (found.fp[0] + found.tn[0]):
        assert len(front["theta"]) == 0
        return
    points = {
        (fp, -tp, half_us): theta  # ascending thresholds: the highest of equal settings stays
        for fp, tp, half_us, theta in zip(
            found.fp.tolist(),
            found.tp.tolist(),
            found.median_half_us.tolist(),
            found.theta.tolist(),
            strict=True,
        )
        if tp
    }

    def beaten(point):
        return any(
            other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points
        )

    assert front["theta"].tolist() == [points[point] for point in sorted(points) if not beaten(point)]


def test_counts_per_channel_at_a_threshold_are_the_sweep_s_summands():
    corpus = [channel([0.2], [], [0.1, 0.9]), channel([0.1], [(0.0, 0.3)], [0.1, 0.2, 0.9])]
    found = sweep(corpus, 10)
    rows = channel_counts(corpus, 10, 0.2)
    assert rows == [match([0.2], [], [], decide([0.1, 0.9], 10, 0.2)), match([0.1], [(0.0, 0.3)], [], [0.3])]
    assert sum(row.fp for row in rows) == found.fp[found.theta == 0.2]


@pytest.mark.parametrize("bad", [1.5, -0.1, math.nan, "0.1", None])
def test_a_budget_that_is_no_share_is_refused(bad):
    with pytest.raises(ValueError, match="budget: expected a share"):
        sweep([channel([0.2], [(5.0, 6.0)], [0.1])], 10).operating_point(bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "0.3", None])
def test_a_latency_budget_that_is_no_time_is_refused(bad):
    with pytest.raises(ValueError, match="latency_budget_s: expected seconds"):
        sweep([channel([0.2], [(5.0, 6.0)], [0.1])], 10).lowest_fpr(bad)


@pytest.mark.parametrize("frame", [0, 3])
def test_a_score_that_is_not_finite_is_refused_by_channel_and_frame(frame):
    scores = [0.1] * 5
    scores[frame] = math.nan
    bad = {**channel(scores=scores), "conversation_id": "dev_00007", "speaker": "speaker_3"}
    for run in (lambda: sweep([channel(), bad], 10), lambda: channel_counts([channel(), bad], 10, 0.5)):
        with pytest.raises(ValueError, match=rf"channel 1 \(dev_00007 speaker_3\).*frame {frame}:"):
            run()


@pytest.mark.parametrize(
    ("key", "value"), [("positives", [-1.0]), ("negative_spans", [(2.0, 1.0)]), ("excluded_spans", ["x"])]
)
def test_bad_gold_is_refused_by_channel_and_index(key, value):
    bad = {**channel(scores=[0.1]), key: value}
    for run in (lambda: sweep([bad], 10), lambda: channel_counts([bad], 10, 0.5)):
        with pytest.raises(ValueError, match=rf"channel 0: {key}\[0\]"):
            run()


def test_a_channel_without_scores_is_refused():
    bad = channel()
    del bad["scores"]
    with pytest.raises(ValueError, match="channel 0: has no 'scores'"):
        sweep([bad], 10)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ("every", "expected 'all' or a grid"),
        ([], "the grid is empty"),
        ([0.5, 0.1, 0.5], "0.5 is there twice"),
        ([0.1, math.nan], "expected a finite"),
        ([0.1, math.inf], "expected a finite"),
        ([[0.1]], "a flat sequence"),
    ],
)
def test_a_grid_must_be_distinct_finite_numbers(thresholds, message):
    with pytest.raises(ValueError, match=message):
        sweep([channel(scores=[0.1])], 10, thresholds=thresholds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "other"}, "protocol 'other' is unknown"),
        ({"refractory_s": -1}, "refractory_s"),
        ({"lookahead_s": math.nan}, "lookahead_s"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sweep([channel(scores=[0.1])], 10, **options)
