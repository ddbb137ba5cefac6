"""Does a detector's past change when its future does?

At probe times the audio from there on is replaced, and everything that the detector had said by then must
stay the same, bit by bit or within a stated tolerance. Half of the probe times are spread over the
conversation, half fall where the detector's own answers move: one that peeks shows it at the moments it
reacts to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from .futures import REPLACEMENTS, replace_future
from .hops import Channels, check_channels, check_hop, count_frames
from .replay import Detector, lookahead_of, replay
from .traces import Traces, check_frame_counts, compare, draw_probes, read_answers

WholeFile = Callable[[Channels], Any]
"""A function of all the audio: ``f(channels)`` is ``{track: {speaker: values}}`` or a detector to replay."""

UNCHANGED = "unchanged"
"""A second run on the same audio: a detector that answers otherwise has kept something from the first."""

CUT_MARGIN_S = 1.0
"""How long before its new end a shorter recording may lack answers: a program that works in blocks, or leaves
a last one unfinished, says less there, and is no less causal for it. None may be new or other there."""

ROUNDING_S = 0.005
"""Decision times may be written to a hundredth of a second, and so up to this much too early."""


@dataclass(frozen=True)
class Violation:
    """One channel and track whose past changed with its future.

    Attributes:
        conversation_id: as given to the check, or None.
        channel: the speaker.
        track: ``eot`` or ``int``.
        time_s: when the earliest answer that changed had been given.
        probe_s: the audio was replaced from here on.
        replacement: one of `futures.REPLACEMENTS`, or ``unchanged``.
        change: largest absolute change of a score (infinite: missing); for decisions, how many came or
            went.
    """

    conversation_id: str | None
    channel: str
    track: str
    time_s: float
    probe_s: float
    replacement: str
    change: float

    def __str__(self) -> str:
        where = f"{self.conversation_id or 'conversation'}, {self.channel}, {self.track}"
        if self.replacement == UNCHANGED:
            return f"{where}: the answer at {self.time_s:.3f} s differs by {self.change:g} in a second run"
        return (
            f"{where}: the answer at {self.time_s:.3f} s changed by {self.change:g} when the audio from "
            f"{self.probe_s:.3f} s on was replaced ({self.replacement})"
        )


@dataclass(frozen=True)
class CausalityReport:
    """What was checked and what was found. No violation is no proof; a violation is one."""

    detector: str
    probes: int
    seed: int
    tolerance: float
    lookahead_s: float
    replacements: tuple[str, ...]
    n_runs: int
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Whether the past never changed."""
        return not self.violations

    def __str__(self) -> str:
        if self.ok:
            return f"{self.detector}: causal in {self.n_runs} runs ({self.probes} probes, seed {self.seed})"
        heading = f"{self.detector}: {len(self.violations)} violations in {self.n_runs} runs"
        return "\n".join([heading, *map(str, self.violations)])

    def to_record(self) -> dict[str, Any]:
        """Return the report without the single violations, ready for JSON: what a submission can carry."""
        return {
            "ok": self.ok,
            "detector": self.detector,
            "probes": self.probes,
            "seed": self.seed,
            "tolerance": self.tolerance,
            "lookahead_s": self.lookahead_s,
            "replacements": list(self.replacements),
            "n_runs": self.n_runs,
            "n_violations": len(self.violations),
        }


def violations_of(
    before: Traces,
    after: Traces,
    *,
    probe_samples: int,
    sampling_rate: int,
    replacement: str,
    tolerance: float,
    conversation_id: str | None,
) -> Iterator[Violation]:
    """Yield a violation for each channel and track whose answers by ``probe_samples`` differ in two runs."""
    shorter = replacement == "cut"
    n_unfinished = round(CUT_MARGIN_S * sampling_rate) if shorter else 0
    for change in compare(
        before, after, n_kept=probe_samples, tolerance=tolerance, shorter=shorter, n_unfinished=n_unfinished
    ):
        yield Violation(
            conversation_id=conversation_id,
            channel=change.speaker,
            track=change.track,
            time_s=change.time_s,
            probe_s=probe_samples / sampling_rate,
            replacement=replacement,
            change=change.amount,
        )


def check_settings(probes: int, tolerance: float, lookahead_s: float) -> None:
    """Raise ValueError unless there is a probe and neither the tolerance nor the lookahead is negative."""
    if probes < 1:
        raise ValueError(f"probes must be at least 1, got {probes}")
    for name, value in (("tolerance", tolerance), ("lookahead_s", lookahead_s)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name} must be finite and not negative, got {value}")


def is_streaming(detector: Any) -> bool:
    """Return whether this is a detector to push hops into, not a class or another function of the audio."""
    return not isinstance(detector, type) and hasattr(detector, "push") and hasattr(detector, "reset")


def check_causal(
    detector: Detector | WholeFile,
    channels: Channels,
    *,
    probes: int = 8,
    seed: int = 0,
    tolerance: float = 0.0,
    hop_s: float = 0.08,
    lookahead_s: float | None = None,
    returns: Literal["scores", "decisions"] = "scores",
    other: Channels | None = None,
    conversation_id: str | None = None,
) -> CausalityReport:
    """Replace the audio after probe times and report every answer from before that changed.

    An answer belongs to the past of a probe time when the audio that it may use ends there or earlier: a
    frame's end plus the lookahead for a score, its own time for a decision. A streaming detector is
    replayed with one replacement per probe, in turn; a function of the whole recording gets all of them at
    every probe, a shorter recording too. Both run twice on the unchanged audio first. What a detector was
    handed outside this call (say the audio, in its constructor) cannot be replaced: pass a function that
    makes the detector from the channels.

    Args:
        detector: a streaming `Detector`; or ``f(channels)`` that returns ``{track: {speaker: values}}``,
            values being scores [n_frames] or decision times, or that returns a detector to replay.
        channels: ``{speaker: (samples, rate)}``, as for `replay`. They are not changed.
        probes: number of probe times.
        seed: seeds the probe times and the replacements; the same seed gives the same report.
        tolerance: largest absolute change of a score that passes; for models with nondeterministic kernels.
        hop_s (float, s): length of a frame.
        lookahead_s (float, s): audio after a frame's end, or a decision's time, that it may use; by default
            what the detector declares for its scores; for decisions, whose times include it, only what they
            lose when they are rounded to a hundredth of a second.
        returns: what a function's values are, ``scores`` or ``decisions``.
        other: another conversation to take audio from, at the same rate; by default channels swap theirs.
        conversation_id: named in the violations.

    Returns:
        CausalityReport: ``.ok`` and ``.violations``.

    Raises:
        ValueError: faulty channels or settings, or answers of another shape.
    """
    if lookahead_s is None:
        lookahead_s = ROUNDING_S if returns == "decisions" else lookahead_of(detector)
    check_settings(probes, tolerance, lookahead_s)
    if returns not in ("scores", "decisions"):
        raise ValueError(f"returns must be 'scores' or 'decisions', got {returns!r}")
    recording = check_channels(channels)
    rate = recording.sampling_rate
    check_hop(hop_s, rate)
    donors = _donors(other, rate)
    rng = np.random.default_rng(seed)

    def traces(rows: Mapping[str, NDArray[np.float32]]) -> Traces:
        answers = _answers(detector, rows, rate, hop_s)
        return read_answers(
            answers, list(rows), rate, decisions=returns == "decisions", hop_s=hop_s, lookahead_s=lookahead_s
        )

    before = traces(recording.samples)
    if returns == "scores":
        check_frame_counts(before, count_frames(recording.n_samples, hop_s, rate), hop_s)
    runs = [(recording.n_samples, UNCHANGED)]
    for index, probe in enumerate(draw_probes(before, recording.n_samples, probes, rng)):
        kinds = [REPLACEMENTS[index % len(REPLACEMENTS)]] if is_streaming(detector) else REPLACEMENTS
        runs += [(probe, kind) for kind in kinds]
    violations: list[Violation] = []
    for probe, kind in runs:
        rows = recording.samples
        if kind != UNCHANGED:
            rows = replace_future(rows, probe, kind, rng=rng, other=donors)
        violations += violations_of(
            before,
            traces(rows),
            probe_samples=probe,
            sampling_rate=rate,
            replacement=kind,
            tolerance=tolerance,
            conversation_id=conversation_id,
        )
    return CausalityReport(
        detector=name_of(detector),
        probes=probes,
        seed=seed,
        tolerance=tolerance,
        lookahead_s=lookahead_s,
        replacements=REPLACEMENTS,
        n_runs=1 + len(runs),
        violations=tuple(violations),
    )


def _donors(other: Channels | None, rate: int) -> list[NDArray[np.float32]] | None:
    if other is None:
        return None
    recording = check_channels(other)
    if recording.sampling_rate != rate:
        raise ValueError(f"other has {recording.sampling_rate} Hz but channels have {rate} Hz")
    return list(recording.samples.values())


def name_of(detector: Any) -> str:
    """Return a detector's ``name``, else what its function or class is called."""
    name = getattr(detector, "name", None) or getattr(detector, "__name__", None)
    return name if isinstance(name, str) else type(detector).__name__


def _answers(
    detector: Detector | WholeFile, rows: Mapping[str, NDArray[np.float32]], rate: int, hop_s: float
) -> Any:
    """Run a detector on copies of the audio, so that one which works in place harms nobody."""
    channels = {speaker: (samples.copy(), rate) for speaker, samples in rows.items()}
    if is_streaming(detector):
        return replay(channels, cast(Detector, detector), hop_s=hop_s)
    answers = cast(WholeFile, detector)(channels)
    return replay(channels, answers, hop_s=hop_s) if is_streaming(answers) else answers
