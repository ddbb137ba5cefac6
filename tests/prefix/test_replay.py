"""A detector hears each frame's audio, all of it, nothing later, and its answers land on the right frames."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from turn_end_prefix import replay
from turn_end_prefix.hops import resampling_delay_samples
from turn_end_prefix.replay import Detector, ReplayTimer

HOPS_S = ["0.08", "0.02", "0.05", "0.0833", "0.1"]


class Recorder:
    """Keeps every hop; answers with the first sample of each channel."""

    name = "recorder"

    def __init__(self, *, sampling_rate=None, lookahead_s=0.0, answer=None):
        self.sampling_rate = sampling_rate
        self.lookahead_s = lookahead_s
        self._answer = answer or (lambda hop: {"eot": hop[:, 0]})

    def reset(self, speakers, sampling_rate):
        self.speakers, self.rate, self.hops = list(speakers), sampling_rate, []

    def push(self, hop):
        self.hops.append(hop)
        return self._answer(hop)


def noise(n_samples, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, n_samples).astype(np.float32)


def first_samples(n_samples, hop_s, rate):
    """Frame starts by exact rational arithmetic, up to the first one at or past the end."""
    hop, starts = Fraction(hop_s), [0]
    while starts[-1] < n_samples:
        starts.append(math.floor(len(starts) * hop * rate))
    return starts


@settings(max_examples=60, deadline=None)
@given(
    n_samples=st.integers(1, 9000),
    rate=st.sampled_from([8000, 11025, 16000, 24000, 44100]),
    hop_s=st.sampled_from(HOPS_S),
)
def test_frames_begin_and_end_where_exact_arithmetic_says_and_hold_the_audio_in_between(
    n_samples, rate, hop_s
):
    audio = noise(n_samples)
    heard = Recorder()
    scores = replay({"a": (audio, rate)}, heard, hop_s=float(hop_s))
    starts = first_samples(n_samples, hop_s, rate)
    assert [hop.shape[1] for hop in heard.hops] == np.diff(starts).tolist()
    padded = np.pad(audio, (0, starts[-1] - n_samples))
    np.testing.assert_array_equal(np.concatenate([hop[0] for hop in heard.hops]), padded)
    assert len(scores["eot"]["a"]) == len(starts) - 1


def test_a_long_recording_of_hops_that_are_no_whole_number_of_samples_does_not_drift():
    n_frames, rate, hop_s = 2400, 11025, "0.0833"
    n_samples = math.floor(n_frames * Fraction(hop_s) * rate)
    heard = Recorder()
    replay({"a": (np.zeros(n_samples, dtype=np.float32), rate)}, heard, hop_s=float(hop_s))
    assert len(heard.hops) == n_frames
    assert sum(hop.shape[1] for hop in heard.hops) == n_samples


def test_the_last_frame_counts_and_is_filled_with_zeros():
    heard = Recorder()
    scores = replay({"a": (np.ones(1921, dtype=np.float32), 24000)}, heard)
    assert scores["eot"]["a"].tolist() == [1.0, 1.0]
    assert heard.hops[1][0].tolist() == [1.0] + [0.0] * 1919


def test_every_channel_keeps_its_own_audio_in_the_order_of_the_mapping():
    channels = {f"speaker_{k}": (np.full(4000, k / 10, dtype=np.float32), 24000) for k in (3, 1, 2)}
    heard = Recorder()
    scores = replay(channels, heard)
    assert heard.speakers == ["speaker_3", "speaker_1", "speaker_2"]
    assert list(scores["eot"]) == heard.speakers
    for speaker, (audio, _) in channels.items():
        np.testing.assert_array_equal(scores["eot"][speaker][:2], audio[:2].astype(np.float64))


def test_a_hop_leads_to_no_other_audio():
    heard = Recorder()
    replay({"a": (noise(24000), 24000), "b": (noise(24000), 24000)}, heard)
    for hop in heard.hops:
        assert hop.base is None
        assert hop.flags.owndata
        assert hop.flags.c_contiguous
        assert hop.dtype == np.float32


@pytest.mark.parametrize("rate", [24000, 16000])
def test_a_detector_that_writes_into_its_hop_changes_neither_the_audio_nor_later_hops(rate):
    def spoil(hop):
        hop[:] = 9.0
        return {"eot": np.zeros(len(hop))}

    audio = noise(24000)
    kept = audio.copy()
    spoiling, listening = Recorder(sampling_rate=rate, answer=spoil), Recorder(sampling_rate=rate)
    replay({"a": (audio, 24000)}, spoiling)
    replay({"a": (audio, 24000)}, listening)
    np.testing.assert_array_equal(audio, kept)
    assert max(float(hop.max()) for hop in listening.hops) < 1.0


def test_a_detector_that_reuses_its_answer_gets_every_score_kept():
    buffer = np.zeros(1)

    def count(hop):
        buffer[0] += 1
        return {"eot": buffer}

    scores = replay({"a": (noise(5 * 1920), 24000)}, Recorder(answer=count))
    assert scores["eot"]["a"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("lookahead_s", "ahead"), [(0.0, 0), (0.079, 0), (0.08, 1), (0.2, 2), (0.24, 3)])
def test_declared_lookahead_moves_answers_to_the_frame_that_they_are_about(lookahead_s, ahead):
    audio = np.repeat(np.arange(6, dtype=np.float32), 1920)
    scores = replay({"a": (audio, 24000)}, Recorder(lookahead_s=lookahead_s))
    expected = [*range(ahead, 6), *[0] * ahead]
    assert scores["eot"]["a"].tolist() == expected


def test_float64_samples_are_heard_as_float32():
    heard = Recorder()
    replay({"a": (noise(1920).astype(np.float64), 24000)}, heard)
    assert heard.hops[0].dtype == np.float32


def test_a_row_or_column_is_read_as_one_channel():
    for shape in ((1, 1920), (1920, 1)):
        heard = Recorder()
        replay({"a": (noise(1920).reshape(shape), 24000)}, heard)
        np.testing.assert_array_equal(heard.hops[0][0], noise(1920))


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ({}, "channels is empty"),
        ({"a": (np.zeros(0, dtype=np.float32), 24000)}, "a: has no samples"),
        ({"a": (np.zeros((2, 9), dtype=np.float32), 24000)}, r"a: expected one channel .* shape \(2, 9\)"),
        ({"a": (np.zeros(9, dtype=np.int16), 24000)}, "a: samples must be floats .* int16"),
        ({"a": (np.array([0, np.nan], dtype=np.float32), 24000)}, "a: sample 1 is not finite"),
        ({"a": (np.array([np.inf, 0], dtype=np.float32), 24000)}, "a: sample 0 is not finite"),
        ({"a": (np.array([0, 1e300]), 24000)}, "a: sample 1 is not finite"),
        ({"a": (np.zeros(9, dtype=np.float32), 0)}, "a: sampling rate .* 0"),
        ({"a": (np.zeros(9, dtype=np.float32), 24000.0)}, "a: sampling rate .* 24000.0"),
        ({"a": (np.zeros(9, dtype=np.float32), "24000")}, "a: sampling rate .* '24000'"),
        ({"a": (np.zeros(9, dtype=np.float32), True)}, "a: sampling rate .* True"),
        ({"a": np.zeros(9, dtype=np.float32)}, r"a: expected \(samples, sampling rate\), got ndarray"),
        (
            {"a": (np.zeros(9, dtype=np.float32), 24000), "b": (np.zeros(8, dtype=np.float32), 24000)},
            "b has 8 samples but a has 9",
        ),
        (
            {"a": (np.zeros(9, dtype=np.float32), 24000), "b": (np.zeros(9, dtype=np.float32), 16000)},
            "b has 16000 Hz but a has 24000",
        ),
    ],
)
def test_faulty_channels_are_refused_by_name(channels, message):
    with pytest.raises(ValueError, match=message):
        replay(channels, Recorder())


@pytest.mark.parametrize("hop_s", [0.0, -0.08, math.nan, math.inf, 1e-5])
def test_a_hop_must_hold_a_sample(hop_s):
    with pytest.raises(ValueError, match="hop_s must be a time of at least one sample"):
        replay({"a": (noise(1920), 24000)}, Recorder(), hop_s=hop_s)


def at_frame(index, answer):
    """Answer with zeros, and with `answer` in one frame."""
    frames = iter(range(10**6))
    return lambda hop: answer if next(frames) == index else {"eot": np.zeros(len(hop))}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"eot": [0.0, math.nan]}, "frame 2, eot, speaker_2: score is not finite"),
        ({"eot": [-math.inf, 0.0]}, "frame 2, eot, speaker_1: score is not finite"),
        ({"eot": [0.0]}, r"frame 2, eot: expected a score for each of 2 channels.*got shape \(1,\)"),
        ({"eot": [[0.0, 0.0]]}, "frame 2, eot: expected a score for each of 2 channels"),
        ({"eot": 0.5}, "frame 2, eot: expected a score for each of 2 channels"),
        ({"eot": ["x", "y"]}, "frame 2, eot: scores must be real numbers"),
        ({"eot": [0.0, None]}, "frame 2, eot"),
        ({"eot": [0.0, 0.0], "int": [0.0, 0.0]}, "frame 2: tracks .*differ from those before"),
        ({"int": [0.0, 0.0]}, "frame 2: tracks .*differ from those before"),
        ({}, "frame 2: push must return"),
        (None, "frame 2: push must return"),
        ([0.0, 0.0], "frame 2: push must return"),
    ],
)
def test_a_faulty_answer_is_refused_with_its_frame(answer, message):
    channels = {"speaker_1": (noise(9600), 24000), "speaker_2": (noise(9600), 24000)}
    with pytest.raises(ValueError, match=message):
        replay(channels, Recorder(answer=at_frame(2, answer)))


def test_a_score_that_is_not_finite_is_named_by_the_first_frame_that_has_one():
    answers = iter([[0.0, 0.0], [0.0, math.nan], [math.inf, 0.0]])
    channels = {"a": (noise(3 * 1920), 24000), "b": (noise(3 * 1920), 24000)}
    with pytest.raises(ValueError, match="frame 1, eot, b: score is not finite"):
        replay(channels, Recorder(answer=lambda hop: {"eot": next(answers)}))


@pytest.mark.parametrize("lookahead_s", [-0.01, math.nan, math.inf])
def test_declared_lookahead_must_be_a_time(lookahead_s):
    with pytest.raises(ValueError, match="lookahead_s must be finite and not negative"):
        replay({"a": (noise(1920), 24000)}, Recorder(lookahead_s=lookahead_s))


def test_with_lookahead_a_resampled_recording_is_heard_to_its_end():
    heard = Recorder(sampling_rate=16000, lookahead_s=0.16)
    scores = replay({"a": (noise(24000), 24000)}, heard)
    assert len(scores["eot"]["a"]) == 13
    assert len(heard.hops) == 15
    assert np.any(heard.hops[12] != 0)


def test_what_is_no_detector_is_refused():
    with pytest.raises(TypeError, match=r"function.*reset\(speakers, sampling_rate\) and push\(hop\)"):
        replay({"a": (noise(1920), 24000)}, lambda channels: {})


def test_attributes_may_be_left_out_by_a_causal_detector_at_the_recordings_own_rate():
    class Bare:
        def reset(self, speakers, sampling_rate):
            self.rate = sampling_rate

        def push(self, hop):
            return {"eot": np.full(len(hop), self.rate)}

    assert replay({"a": (noise(1920), 8000)}, Bare())["eot"]["a"].tolist() == [8000.0] * 3


def test_a_detector_offers_the_protocol():
    assert isinstance(Recorder(), Detector)


RATES = [(24000, 16000), (16000, 24000), (48000, 16000), (44100, 16000), (8000, 16000)]


@pytest.mark.parametrize(("rate_in", "rate_out"), RATES)
def test_resampled_audio_is_the_whole_files_resampled_audio_a_constant_delay_later(rate_in, rate_out):
    audio = noise(3 * rate_in)
    heard = Recorder(sampling_rate=rate_out)
    replay({"a": (audio, rate_in), "b": (-audio, rate_in)}, heard)
    streamed = np.concatenate(heard.hops, axis=1)
    delay = resampling_delay_samples(rate_in, rate_out, 0.08)
    whole = soxr.resample(audio, rate_in, rate_out, quality="HQ")
    length = min(streamed.shape[1] - delay, len(whole))
    assert heard.rate == rate_out
    assert 0 < delay < 0.15 * rate_out
    np.testing.assert_array_equal(streamed[:, :delay], 0)
    np.testing.assert_allclose(streamed[0, delay : delay + length], whole[:length], atol=1e-4)
    np.testing.assert_allclose(streamed[1], -streamed[0], atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(frame=st.integers(1, 24), rates=st.sampled_from(RATES), seed=st.integers(0, 99))
def test_resampled_hops_up_to_a_frame_are_bit_identical_whatever_follows_it(frame, rates, seed):
    rate_in, rate_out = rates
    kept = math.floor(frame * Fraction("0.08") * rate_in)
    audio = noise(2 * rate_in)
    changed = np.concatenate([audio[:kept], noise(len(audio) - kept, seed + 1)])
    before, after, cut = (Recorder(sampling_rate=rate_out) for _ in range(3))
    replay({"a": (audio, rate_in)}, before)
    replay({"a": (changed, rate_in)}, after)
    replay({"a": (audio[:kept], rate_in)}, cut)
    for index in range(frame):
        np.testing.assert_array_equal(before.hops[index], after.hops[index])
        np.testing.assert_array_equal(before.hops[index], cut.hops[index])


def test_resampling_long_recordings_never_runs_dry():
    heard = Recorder(sampling_rate=16000)
    replay({"a": (np.zeros(44100 * 240, dtype=np.float32), 44100)}, heard, hop_s=0.0833)
    assert len(heard.hops) == math.ceil(240 / 0.0833)


def test_without_soxr_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "soxr", None)
    resampling_delay_samples.cache_clear()
    with pytest.raises(ImportError, match=r"24000 Hz to 16000 Hz needs soxr: pip install 'mptb\[resample\]'"):
        replay({"a": (noise(1920), 24000)}, Recorder(sampling_rate=16000))


def test_without_soxr_a_detector_at_the_recordings_rate_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "soxr", None)
    assert len(replay({"a": (noise(1920), 16000)}, Recorder(sampling_rate=16000))["eot"]["a"]) == 2


def test_a_timer_adds_up_over_replays():
    timer = ReplayTimer()
    assert math.isnan(timer.real_time_factor)
    assert math.isnan(timer.harness_share)
    for _ in range(2):
        replay({"a": (noise(24000), 24000), "b": (noise(24000), 24000)}, Recorder(), timer=timer)
    assert timer.audio_s == 2.0
    assert 0 < timer.detector_s < timer.total_s
    assert timer.real_time_factor == timer.total_s / 2.0
    assert timer.harness_share == pytest.approx(timer.total_s / timer.detector_s - 1)
