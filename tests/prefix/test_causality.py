"""Detectors that peek are caught, causal ones pass, and a violation says where, when and by how much."""

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.signal
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from mptb_dataset import sample_dir
from turn_end_prefix import check_causal, replay
from turn_end_prefix.causality import REPLACEMENTS, UNCHANGED
from turn_end_prefix.detectors.energy import EnergyDetector
from turn_end_prefix.futures import replace_future

HOP = 1920  # 0.08 s at 24 kHz


@pytest.fixture(scope="module")
def channels():
    """The first ten seconds of the sample's first conversation: real speech of two people."""
    root = sample_dir("mptb")
    entry = json.loads((root / "dev" / "manifest.jsonl").read_text().splitlines()[0])
    paths = entry["audio_noisy"].items()
    return {s: soundfile.read(root / path, dtype="float32", frames=10 * 24000 + 777) for s, path in paths}


def framed(samples):
    n_frames = -(-len(samples) // HOP)
    return np.pad(samples, (0, n_frames * HOP - len(samples))).reshape(n_frames, HOP)


def levels(samples):
    return np.mean(framed(samples) ** 2, axis=1)


def speech(samples):
    return levels(samples) > 1e-5


def whole_file_level(samples):
    return levels(samples / np.max(np.abs(samples)))


def whole_file_mean(samples):
    return levels(samples) - np.mean(levels(samples))


def whole_file_rank(samples):
    return np.argsort(np.argsort(levels(samples))).astype(float)


def centred_window(samples):
    return np.convolve(levels(samples), np.ones(5) / 5, mode="same")


def centred_by_ten_milliseconds(samples):
    return levels(np.append(samples[240:], np.zeros(240, dtype=np.float32)))


def one_sample_ahead(samples):
    return levels(np.append(samples[1:], np.float32(0)))


def bidirectional_filter(samples):
    return scipy.signal.filtfilt([0.1], [1, -0.9], levels(samples))


def file_length(samples):
    return np.linspace(0, 1, len(levels(samples)))


def time_to_the_end(samples):
    remaining = np.arange(len(levels(samples)))[::-1]
    return (remaining < 40).astype(float)


def pause_that_will_last(samples):
    voiced = speech(samples)
    ends = np.flatnonzero(voiced[:-1] & ~voiced[1:]) + 1
    scores = np.zeros(len(voiced))
    for end in ends:
        scores[end] = not voiced[end : end + 10].any()
    return scores


def next_speech(samples):
    """Time until the channel speaks again, where it is silent."""
    voiced = np.flatnonzero(speech(samples))
    index = np.arange(len(levels(samples)))
    following = np.searchsorted(voiced, index)
    return np.append(voiced, len(index))[following] - index.astype(float)


def future_hidden_in_a_small_digit(samples):
    return np.round(levels(samples), 6) + 1e-9 * np.cumsum(levels(samples)[::-1])[::-1]


PEEKERS = [
    whole_file_level,
    whole_file_mean,
    whole_file_rank,
    centred_window,
    centred_by_ten_milliseconds,
    one_sample_ahead,
    bidirectional_filter,
    file_length,
    time_to_the_end,
    pause_that_will_last,
    next_speech,
    future_hidden_in_a_small_digit,
]


def trailing_window(samples):
    return np.convolve(levels(samples), np.ones(5) / 5)[: len(levels(samples))]


def one_way_filter(samples):
    return scipy.signal.lfilter([0.1], [1, -0.9], levels(samples))


def running_level(samples):
    return levels(samples) / np.maximum.accumulate(levels(samples))


def matrix_product(samples):
    return framed(samples) @ np.linspace(0, 1, HOP, dtype=np.float32)


def exponential(samples):
    return np.tanh(np.exp(-framed(samples).max(axis=1)))


def constant(samples):
    return np.zeros(len(levels(samples)))


def in_place(samples):
    samples *= 0.5
    return levels(samples)


def whole_frames_only(samples):
    return levels(samples[: len(samples) // HOP * HOP])


CAUSAL = [
    levels,
    trailing_window,
    one_way_filter,
    running_level,
    matrix_product,
    exponential,
    constant,
    in_place,
    whole_frames_only,
]


def whole_file(per_channel):
    """A function of all channels, from one of a channel's samples."""

    def detector(channels):
        return {"eot": {speaker: per_channel(samples) for speaker, (samples, _) in channels.items()}}

    detector.__name__ = per_channel.__name__
    return detector


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("peeker", PEEKERS, ids=lambda f: f.__name__)
def test_a_function_that_peeks_is_caught(peeker, seed, channels):
    report = check_causal(whole_file(peeker), channels, seed=seed)
    assert not report.ok
    assert report.violations
    assert report.detector == peeker.__name__


@pytest.mark.parametrize("causal", CAUSAL, ids=lambda f: f.__name__)
def test_a_causal_function_passes(causal, channels):
    report = check_causal(whole_file(causal), channels)
    assert report.ok, str(report)
    assert report.violations == ()


def test_a_function_that_peeks_into_another_channel_alone_is_caught(channels):
    def other_channel(channels):
        (a, (x, _)), (b, (y, _)) = channels.items()
        return {"int": {a: np.append(levels(y)[1:], 0), b: np.append(levels(x)[1:], 0)}}

    assert not check_causal(other_channel, channels).ok


class MeetsTheFuture:
    """A streaming detector that was given the recording when it was made."""

    name = "meets-the-future"
    lookahead_s = 0.0
    sampling_rate = None

    def __init__(self, channels):
        self.audio = np.stack([samples for samples, _ in channels.values()])

    def reset(self, speakers, sampling_rate):
        self.heard = 0

    def push(self, hop):
        self.heard += hop.shape[1]
        return {"eot": np.abs(self.audio[:, self.heard : self.heard + HOP]).sum(axis=1)}


def test_a_detector_that_is_made_from_the_recording_is_caught_when_its_maker_is_checked(channels):
    assert not check_causal(MeetsTheFuture, channels).ok
    assert not check_causal(lambda channels: MeetsTheFuture(channels), channels).ok


class Remembers:
    """A streaming detector that compares with the conversation that it heard before."""

    name = "remembers"
    lookahead_s = 0.0
    sampling_rate = None
    known = None

    def reset(self, speakers, sampling_rate):
        if self.known is None and getattr(self, "hops", None):
            self.known = np.concatenate(self.hops, axis=1)
        self.hops = []

    def push(self, hop):
        self.hops.append(hop)
        heard = sum(h.shape[1] for h in self.hops)
        ahead = self.known[:, heard : heard + HOP] if self.known is not None else hop
        return {"eot": np.abs(ahead).sum(axis=1) if ahead.shape[1] else np.zeros(len(hop))}


def test_a_detector_that_keeps_a_conversation_over_its_reset_is_caught_by_a_second_run(channels):
    report = check_causal(Remembers(), channels)
    assert not report.ok
    assert report.violations[0].replacement == UNCHANGED
    assert "differs by" in str(report.violations[0])


def test_the_energy_detector_passes_as_an_object_and_as_functions(channels):
    for detector in (
        EnergyDetector(),
        lambda channels: EnergyDetector(),
        lambda channels: replay(channels, EnergyDetector()),
    ):
        report = check_causal(detector, channels, probes=5)
        assert report.ok, str(report)


def ahead_by(lookahead_samples):
    def shifted(samples):
        return levels(np.append(samples[lookahead_samples:], np.zeros(lookahead_samples, dtype=np.float32)))

    return whole_file(shifted)


@pytest.mark.parametrize(("declared_s", "ok"), [(0.2, True), (0.21, True), (0.199, False), (0.0, False)])
def test_lookahead_counts_as_the_past_when_it_is_declared_and_not_a_sample_further(declared_s, ok, channels):
    detector = ahead_by(4800)
    assert check_causal(detector, channels, lookahead_s=declared_s).ok is ok
    detector.lookahead_s = declared_s
    assert check_causal(detector, channels).ok is ok


def test_a_streaming_detector_with_lookahead_passes(channels):
    class Late(EnergyDetector):
        lookahead_s = 0.25

    assert check_causal(Late(), channels).ok


@settings(max_examples=10, deadline=None)
@given(
    rate=st.sampled_from([8000, 11025, 44100]), hop_s=st.sampled_from([0.02, 0.0833]), seed=st.integers(0, 9)
)
def test_frames_that_are_no_whole_number_of_samples_neither_hide_nor_invent_peeking(rate, hop_s, seed):
    audio = np.random.default_rng(seed).uniform(-0.5, 0.5, 2 * rate).astype(np.float32)

    def sums(channels, ahead=0):
        (samples, rate) = channels["a"]
        bounds = [int(np.floor(i * hop_s * rate + 1e-6)) for i in range(int(len(samples) / rate / hop_s) + 2)]
        spans = pairwise(bounds)
        return {"eot": {"a": [samples[a + ahead : b + ahead].sum() for a, b in spans if a < len(samples)]}}

    given_channels = {"a": (audio, rate)}
    assert check_causal(sums, given_channels, hop_s=hop_s, seed=seed).ok
    assert not check_causal(lambda c: sums(c, ahead=1), given_channels, hop_s=hop_s, seed=seed).ok


def test_decisions_that_wait_for_the_future_are_caught_and_those_that_wait_in_time_pass(channels):
    def pauses(samples, wait):
        voiced = speech(samples)
        ends = np.flatnonzero(voiced[:-1] & ~voiced[1:]) + 1
        lasting = [end for end in ends if end + 8 <= len(voiced) and not voiced[end : end + 8].any()]
        return [(end + (8 if wait else 1)) * 0.08 for end in lasting]

    def deciding(wait):
        return lambda channels: {"eot": {s: pauses(x, wait) for s, (x, _) in channels.items()}}

    assert check_causal(deciding(wait=True), channels, returns="decisions").ok
    report = check_causal(deciding(wait=False), channels, returns="decisions", probes=16)
    assert not report.ok
    assert all(violation.time_s <= violation.probe_s for violation in report.violations)
    assert check_causal(deciding(wait=False), channels, returns="decisions", lookahead_s=0.56).ok


def test_a_tolerance_lets_small_changes_pass_and_no_larger_ones(channels):
    detector = whole_file(lambda samples: levels(samples) + 1e-4 * np.tanh(len(samples) * samples[-1]))
    assert not check_causal(detector, channels).ok
    assert not check_causal(detector, channels, tolerance=1e-6).ok
    assert check_causal(detector, channels, tolerance=1e-3).ok


def test_a_violation_names_conversation_channel_track_times_and_amount(channels):
    def only_the_second(channels):
        first, second = channels
        return {
            "eot": {first: levels(channels[first][0]), second: levels(channels[second][0])},
            "int": {first: levels(channels[first][0]), second: centred_window(channels[second][0])},
        }

    report = check_causal(only_the_second, channels, conversation_id="dev_00001")
    assert {(v.conversation_id, v.channel, v.track) for v in report.violations} == {
        ("dev_00001", "speaker_2", "int")
    }
    for violation in report.violations:
        assert violation.probe_s - 0.1601 <= violation.time_s <= violation.probe_s
        assert violation.change > 0
        assert violation.replacement in REPLACEMENTS
    text = str(report)
    assert "dev_00001, speaker_2, int" in text
    assert "was replaced" in text


def test_a_frame_that_goes_missing_is_a_violation(channels):
    def last_two_seconds_are_lost(channels):
        return {"eot": {s: levels(x)[: max(0, len(levels(x)) - 25)] for s, (x, _) in channels.items()}}

    report = check_causal(last_two_seconds_are_lost, channels)
    assert {violation.replacement for violation in report.violations} == {"cut"}
    assert all(np.isinf(violation.change) for violation in report.violations)


def test_the_same_seed_gives_the_same_report_and_leaves_the_global_generator_alone(channels):
    state = np.random.get_state()[1].copy()
    one, same, other = (check_causal(whole_file(centred_window), channels, seed=s) for s in (3, 3, 4))
    assert one == same
    assert one.violations != other.violations
    np.testing.assert_array_equal(np.random.get_state()[1], state)


def test_the_channels_stay_as_they_were_even_when_a_detector_works_in_place(channels):
    kept = {speaker: samples.copy() for speaker, (samples, _) in channels.items()}
    check_causal(whole_file(in_place), channels, probes=2)
    for speaker, (samples, _) in channels.items():
        np.testing.assert_array_equal(samples, kept[speaker])


def test_the_record_is_strict_json_and_says_what_was_checked(channels):
    report = check_causal(
        whole_file(file_length), channels, probes=3, seed=5, tolerance=0.25, lookahead_s=0.1
    )
    record = report.to_record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record == {
        "ok": False,
        "detector": "file_length",
        "probes": 3,
        "seed": 5,
        "tolerance": 0.25,
        "lookahead_s": 0.1,
        "replacements": ["noise", "silence", "cut", "other", "reversed"],
        "n_runs": 2 + 3 * 5,
        "n_violations": len(report.violations),
    }


def test_audio_of_another_conversation_can_be_put_in(channels):
    heard = []

    def listening(channels):
        heard.append(channels["a"][0])
        return {"eot": {"a": levels(channels["a"][0])}}

    mine = {"a": (np.zeros(24000, dtype=np.float32), 24000)}
    theirs = {"b": (np.full(24000, 0.123, dtype=np.float32), 24000)}
    assert check_causal(listening, mine, other=theirs, probes=2).ok
    assert any(np.any(samples == np.float32(0.123)) for samples in heard)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"probes": 0}, "probes must be at least 1"),
        ({"tolerance": -1e-9}, "tolerance must be finite and not negative"),
        ({"tolerance": float("nan")}, "tolerance must be finite and not negative"),
        ({"lookahead_s": -0.1}, "lookahead_s must be finite and not negative"),
        ({"returns": "labels"}, "returns must be 'scores' or 'decisions'"),
        ({"hop_s": 0.0}, "hop_s must be"),
        ({"other": {"b": (np.zeros(9), 16000)}}, "other has 16000 Hz but channels have 24000 Hz"),
    ],
)
def test_faulty_settings_are_refused(settings_, message, channels):
    with pytest.raises(ValueError, match=message):
        check_causal(EnergyDetector(), channels, **settings_)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([1.0], r"expected \{track: \{speaker: values\}\}, got list"),
        ({}, r"expected \{track: \{speaker: values\}\}"),
        ({"eot": {"speaker_1": [0.0]}}, "eot: expected values for each of speaker_1, speaker_2"),
        ({"eot": {"speaker_1": [0.0], "speaker_2": [np.nan]}}, "eot, speaker_2: expected finite numbers"),
        ({"eot": {"speaker_1": [0.0], "speaker_2": 0.0}}, "eot, speaker_2: expected finite numbers"),
        (
            {"eot": {"speaker_1": [1.0, 2.5], "speaker_2": []}},
            "eot, speaker_1: 2 scores for 126 frames of 0.08 s: .* does it return decisions",
        ),
        ({"eot": dict.fromkeys(("speaker_1", "speaker_2"), [0.0] * 1500)}, "1500 scores for 126 frames"),
    ],
)
def test_answers_of_another_shape_are_refused(answers, message, channels):
    with pytest.raises(ValueError, match=message):
        check_causal(lambda channels: answers, channels)


@settings(max_examples=40, deadline=None)
@given(
    n_kept=st.integers(0, 400),
    replacement=st.sampled_from(REPLACEMENTS),
    dtype=st.sampled_from([np.float32, np.int16, np.int32]),
    seed=st.integers(0, 99),
)
def test_a_replacement_keeps_the_past_the_type_and_but_for_a_cut_the_length(n_kept, replacement, dtype, seed):
    rng = np.random.default_rng(seed)
    scale = 0.3 if dtype == np.float32 else 0.3 * np.iinfo(dtype).max
    rows = {name: (scale * rng.uniform(-1, 1, 400)).astype(dtype) for name in "ab"}
    altered = replace_future(rows, n_kept, replacement, rng=rng)
    for name, samples in rows.items():
        np.testing.assert_array_equal(altered[name][:n_kept], samples[:n_kept])
        assert altered[name].dtype == dtype
        assert len(altered[name]) == (n_kept if replacement == "cut" else 400)
        if replacement == "reversed":
            np.testing.assert_array_equal(altered[name][n_kept:], samples[n_kept:][::-1])
        if n_kept < 390 and replacement in ("silence", "noise", "other"):
            assert np.any(altered[name][n_kept:] != samples[n_kept:])


@pytest.mark.parametrize("n_samples", [1, 2, 1920, 1921])
def test_the_shortest_recordings_can_be_checked(n_samples):
    audio = np.full(n_samples, 0.1, dtype=np.float32)
    for detector in (EnergyDetector(), whole_file(levels)):
        assert check_causal(detector, {"a": (audio, 24000)}).ok


def test_an_unknown_replacement_is_refused():
    with pytest.raises(ValueError, match="unknown replacement 'mute'"):
        replace_future({"a": np.zeros(4)}, 2, "mute", rng=np.random.default_rng(0))


def test_a_last_block_that_is_left_unfinished_is_no_violation(channels):
    def whole_blocks_of_half_a_second(channels):
        return {"eot": {s: levels(x)[: len(levels(x)) // 6 * 6] for s, (x, _) in channels.items()}}

    assert check_causal(whole_blocks_of_half_a_second, channels).ok


@pytest.mark.parametrize("before_the_end_s", [0.3, 0.9])
def test_a_decision_that_knows_where_the_recording_ends_is_caught(channels, before_the_end_s):
    def at_the_end(channels):
        return {"eot": {s: [len(x) / rate - before_the_end_s] for s, (x, rate) in channels.items()}}

    report = check_causal(at_the_end, channels, returns="decisions")
    assert {violation.replacement for violation in report.violations} == {"cut"}


def test_scores_that_rise_where_the_recording_ends_are_caught(channels):
    def last_frames_are_sure(channels):
        found = {s: levels(x).copy() for s, (x, _) in channels.items()}
        for scores in found.values():
            scores[-5:] = 1.0
        return {"eot": found}

    assert not check_causal(last_frames_are_sure, channels).ok


def test_decisions_whose_times_are_rounded_are_causal(channels):
    def first_loud_sample(channels):
        loud = {s: (np.flatnonzero(np.abs(x) > 0.05)[:1] + 1) / rate for s, (x, rate) in channels.items()}
        return {"eot": {s: np.round(times_s, 2) for s, times_s in loud.items()}}

    assert check_causal(first_loud_sample, channels, returns="decisions").ok
