"""What scoring made of each decision of a channel and track, and of each gold time that was not found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .matching import match

OUTCOMES = ("hit", "miss", "false positive", "elsewhere")
"""A miss is a gold time, the others are decisions; those elsewhere, excluded ones too, count nowhere."""


def outcomes(
    gold: Mapping[str, Any], predictions: Sequence[float], *, protocol: str = "mptb"
) -> dict[str, list[float]]:
    """Sort decisions and missed gold times by what scoring made of them.

    Args:
        gold: `positives`, `negative_spans` and `excluded_spans`, as for `match`; seconds.
        predictions (array-like, [n], s): decision times.
        protocol: "mptb" or "turnbench".

    Returns:
        For each of `OUTCOMES` its times in seconds, ascending.

    Raises:
        ValueError: as `match`.

    Examples:
        >>> gold = {"positives": [2.0, 9.0], "negative_spans": [(5.0, 6.0)], "excluded_spans": []}
        >>> outcomes(gold, [2.2, 5.5, 7.0])
        {'hit': [2.2], 'miss': [9.0], 'false positive': [5.5], 'elsewhere': [7.0]}
    """
    times_s, positives = [float(t) for t in predictions], [float(t) for t in gold["positives"]]
    found = match(positives, gold["negative_spans"], gold["excluded_spans"], times_s, protocol=protocol)
    hits = {prediction for _, prediction in found.hits}
    alarms = {prediction for _, prediction in found.false_alarms}
    matched = {positive for positive, _ in found.hits}
    return {
        "hit": sorted(times_s[i] for i in hits),
        "miss": sorted(time_s for i, time_s in enumerate(positives) if i not in matched),
        "false positive": sorted(times_s[i] for i in alarms),
        "elsewhere": sorted(time_s for i, time_s in enumerate(times_s) if i not in hits | alarms),
    }
