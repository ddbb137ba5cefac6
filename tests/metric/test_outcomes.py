"""Every decision and every missed gold time has exactly one outcome, the one that the counts tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mptb_metric import match
from mptb_metric.outcomes import outcomes

times = st.lists(st.integers(0, 200).map(lambda t: t / 10), max_size=8, unique=True)
spans = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), max_size=4).map(
    lambda pairs: [(a / 10, (a + b) / 10) for a, b in pairs]
)


@given(times, spans, spans, times, st.sampled_from(["mptb", "turnbench"]))
def test_outcomes_add_up_to_the_decisions_and_the_gold(positives, negatives, excluded, predictions, protocol):
    gold = {"positives": positives, "negative_spans": negatives, "excluded_spans": excluded}
    found = outcomes(gold, predictions, protocol=protocol)
    counted = match(positives, negatives, excluded, predictions, protocol=protocol)
    assert len(found["hit"]) == counted.tp
    assert len(found["miss"]) == counted.fn
    assert sorted(found["hit"] + found["false positive"] + found["elsewhere"]) == sorted(predictions)
    assert set(found["miss"]) <= set(positives)
    charged = {t for a, b in negatives for t in found["false positive"] if a - 0.25 <= t <= b}
    assert charged == set(found["false positive"])
