"""Proof that the intervals are right: simulated corpora whose truth is known (see benchmarks/coverage.py)."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulations():
    path = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_simulations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_intervals_over_turns_hold_the_truth_as_often_as_they_say(simulations, method):
    share, _ = simulations.coverage(200, seed=11, method=method)
    assert 0.93 <= share <= 0.97


def test_intervals_over_rows_visibly_fail_on_the_same_corpora(simulations):
    by_row, row_width = simulations.coverage(200, seed=11, units=simulations.as_rows)
    _, unit_width = simulations.coverage(200, seed=11)
    assert by_row < 0.7
    assert unit_width / row_width == pytest.approx(2.5, abs=0.3)


def test_the_paired_test_rejects_as_often_as_it_says_where_nothing_differs(simulations):
    assert 0.03 <= simulations.type_one_error(200, seed=11) <= 0.07


def test_ends_agree_with_scipy_within_monte_carlo_error(simulations):
    assert simulations.scipy_gap(seed=11) < 4


def test_multinomial_draws_agree_with_literal_resampling_in_distribution(simulations):
    assert simulations.literal_p_value(seed=11) > 1e-3
