"""Turn-end labels and scores: counts by hand, curves by brute force, intervals over turns, faults by row."""

import json
import math
import warnings

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mptb_dataset import sample_dir
from mptb_metric.bootstrap import bootstrap
from mptb_metric.intervals import BootstrapWarning
from mptb_metric.sums import Ratio
from mptb_metric.turn_end import COMPARED_RATES, compute_turn_end, turn_end_counts

LABELS = {
    "payload_cut": 0,
    "trailing_frag": 0,
    "mid_thought_cut": 0,
    "word_cut": 0,
    "chunk_cut": 1,
    "complete": 1,
}

scored_labels = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=25)


def row(index, kind="complete", turn=None, **columns):
    turn = f"t{index // 2}" if turn is None else turn
    key = f"{turn}@{index}"
    return {"key": key, "turn_key": turn, "label": LABELS[kind], "kind": kind, **columns}


def labelled(labels):
    """Observations of one-row turns with the given labels."""
    return [row(i, "complete" if label else "word_cut", turn=f"t{i}") for i, label in enumerate(labels)]


def simulated(n_turns=80, *, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for turn in range(n_turns):
        for kind in rng.choice(list(LABELS), size=rng.integers(1, 4)):
            rows.append(
                row(len(rows), str(kind), turn=f"t{turn}", domain="ab"[turn % 2], style=f"s{turn % 3}")
            )
    scores = np.array([r["label"] for r in rows]) + rng.normal(0, 0.8, len(rows))
    return rows, scores.round(2)


def test_counts_and_rates_by_hand():
    # finished: hit, hit, miss; unfinished: fired at, left alone
    references = labelled([1, 1, 1, 0, 0])
    found = compute_turn_end([1, 1, 0, 1, 0], references)
    assert [found[name] for name in ("tp", "fn", "fp", "tn", "n", "n_turns")] == [2, 1, 1, 1, 5, 5]
    expected = {
        "recall": 2 / 3,
        "fpr": 1 / 2,
        "precision": 2 / 3,
        "accuracy": 3 / 5,
        "f1": 2 / 3,
        "error_rate": 2 / 5,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_a_score_fires_strictly_above_the_threshold():
    found = compute_turn_end([0.5, 0.6], labelled([1, 1]), theta=0.5)
    assert (found["tp"], found["fn"], found["theta"]) == (1, 1, 0.5)


def test_error_rate_per_kind_is_misses_of_finished_and_fires_at_unfinished_kinds():
    kinds = ["payload_cut", "payload_cut", "chunk_cut", "chunk_cut", "chunk_cut", "complete"]
    references = [row(i, kind) for i, kind in enumerate(kinds)]
    by_kind = compute_turn_end([1, 0, 1, 0, 0, 1], references)["by"]["kind"]
    assert by_kind["payload_cut"]["error_rate"] == 1 / 2
    assert by_kind["chunk_cut"]["error_rate"] == pytest.approx(2 / 3)
    assert by_kind["complete"]["error_rate"] == 0
    assert [by_kind[kind]["n"] for kind in ("payload_cut", "chunk_cut", "complete")] == [2, 3, 1]
    assert math.isnan(by_kind["payload_cut"]["recall"])
    assert math.isnan(by_kind["complete"]["fpr"])


@pytest.mark.parametrize(("n", "indicative"), [(49, True), (50, False)])
def test_groups_of_fewer_than_50_observations_are_indicative(n, indicative):
    references = [row(i, "word_cut") for i in range(n)]
    assert compute_turn_end([0] * n, references)["by"]["kind"]["word_cut"]["indicative"] is indicative


@pytest.mark.filterwarnings("ignore::mptb_metric.intervals.BootstrapWarning")
def test_the_sample_is_scored_like_a_plain_count_over_its_rows():
    path = next((sample_dir("turn_end") / "observations").glob("*-test-*.parquet"))
    rows = pq.read_table(path).to_pylist()
    fired = [row["text"].rstrip().endswith((".", "?", "!")) for row in rows]
    found = compute_turn_end(fired, pq.read_table(path), n_resamples=200, by=["kind", "domain"])
    positives = [f for f, row in zip(fired, rows, strict=True) if row["label"]]
    negatives = [f for f, row in zip(fired, rows, strict=True) if not row["label"]]
    assert found["recall"] == sum(positives) / len(positives)
    assert found["fpr"] == sum(negatives) / len(negatives)
    assert found["n_turns"] == len({row["turn_key"] for row in rows})
    assert sorted(found["by"]["kind"]) == sorted(LABELS)


def test_groups_follow_their_columns_and_add_up():
    rows, scores = simulated()
    found = compute_turn_end(scores, rows, theta=0.5, by=["domain", "style"])
    assert list(found["by"]) == ["domain", "style"]
    assert list(found["by"]["style"]) == ["s0", "s1", "s2"]
    for groups in found["by"].values():
        for count in ("tp", "fn", "fp", "tn", "n", "n_turns"):
            assert sum(group[count] for group in groups.values()) == found[count]


def test_rates_with_empty_denominators_are_nan():
    silent = compute_turn_end([0, 0], labelled([1, 1]))
    assert math.isnan(silent["fpr"])
    assert math.isnan(silent["precision"])
    assert silent["f1"] == 0


def brute_auc(scores, labels):
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[labels] for n in scores[~labels]]
    return np.mean(pairs) if pairs else math.nan


def brute_average_precision(scores, labels):
    total, recall = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        fired = scores >= threshold
        hits = (fired & labels).sum()
        total += (hits / labels.sum() - recall) * hits / fired.sum()
        recall = hits / labels.sum()
    return total


@given(scored_labels)
@settings(max_examples=80, deadline=None)
def test_auc_and_average_precision_agree_with_their_definitions(rows):
    scores = np.array([score for score, _ in rows], dtype=float)
    labels = np.array([label for _, label in rows])
    found = compute_turn_end(scores, labelled(labels), theta=2.5)
    assert found["roc_auc"] == pytest.approx(brute_auc(scores, labels), nan_ok=True)
    if labels.any():
        assert found["average_precision"] == pytest.approx(brute_average_precision(scores, labels))
    else:
        assert math.isnan(found["average_precision"])


def test_constant_scores_have_an_auc_of_one_half():
    assert compute_turn_end([0.3] * 4, labelled([1, 0, 0, 1]), theta=0.5)["roc_auc"] == 0.5


def test_labels_have_no_curves():
    found = compute_turn_end([1, 0], labelled([1, 0]))
    assert not {"theta", "roc_auc", "average_precision"} & set(found)


@given(scored_labels, st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
@settings(max_examples=80, deadline=None)
def test_the_selected_threshold_is_the_best_of_all(rows, budget):
    scores = np.array([score for score, _ in rows], dtype=float)
    labels = np.array([label for _, label in rows])
    if labels.all() or not labels.any():
        with pytest.raises(ValueError, match="no operating point"):
            compute_turn_end(scores, labelled(labels), theta="select", budget=budget)
        return
    best = None
    for theta in [scores.min() - 1, *sorted(set(scores))]:
        fired = scores > theta
        recall, fpr = (fired & labels).sum() / labels.sum(), (fired & ~labels).sum() / (~labels).sum()
        if fpr <= budget and (best is None or (recall, -fpr, theta) > best):
            best = (recall, -fpr, theta)
    found = compute_turn_end(scores, labelled(labels), theta="select", budget=budget)
    assert (found["recall"], found["fpr"], found["theta"]) == pytest.approx((best[0], -best[1], best[2]))


def test_exactly_three_of_thirty_is_within_a_budget_of_a_tenth():
    # Threshold 0.5 finds the positive at the price of 3 of 30; 0.9 finds nothing.
    scores, labels = [0.6] + [0.9] * 3 + [0.1] * 27, [1] + [0] * 30
    found = compute_turn_end(scores, labelled(labels), theta="select")
    assert (found["recall"], found["fp"]) == (1.0, 3)


def test_predictions_are_joined_by_key_in_any_order():
    rows, scores = simulated()
    expected = compute_turn_end(scores, rows, theta=0.5)
    joined = [{"key": r["key"], "score": s} for r, s in zip(rows, scores.tolist(), strict=True)][::-1]
    assert str(compute_turn_end(joined, rows, theta=0.5)) == str(expected)
    decided = [{"key": r["key"], "prediction": int(s > 0.5)} for r, s in zip(rows, scores, strict=True)]
    assert compute_turn_end(decided, rows)["tp"] == expected["tp"]


def test_every_form_of_table_gives_the_same_result():
    rows, scores = simulated()
    table = datasets.Dataset.from_list(rows)
    exploding = table.with_transform(lambda batch: 1 / 0)
    columns = {name: np.array(table[name]) for name in table.column_names}
    expected = str(compute_turn_end(scores, rows, theta=0.5, by=["kind", "domain"]))
    forms = [table, exploding, table.with_format("numpy"), table.to_iterable_dataset(), table.to_pandas()]
    for references in [*forms, pa.Table.from_pylist(rows), columns, tuple(rows)]:
        assert str(compute_turn_end(scores, references, theta=0.5, by=["kind", "domain"])) == expected
    for predictions in (
        scores.tolist(),
        datasets.Dataset.from_dict({"score": scores})["score"],
        iter(scores),
    ):
        assert str(compute_turn_end(predictions, rows, theta=0.5, by=["kind", "domain"])) == expected


def test_row_order_does_not_change_anything():
    rows, scores = simulated()
    order = np.random.default_rng(0).permutation(len(rows))
    options = {"theta": 0.5, "by": ["kind", "style"], "n_resamples": 200}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        a = compute_turn_end(scores, rows, **options)
        b = compute_turn_end(scores[order], [rows[i] for i in order], **options)
    assert str(a) == str(b)


def test_intervals_are_those_of_the_bootstrap_over_turns():
    rows, scores = simulated()
    found = compute_turn_end(scores, rows, theta=0.5, by=None, n_resamples=500, confidence_level=0.9, seed=3)
    turns = {}
    for r, score in zip(rows, scores, strict=True):
        counts = turns.setdefault(r["turn_key"], [0, 0])
        if r["label"]:
            counts[int(score <= 0.5)] += 1
    expected = bootstrap(
        list(turns.values()), Ratio((0,), (0, 1)), n_resamples=500, confidence_level=0.9, seed=3
    )
    assert (found["recall_low"], found["recall_high"]) == (expected.low, expected.high)
    assert (found["n_resamples"], found["confidence_level"]) == (500, 0.9)


def test_rows_of_one_turn_widen_the_intervals():
    # 40 turns of 50 rows, half of them all right and half all wrong.
    rows = [row(i, turn=f"t{i // 50}") for i in range(2000)]
    labels = [int(i // 50 < 20) for i in range(2000)]
    by_turn = compute_turn_end(labels, rows, by=None, n_resamples=999)
    by_row = compute_turn_end(
        labels, [{**r, "turn_key": f"u{i}"} for i, r in enumerate(rows)], by=None, n_resamples=999
    )
    width = [found["recall_high"] - found["recall_low"] for found in (by_turn, by_row)]
    assert width[0] > 5 * width[1]


def test_a_group_in_one_turn_gets_a_note_instead_of_an_interval():
    rows = [*labelled([1] * 10), row(90, "word_cut", turn="x"), row(91, "word_cut", turn="x")]
    with pytest.warns(BootstrapWarning, match="word_cut"):
        found = compute_turn_end([1] * 12, rows, n_resamples=100)
    group = found["by"]["kind"]["word_cut"]
    assert group["fpr"] == 1
    assert math.isnan(group["fpr_low"])
    assert any("kind word_cut: fpr: no interval: one unit" in note for note in found["notes"])


def test_results_are_plain_python():
    rows, scores = simulated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BootstrapWarning)
        found = compute_turn_end(
            scores.astype(np.float32), rows, theta=np.float32(0.5), n_resamples=np.int64(50)
        )
    assert json.loads(json.dumps(found))["tp"] == found["tp"]

    def leaves(value):
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from leaves(each) if isinstance(each, (dict, list)) else [each]

    assert {type(leaf) for leaf in leaves(found)} <= {int, float, bool, str}


@pytest.mark.parametrize(
    ("predictions", "options", "message"),
    [
        ([1], {}, "expected one per reference"),
        ([1, 2], {}, r"row 1 \(key 't0@1'\): expected a label 0 or 1, got 2"),
        ([1, None], {}, r"row 1 \(key 't0@1'\): .* got None"),
        ([1, math.nan], {}, r"row 1 .* got nan"),
        ([1, "1"], {}, r"row 1 .* got '1'"),
        ([1, [1]], {}, r"row 1 .* got \[1\]"),
        ([0.2, 0.9], {}, r"row 0 .* give theta="),
        ([1.0, 0.0], {}, r"row 0 .* give theta="),
        ([0.2, math.inf], {"theta": 0.5}, "row 1 .* expected a finite score, got inf"),
        ([0.2, 10**400], {"theta": 0.5}, "row 1 .* expected a finite score, got 1000"),
        ([0.2, 0.9], {"theta": math.nan}, "theta"),
        ([0.2, 0.9], {"theta": "best"}, "theta"),
        ([0.2, 0.9], {"theta": True}, "theta"),
        ([0.2, 0.9], {"theta": 0.5, "budget": 0.1}, "budget"),
        ([0.2, 0.9], {"theta": "select", "budget": 1.5}, "budget"),
        ([0.2, 0.9], {"theta": "select", "budget": math.nan}, "budget"),
        ([{"key": "t0@0", "score": 0.2}, {"key": "t0@1", "score": 0.9}], {}, "give theta="),
        ([{"key": "t0@0", "prediction": 1}], {}, "1 missing key: 't0@1'"),
        ([{"key": "t0@0", "prediction": 1}] * 2, {}, r"key repeated: 't0@0' \(rows 0, 1\)"),
        ([{"key": "t0@0", "prediction": 1}, {"key": "q", "prediction": 1}], {}, "1 unknown key: 'q'"),
        ([{"key": "t0@0"}, {"key": "t0@1"}], {}, "exactly one of the columns prediction, score"),
        ([{"key": "t0@0", "prediction": 1, "score": 1}], {}, "exactly one of the columns"),
        ([{"prediction": 1}, {"prediction": 1}], {}, "no column 'key'"),
        (None, {}, "expected a sequence or rows"),
        ("10", {}, "expected a sequence or rows"),
        ([1, 0], {"n_resamples": 1}, "n_resamples"),
        ([1, 0], {"n_resamples": -3}, "n_resamples"),
        ([1, 0], {"by": "style"}, "no column 'style'"),
    ],
)
def test_faulty_predictions_and_options_are_named(predictions, options, message):
    with pytest.raises(ValueError, match=message):
        compute_turn_end(predictions, [row(0, "word_cut"), row(1)], **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 2}, r"references: row 1 \(key 't0@1'\): expected a label 0 or 1, got 2"),
        ({"label": -1}, "expected a label 0 or 1, got -1"),
        ({"label": None}, "expected a label 0 or 1, got None"),
        ({"label": "1"}, "expected a label 0 or 1, got '1'"),
        ({"label": 0}, "the kind 'complete' is labelled 1 by definition, got 0"),
        ({"kind": "payload_cut"}, "the kind 'payload_cut' is labelled 0 by definition, got 1"),
        ({"kind": "payload"}, "expected a kind among"),
        ({"kind": None}, "expected a kind among"),
        ({"key": "t0@0"}, r"key repeated: 't0@0' \(rows 0, 1\)"),
        ({"key": None}, "row 1: expected a key, got None"),
        ({"turn_key": None}, "expected a turn_key, got None"),
    ],
)
def test_faulty_references_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        compute_turn_end([0, 1], [row(0, "word_cut"), {**row(1), **change}])


@pytest.mark.parametrize("kind", LABELS)
def test_every_kind_is_checked_against_its_label(kind):
    with pytest.raises(ValueError, match="by definition"):
        compute_turn_end([0], [{**row(0, kind), "label": 1 - LABELS[kind]}])


def test_no_references_at_all_is_an_error():
    with pytest.raises(ValueError, match="references: no rows"):
        compute_turn_end([], [])
    with pytest.raises(ValueError, match="references: no rows"):
        compute_turn_end([], {"label": [], "kind": []})


def test_intervals_need_turn_keys():
    references = [{"label": 1}, {"label": 0}]
    assert compute_turn_end([1, 0], references, by=None)["recall"] == 1
    with pytest.raises(ValueError, match="no column 'turn_key'"):
        compute_turn_end([1, 0], references, by=None, n_resamples=100)


def test_counts_for_comparison_give_the_same_rates():
    rows, scores = simulated()
    found = compute_turn_end(scores, rows, theta=0.5)
    units = turn_end_counts(scores, rows, theta=0.5)
    assert units.units == tuple(sorted({r["turn_key"] for r in rows}))
    sums = units.counts.sum(axis=0)
    for name in ("recall", "fpr", "precision", "accuracy", "f1", "error_rate"):
        assert COMPARED_RATES[name](sums) == pytest.approx(found[name])
    for kind, group in found["by"]["kind"].items():
        assert COMPARED_RATES[f"error_rate_{kind}"](sums) == pytest.approx(group["error_rate"])


@pytest.mark.parametrize("form", [list, np.array, tuple])
def test_bare_labels_are_references_too(form):
    found = compute_turn_end(form([1, 0, 1]), form([1, 0, 0]))
    assert (found["tp"], found["fn"], found["fp"], found["tn"]) == (1, 0, 1, 1)
    assert "by" not in found


def test_a_breakdown_that_was_asked_for_is_not_left_out():
    with pytest.raises(ValueError, match="no column 'kind'"):
        compute_turn_end([1, 0], [1, 0], by=["kind"])
