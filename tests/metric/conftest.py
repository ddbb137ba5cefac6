"""Plain-loop rewrites of the protocol page, to hold the real code against, and the shared vectors."""

import json
from pathlib import Path

import numpy as np
import pytest

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


@pytest.fixture(scope="session")
def load_vectors():
    return lambda name: json.loads((VECTORS / f"{name}.json").read_text())


@pytest.fixture(scope="session")
def slow_match():
    """The matching rules as sentences: quadratic, on whole microseconds, no shared code."""

    def us(t):
        return round(float(t) * 1e6)

    def scan(positives, negative_spans, excluded_spans, predictions, protocol="mptb"):
        rest = sorted(us(p) for p in predictions)
        rest = [p for p in rest if not any(us(a) <= p <= us(b) for a, b in excluded_spans)]
        positives = sorted(us(t) for t in positives)
        windows = []
        for t in positives:
            later = [u for u in positives if u > t]
            end = t + 3_000_000
            windows.append((t - 250_000, min([end, *later]) if protocol == "turnbench" else end))
        claimed, latencies = set(), []
        for t, (start, end) in zip(positives, windows, strict=True):
            for i, p in enumerate(rest):
                if i not in claimed and start <= p <= end:
                    claimed.add(i)
                    latencies.append((p - t) / 1e6)
                    break
        unclaimed = [p for i, p in enumerate(rest) if i not in claimed]
        if protocol == "turnbench":
            unclaimed = [p for p in unclaimed if not any(a <= p <= b for a, b in windows)]
        early = 250_000 if protocol == "turnbench" else 0
        fp = sum(any(us(a) - early <= p <= us(b) for p in unclaimed) for a, b in negative_spans)
        return {
            "tp": len(latencies),
            "fn": len(positives) - len(latencies),
            "fp": fp,
            "tn": len(negative_spans) - fp,
            "latencies_s": latencies,
        }

    return scan


@pytest.fixture(scope="session")
def slow_decide():
    """The decision rule frame by frame."""

    def scan(scores, frame_rate, theta, refractory_s=2.0, lookahead_s=0.0):
        gap = max(1, round(refractory_s * frame_rate))
        times, last, was_above = [], None, False
        for i, score in enumerate(np.asarray(scores, np.float64).tolist()):
            above = score > theta
            if above and not was_above and (last is None or i - last >= gap):
                times.append((i + 1) / frame_rate + lookahead_s)
                last = i
            was_above = above
        return times

    return scan


@pytest.fixture(scope="session")
def slow_sweep(slow_match, slow_decide):
    """Decide and match anew at every threshold: a list of rows in ascending threshold."""

    def scan(channels, frame_rate, thresholds, protocol="mptb", refractory_s=2.0, lookahead_s=0.0):
        rows = []
        for theta in sorted(float(t) for t in thresholds):
            total = {"theta": theta, "tp": 0, "fn": 0, "fp": 0, "tn": 0, "latencies_s": []}
            for channel in channels:
                times = slow_decide(channel["scores"], frame_rate, theta, refractory_s, lookahead_s)
                gold = (channel["positives"], channel["negative_spans"], channel["excluded_spans"])
                for key, value in slow_match(*gold, times, protocol).items():
                    total[key] = total[key] + value
            rows.append(total)
        return rows

    return scan
