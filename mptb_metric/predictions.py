"""What a set of predictions must be: every channel once, every time a time. All faults are told.

A channel without decisions is given as an empty list; an absent one is a mistake. Times are finite, not
negative, strictly increasing, and end at most 3 s after the conversation, the longest that a decision may
come after the last positive.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .matching import LATE_US, LATEST_S
from .tables import read_columns

TRACKS = ("eot", "int")
PRINTED_FAULTS = 20
KEPT_FAULTS = 10_000  # a hostile file may hold one per byte

Key = tuple[str, str]

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 120  # an id must stay whole


class SubmissionError(ValueError):
    """Predictions that cannot be scored.

    Attributes:
        faults: one sentence per fault with its conversation, speaker, track and index. All of them up to
            10,000; then a last one says how many more there are. The message shows the first 20.
        source: the file, or what else the faults are in.
    """

    def __init__(self, faults: Iterable[str], source: str = "predictions") -> None:
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self.faults, source)

    def __str__(self) -> str:
        lines = [f"{self.source}: {len(self.faults)} fault{'s' * (len(self.faults) != 1)}"]
        lines += [f"- {fault}" for fault in self.faults[:PRINTED_FAULTS]]
        if len(self.faults) > PRINTED_FAULTS:
            lines.append(f"- and {len(self.faults) - PRINTED_FAULTS} more")
        return "\n".join(lines)


class Faults:
    """Collects faults, up to a number that memory can hold."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._dropped = 0

    def add(self, message: str, conversation_id: str = "", speaker: str = "", track: str = "") -> None:
        """Note a fault and where it is."""
        if len(self._kept) >= KEPT_FAULTS:
            self._dropped += 1
            return
        ids = (("conversation", conversation_id), ("speaker", speaker), ("track", track))
        where = ", ".join(f"{what} {shown(name)}" for what, name in ids if name)
        self._kept.append(f"{where}: {message}" if where else message)

    def raise_any(self, source: str) -> None:
        """Raise a `SubmissionError` if there is any fault."""
        if self._dropped:
            raise SubmissionError([*self._kept, f"and {self._dropped} more faults"], source)
        if self._kept:
            raise SubmissionError(self._kept, source)


def shown(value: Any) -> str:
    """Show a value in a message: its size where it may be large, else its text, cut where it is long."""
    if isinstance(value, Mapping | list | tuple):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    return _repr.repr(value)


def read_rows(
    table: Any, required: Sequence[str], *, optional: Sequence[str] = (), name: str
) -> list[dict[str, Any]]:
    """Read some columns of a table in any of the forms of `tables` as rows."""
    columns = read_columns(table, required, optional=optional, name=name)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def channel_durations(channels: Any, *, name: str = "channels") -> dict[Key, float | None]:
    """Give the length of each channel's conversation in seconds, None where it is not known."""
    rows = read_rows(channels, ("conversation_id", "speaker"), optional=("duration_s",), name=name)
    durations_s: dict[Key, float | None] = {}
    for i, row in enumerate(rows):
        conversation_id, speaker, duration_s = row["conversation_id"], row["speaker"], row.get("duration_s")
        if not (isinstance(conversation_id, str) and isinstance(speaker, str)):
            got = (conversation_id, speaker)
            raise ValueError(f"{name}[{i}]: expected conversation_id and speaker as text, got {got}")
        if (conversation_id, speaker) in durations_s:
            raise ValueError(f"{name}[{i}]: {conversation_id} {speaker} is there twice")
        if duration_s is not None and not (is_number(duration_s) and 0 <= duration_s <= LATEST_S):
            raise ValueError(f"{name}[{i}]: duration_s: expected seconds, got {duration_s!r}")
        durations_s[conversation_id, speaker] = None if duration_s is None else float(duration_s)
    return durations_s


def is_number(value: Any) -> bool:
    """Tell a real number from all else, booleans included."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def checked_rows(
    rows: Sequence[Mapping[str, Any]], durations_s: Mapping[Key, float | None] | None, faults: Faults
) -> list[dict[str, Any]]:
    """Check prediction rows and bring them into the order of the channels.

    Args:
        rows: mappings with `conversation_id`, `speaker` and a list of times in seconds per track.
        durations_s: length of each channel's conversation, None where it is not known; all channels that
            must be there. None: whatever channels there are.
        faults: collects what is wrong.

    Returns:
        Rows of plain strings and lists of floats, each channel once; incomplete if there were faults.
    """
    seen: Counter[Key] = Counter()
    good: dict[Key, dict[str, Any]] = {}
    for i, row in enumerate(rows):
        ids = [row.get(name) for name in ("conversation_id", "speaker")]
        if not all(isinstance(name, str) and name for name in ids):
            faults.add(f"row {i}: expected conversation_id and speaker as text, got {_repr.repr(ids)}")
            continue
        key: Key = (str(ids[0]), str(ids[1]))
        seen[key] += 1
        end_s = (durations_s or {}).get(key)
        good[key] = {"conversation_id": key[0], "speaker": key[1]}
        for track in TRACKS:
            if track in row:
                good[key][track] = checked_times(row[track], end_s, faults, *key, track)
            else:
                faults.add("is missing; give [] where there is no decision", *key, track)
    for key, times in seen.items():
        if times > 1:
            faults.add(f"is there {times} times", *key)
    if durations_s is None:
        return list(good.values())
    _check_coverage(seen, durations_s, faults)
    return [good[key] for key in durations_s if key in good]


def checked_times(
    times_s: Any, duration_s: float | None, faults: Faults, conversation_id: str, speaker: str, track: str
) -> list[float]:
    """Check the decision times of one channel and track; give those that are times."""
    if hasattr(times_s, "tolist"):
        times_s = times_s.tolist()
    if not isinstance(times_s, list | tuple):
        where = (conversation_id, speaker, track)
        faults.add(f"expected a list of times in seconds, got {shown(times_s)}", *where)
        return []
    latest_us = round(LATEST_S * 1e6) if duration_s is None else round(duration_s * 1e6) + LATE_US
    checked: list[float] = []
    for i, time_s in enumerate(times_s):
        fault = None
        if is_number(time_s) and abs(time_s) > sys.float_info.max:
            time_s = math.copysign(math.inf, 1 if time_s > 0 else -1)  # an integer that fits no float
        if not is_number(time_s):
            fault = f"expected a number of seconds, got {shown(time_s)}"
        elif not math.isfinite(time_s):
            fault = f"{time_s} is not finite"
        elif time_s < 0:
            fault = f"{time_s} is negative"
        elif time_s > LATEST_S or round(float(time_s) * 1e6) > latest_us:
            end = "" if duration_s is None else f" of a conversation of {duration_s:g} s"
            fault = f"{time_s} is past the end{end}"
        else:
            if checked and time_s <= checked[-1]:
                fault = f"{time_s} is not later than the one before, {checked[-1]}"
            checked.append(float(time_s))
        if fault:
            faults.add(f"index {i}: {fault}", conversation_id, speaker, track)
    return checked


def _check_coverage(seen: Iterable[Key], durations_s: Mapping[Key, Any], faults: Faults) -> None:
    """Name missing and unknown channels, or whole conversations where none of their channels is there."""
    found, expected = dict.fromkeys(seen), dict.fromkeys(durations_s)
    for what, here, there in (("missing", expected, found), ("unknown", found, expected)):
        conversations = {conversation for conversation, _ in there}
        told = set()
        for conversation, speaker in here:
            if conversation not in conversations:
                if conversation not in told:
                    faults.add(f"is {what}", conversation)
                told.add(conversation)
            elif (conversation, speaker) not in there:
                faults.add(f"is {what}", conversation, speaker)
