"""Any function of a prefix is a detector; any detector scores prefixes and declares endpoints."""

import math

import numpy as np
import pytest
import soxr

from turn_end_prefix import check_causal, replay
from turn_end_prefix.detectors import (
    first_endpoint,
    load_detector,
    pipeline_model,
    prefix_detector,
    score_prefixes,
)

RATE = 16000


def speech(seconds, *, level=0.1, seed=0):
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


def turn(speech_s, silence_s):
    return np.concatenate([speech(speech_s), speech(silence_s, level=0.0005, seed=1)])


def loudness(samples, rate):
    return float(np.abs(samples).mean())


def test_a_function_of_a_prefix_hears_each_channels_audio_up_to_the_frames_end():
    audio = {"a": speech(1), "b": speech(1, seed=1)}
    scores = replay({s: (x, RATE) for s, x in audio.items()}, prefix_detector(loudness))
    assert list(scores) == ["eot"]
    for speaker, samples in audio.items():
        expected = [loudness(samples[: 1280 * (frame + 1)], RATE) for frame in range(12)]
        assert scores["eot"][speaker][:12].tolist() == expected


def test_a_function_of_a_prefix_hears_the_end_of_its_window_and_its_rate():
    heard = []

    def keep(samples, rate):
        heard.append((len(samples), rate, samples[-1]))
        return 0.0

    audio = speech(1)
    replay({"a": (audio, RATE)}, prefix_detector(keep, window_s=0.25))
    assert heard[0][:2] == (1280, RATE)
    assert heard[-2] == (4000, RATE, audio[12 * 1280 - 1])


def test_a_function_that_spoils_its_prefix_spoils_no_other():
    def spoil(samples, rate):
        value = loudness(samples, rate)
        samples[:] = 7.0
        return value

    channels = {"a": (speech(1), RATE)}
    spoiled, kept = replay(channels, prefix_detector(spoil)), replay(channels, prefix_detector(loudness))
    np.testing.assert_array_equal(spoiled["eot"]["a"], kept["eot"]["a"])


def test_in_silence_mode_the_function_is_asked_when_a_turn_falls_silent():
    asked = []

    def sure(samples, rate):
        asked.append(len(samples))
        return 0.9

    scores = replay({"a": (turn(2, 2), RATE)}, prefix_detector(sure, when="silence"))
    assert len(asked) == 1
    assert set(scores) == {"eot", "int"}
    fired = np.flatnonzero(scores["eot"]["a"] > 0.5)[0]
    assert 2.2 <= (fired + 1) * 0.08 <= 2.5


def test_detectors_of_prefixes_pass_the_causality_check():
    channels = {"a": (turn(2, 2), RATE), "b": (turn(1, 3), RATE)}
    for when in ("always", "silence"):
        assert check_causal(prefix_detector(loudness, when=when), channels, probes=4).ok


def test_names_come_from_the_function_or_the_caller():
    assert prefix_detector(loudness).name == "loudness"
    assert prefix_detector(loudness, name="mine", when="silence").name == "mine"
    with pytest.raises(ValueError, match="when must be 'always' or 'silence', got 'often'"):
        prefix_detector(loudness, when="often")


def test_a_classification_pipeline_gives_the_score_of_its_label():
    def pipeline(inputs):
        assert set(inputs) == {"raw", "sampling_rate"}
        level = float(np.abs(inputs["raw"]).mean())
        return [{"label": "hold", "score": 1 - level}, {"label": "finished", "score": level}]

    prefix = speech(1)
    model = pipeline_model(pipeline, label="finished")
    assert score_prefixes(model, [(prefix, RATE)]) == [loudness(prefix, RATE)]
    detector = prefix_detector(model, name="pipeline")
    assert replay({"a": (prefix, RATE)}, detector)["eot"]["a"][-2] == loudness(prefix[: 12 * 1280], RATE)
    with pytest.raises(ValueError, match="no label 'done' but hold, finished"):
        pipeline_model(pipeline, label="done")(prefix, RATE)


def test_a_real_transformers_pipeline_plugs_in():
    transformers = pytest.importorskip("transformers")
    config = transformers.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, num_labels=2,
        id2label={0: "hold", 1: "finished"}, label2id={"hold": 0, "finished": 1},
    )  # fmt: skip
    pipeline = transformers.pipeline(
        "audio-classification",
        model=transformers.Wav2Vec2ForSequenceClassification(config),
        feature_extractor=transformers.Wav2Vec2FeatureExtractor(),
    )
    (score,) = score_prefixes(pipeline_model(pipeline, label="finished"), [(speech(1), RATE)])
    assert 0 < score < 1


def test_a_prefix_is_scored_by_a_streaming_detector_when_its_last_hop_ends_with_it():
    class LastSample:
        name, lookahead_s, sampling_rate = "last", 0.0, None

        def reset(self, speakers, sampling_rate):
            self.total = 0

        def push(self, hop):
            self.total += np.count_nonzero(hop)
            return {"eot": [hop[0, -1] + 10 * self.total]}

    prefix = np.linspace(0.1, 0.9, 3001, dtype=np.float32)
    assert score_prefixes(LastSample(), [(prefix, RATE)]) == [float(prefix[-1]) + 30010]


def test_longer_silence_at_the_end_of_a_prefix_scores_higher_with_timing_alone():
    prefixes = [(turn(2, silence), RATE) for silence in (0.1, 0.5, 1.0, 2.0)]
    for name in ("energy", "silence"):
        scores = score_prefixes(load_detector(name), prefixes)
        assert scores == sorted(scores)
        assert scores[0] < scores[-1]


def test_a_prefix_at_another_rate_is_resampled_after_the_cut():
    prefix = speech(1)
    heard = []

    def keep(samples, rate):
        heard.append((samples, rate))
        return 0.0

    score_prefixes(prefix_detector(keep, sampling_rate=8000), [(prefix, RATE)])
    ((samples, rate),) = heard
    assert rate == 8000
    np.testing.assert_allclose(samples, soxr.resample(prefix, RATE, 8000, quality="HQ"), atol=1e-6)


def test_a_faulty_prefix_is_named_by_its_place():
    good, bad = (speech(1), RATE), (np.array([0, np.nan], dtype=np.float32), RATE)
    with pytest.raises(ValueError, match="prefix 1: speaker_1: sample 1 is not finite"):
        score_prefixes(loudness, [good, bad])


def test_scores_of_prefixes_do_not_depend_on_their_order():
    prefixes = [(turn(2, silence), RATE) for silence in (0.1, 1.0, 0.5)]
    detector = load_detector("energy")
    assert score_prefixes(detector, prefixes) == score_prefixes(detector, prefixes[::-1])[::-1]


# turn: ######  tail: ....................
def test_the_first_endpoint_comes_in_the_tail_after_the_hold_that_the_threshold_means():
    for hold_s in (0.5, 1.0):
        fired = first_endpoint(load_detector("silence", hold_s=hold_s), speech(2), RATE, theta=0.5)
        assert 2 + hold_s <= fired <= 2 + hold_s + 0.25
        assert math.isclose(fired / 0.08, round(fired / 0.08))


# turn: ####....####  a pause longer than the hold
def test_the_first_endpoint_may_cut_a_turn_early():
    samples = np.concatenate([turn(2, 1.5), speech(2)])
    fired = first_endpoint(load_detector("silence", hold_s=0.5), samples, RATE, theta=0.5)
    assert 2.5 <= fired <= 2.75


def test_no_endpoint_within_the_tail_is_none():
    assert first_endpoint(load_detector("silence"), speech(2), RATE, theta=0.5, tail_s=0.3) is None
    assert first_endpoint(load_detector("silence"), speech(2), RATE, theta=1.0) is None


def test_declared_lookahead_counts_in_the_endpoint():
    class Late:
        name, lookahead_s, sampling_rate = "late", 0.16, None

        def reset(self, speakers, sampling_rate):
            self.hops = 0

        def push(self, hop):
            self.hops += 1
            return {"eot": [float(self.hops == 5)]}

    assert first_endpoint(Late(), speech(2), RATE, theta=0.5) == pytest.approx(5 * 0.08)


@pytest.mark.parametrize("tail_s", [-1.0, math.nan, math.inf])
def test_a_tail_must_be_a_time(tail_s):
    with pytest.raises(ValueError, match="tail_s must be finite and not negative"):
        first_endpoint(load_detector("silence"), speech(1), RATE, theta=0.5, tail_s=tail_s)


def test_a_threshold_must_be_a_number():
    with pytest.raises(ValueError, match="theta is NaN"):
        first_endpoint(load_detector("silence"), speech(1), RATE, theta=math.nan)


def test_a_detector_without_eot_scores_no_prefix_and_no_turn():
    class OnlyInt:
        name, lookahead_s, sampling_rate = "only-int", 0.0, None

        def reset(self, speakers, sampling_rate):
            pass

        def push(self, hop):
            return {"int": [0.0]}

    with pytest.raises(ValueError, match="OnlyInt gives no eot scores, only int"):
        score_prefixes(OnlyInt(), [(speech(1), RATE)])
    with pytest.raises(ValueError, match="OnlyInt gives no eot scores, only int"):
        first_endpoint(OnlyInt(), speech(1), RATE, theta=0.5)
