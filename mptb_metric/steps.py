"""The counts of one channel as a step function of the threshold: what changes, and where.

As the threshold climbs, a channel's rising edges come and go one at a time: frame ``i`` is an edge exactly
while ``score[i - 1] <= theta < score[i]``. So each edge appears once and disappears once, and only near it
can decisions change:

- most edges that come lie in the refractory period of a decision, and most that go were no decision;
- otherwise the chain of decisions is followed from that edge to where it meets the old one again;
- regions (windows of positives, spans) that share no frame cannot influence each other, so only the
  clusters of overlapping regions in which a decision came or went are matched anew.

Nothing is assumed about counts being monotone in the threshold: they are not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .decisions import chain
from .matching import claim, first_inside

Interval = tuple[int, int]


@dataclass(frozen=True)
class Cluster:
    """Regions of one channel that are connected by overlaps, as closed intervals of frames.

    Attributes:
        windows: of the positives, in ascending time.
        positives_us: the times of those positives, microseconds.
        spans: over which negative spans are charged.
    """

    windows: list[Interval] = field(default_factory=list)
    positives_us: list[int] = field(default_factory=list)
    spans: list[Interval] = field(default_factory=list)


@dataclass(frozen=True)
class Channel:
    """One channel and track in frames.

    Attributes:
        times_us (int64, [n_frames]): when a decision at each frame would be taken.
        clusters: the regions where decisions count.
        cluster_of ([n_frames]): each frame's cluster, -1 where a decision counts nowhere.
        harmless ([n_frames]): frames at which no span is charged, by the protocol.
    """

    times_us: list[int]
    clusters: list[Cluster]
    cluster_of: list[int]
    harmless: list[bool]


@dataclass
class Steps:
    """Changes of one channel's counts, in ascending threshold; the state at the lowest one comes first.

    Attributes:
        at: indices into the thresholds.
        tp, fp: how much each count changes there.
        latencies: (gone, come) latencies in microseconds.
    """

    at: list[int] = field(default_factory=list)
    tp: list[int] = field(default_factory=list)
    fp: list[int] = field(default_factory=list)
    latencies: list[tuple[list[int], list[int]]] = field(default_factory=list)


def place(
    times_us: np.ndarray,
    positives_us: Sequence[int],
    windows: Sequence[Interval],
    charged: Sequence[Interval],
    excluded: Sequence[Interval],
    *,
    windows_shield: bool,
) -> Channel:
    """Put the regions of a channel, closed intervals in microseconds, on its frames.

    `windows_shield` tells whether a decision in any positive's window charges no span.
    """
    in_frames = [_frames(times_us, regions) for regions in (windows, charged, excluded)]
    regions = sorted((*region, kind, i) for kind in (0, 1) for i, region in enumerate(in_frames[kind]))
    clusters: list[Cluster] = []
    cluster_of = np.full(len(times_us), -1)
    harmless = np.zeros(len(times_us), bool)
    reach = -1
    for first, last, kind, i in regions:
        if first > last:
            continue  # no frame falls inside: never a hit, never a false alarm
        if first > reach:
            clusters.append(Cluster())
        reach = max(reach, last)
        cluster_of[first : last + 1] = len(clusters) - 1
        if kind == 0:
            clusters[-1].windows.append((first, last))
            clusters[-1].positives_us.append(positives_us[i])
            harmless[first : last + 1] = windows_shield
        else:
            clusters[-1].spans.append((first, last))
    for first, last in in_frames[2]:
        cluster_of[first : last + 1] = -1
    return Channel(times_us.tolist(), clusters, cluster_of.tolist(), harmless.tolist())


def steps(channel: Channel, ranks: np.ndarray, n_thresholds: int, refractory: int) -> Steps:
    """Follow one channel's counts from the lowest threshold to the highest.

    Args:
        channel: regions and frame times.
        ranks (int, [n_frames]): number of thresholds below each frame's score, so that the frame is above
            the k-th threshold exactly when `k < rank`.
        n_thresholds: how many there are.
        refractory (int): least distance of two decisions, frames.
    """
    before = np.concatenate(([0], ranks[:-1]))
    rises = np.flatnonzero(ranks > before)
    edges = rises[before[rises] == 0].tolist()
    decisions = chain(edges, refractory)
    tracker = _Tracker(channel)
    tracker.update(0, [], decisions)
    at = np.concatenate((before[rises], ranks[rises]))  # where each edge comes, and where it goes
    for threshold, frames in _grouped(at, np.concatenate((rises, rises)), n_thresholds):
        change = _change(edges, decisions, frames, refractory)
        if change is not None:
            tracker.update(threshold, *change)
    return tracker.steps


def _grouped(at: np.ndarray, frames: np.ndarray, n_thresholds: int) -> Iterator[tuple[int, list[int]]]:
    """Give the frames that toggle at each threshold above the lowest; all ascending."""
    keep = (at > 0) & (at < n_thresholds)
    at, frames = at[keep], frames[keep]
    order = np.lexsort((frames, at))
    at, frames = at[order], frames[order]
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    ends = [*starts[1:].tolist(), len(at)]
    listed = frames.tolist()
    for threshold, start, end in zip(at[starts].tolist(), starts.tolist(), ends, strict=False):
        yield threshold, listed[start:end]


def _change(
    edges: list[int], decisions: list[int], frames: list[int], refractory: int
) -> tuple[list[int], list[int]] | None:
    """Toggle edges at the ascending frames and repair the decisions, both in place.

    Returns:
        The decisions that may have gone and those that may have come (a decision can be in both), or None
        where nothing happened.
    """
    first = None
    for frame in frames:
        i = bisect_left(edges, frame)
        d = bisect_left(decisions, frame)
        if i < len(edges) and edges[i] == frame:
            del edges[i]
            matters = d < len(decisions) and decisions[d] == frame
        else:
            edges.insert(i, frame)
            matters = d == 0 or frame - decisions[d - 1] >= refractory
        if matters and first is None:
            first = d
    if first is None:
        return None
    come: list[int] = []
    stop = first
    ready = decisions[first - 1] + refractory if first else 0
    while True:
        i = bisect_left(edges, ready)
        if i == len(edges):
            stop = len(decisions)
            break
        edge = edges[i]
        stop = bisect_left(decisions, edge, stop)
        if edge >= frames[-1] and stop < len(decisions) and decisions[stop] == edge:
            break  # from here on the old chain holds
        come.append(edge)
        ready = edge + refractory
    gone = decisions[first:stop]
    decisions[first:stop] = come
    return gone, come


class _Tracker:
    """Decisions inside each cluster, each cluster's counts, and the steps that they took."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.inside: list[list[int]] = [[] for _ in channel.clusters]
        self.state: list[tuple[list[int], int]] = [([], 0) for _ in channel.clusters]
        self.steps = Steps()

    def update(self, at: int, gone: list[int], come: list[int]) -> None:
        """Exchange decisions at a threshold and record how the counts changed."""
        cluster_of = self.channel.cluster_of
        touched = set()
        for frame in gone:
            cluster = cluster_of[frame]
            if cluster >= 0:
                inside = self.inside[cluster]
                del inside[bisect_left(inside, frame)]
                touched.add(cluster)
        for frame in come:
            cluster = cluster_of[frame]
            if cluster >= 0:
                insort(self.inside[cluster], frame)
                touched.add(cluster)
        for cluster in touched:
            old, new = self.state[cluster], self._match(cluster)
            if old != new:
                self.state[cluster] = new
                self.steps.at.append(at)
                self.steps.tp.append(len(new[0]) - len(old[0]))
                self.steps.fp.append(new[1] - old[1])
                self.steps.latencies.append((old[0], new[0]))

    def _match(self, cluster: int) -> tuple[list[int], int]:
        """Give a cluster's latencies in microseconds and its false positives."""
        regions, points = self.channel.clusters[cluster], self.inside[cluster]
        times_us = self.channel.times_us
        latencies, claimed = [], set()
        if regions.windows:
            for t, p in zip(regions.positives_us, claim(regions.windows, points), strict=True):
                if p is not None:
                    latencies.append(times_us[points[p]] - t)
                    claimed.add(p)
        if not regions.spans:
            return latencies, 0
        harmless = self.channel.harmless
        free = [point for p, point in enumerate(points) if p not in claimed and not harmless[point]]
        return latencies, len(regions.spans) - first_inside(regions.spans, free).count(None)


def _frames(times_us: np.ndarray, regions: Sequence[Interval]) -> list[Interval]:
    """Turn closed intervals of time into closed intervals of frames, empty where last < first."""
    bounds = np.asarray(regions, np.int64).reshape(-1, 2)
    first = np.searchsorted(times_us, bounds[:, 0], "left")
    last = np.searchsorted(times_us, bounds[:, 1], "right") - 1
    return list(zip(first.tolist(), last.tolist(), strict=True))
