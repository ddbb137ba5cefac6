"""`read_prefix`: the samples up to a moment, and not one more, whatever decodes them."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from turn_end_prefix import n_samples, read_prefix


def whole(data: bytes) -> np.ndarray:
    """The file, decoded at once; stereo averaged in float64."""
    samples, _ = sf.read(io.BytesIO(data), dtype="float64", always_2d=True)
    return samples.mean(axis=1).astype(np.float32)


@pytest.mark.parametrize("rate", [16000, 24000])
@pytest.mark.parametrize("n_channels", [1, 2])
@pytest.mark.parametrize("container", ["FLAC", "WAV", "WAVEX"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_a_prefix_is_the_start_of_the_decoded_file(
    backend, encode, noise, rate, n_channels, container, subtype
):
    n = 2 * rate + 77
    samples = np.stack([noise(n, seed) for seed in range(n_channels)], axis=1)
    data = encode(samples, rate, container=container, subtype=subtype)
    full = whole(data)
    for at_s in (0.0, 1 / rate, 0.2900001, 1.0, 1.001, n / rate):
        prefix, got_rate = read_prefix(data, at_s, backend=backend)
        assert got_rate == rate
        assert prefix.dtype == np.float32 and prefix.ndim == 1
        np.testing.assert_array_equal(prefix, full[: n_samples(at_s, rate)])


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("FLAC", "PCM_S8"), ("WAV", "PCM_U8"), ("WAV", "PCM_32"), ("WAV", "FLOAT"), ("WAV", "ULAW")],
)
def test_both_backends_give_the_same_numbers_for_every_sample_format(
    torchcodec, encode, noise, as_float, container, subtype
):
    data = encode(as_float(noise(20000)), 16000, container=container, subtype=subtype)
    ours, _ = read_prefix(data, 1.03, backend="soundfile")
    theirs, _ = read_prefix(data, 1.03, backend="torchcodec")
    np.testing.assert_array_equal(ours, theirs)


def test_three_hundred_moments_of_an_index_ramp_end_before_the_cut(backend, encode):
    # In 24 bits every sample can hold its own index.
    rate, n = 24000, 24000 * 20
    data = encode((np.arange(n) << 8).astype(np.int32), rate, subtype="PCM_24")
    generator = np.random.default_rng(0)
    on_boundary = generator.integers(1, n, 150) / rate
    mid_sample = (generator.integers(1, n, 150) + generator.uniform(0.05, 0.95, 150)) / rate
    for kind in (float, np.float32):
        for at_s in (*on_boundary[:75], *mid_sample[:75]):
            prefix, _ = read_prefix(data, kind(at_s), backend=backend)
            index = np.rint(prefix.astype(np.float64) * 2**23)
            np.testing.assert_array_equal(index, np.arange(len(prefix)))
            assert index[-1] < float(kind(at_s)) * rate
            assert index[-1] > float(kind(at_s)) * rate - 2


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 9000),
    rate=st.sampled_from([8000, 16000, 24000, 44100]),
    share=st.floats(0, 1),
    earlier=st.floats(0, 1),
)
def test_a_prefix_of_a_prefix_is_the_shorter_prefix(encode, noise, n, rate, share, earlier):
    data = encode(noise(n), rate)
    at_s = share * n / rate
    long, _ = read_prefix(data, at_s)
    short, _ = read_prefix(data, earlier * at_s)
    np.testing.assert_array_equal(short, long[: len(short)])
    again, _ = read_prefix({"array": long, "sampling_rate": rate}, len(short) / rate)
    np.testing.assert_array_equal(short, again)


@settings(max_examples=40, deadline=None)
@given(
    cut=st.integers(1, 12000),
    within=st.floats(0, 0.999),
    window=st.one_of(st.none(), st.floats(0.01, 0.6)),
    sampling_rate=st.sampled_from([None, 16000, 8000, 44100]),
    seed=st.integers(0, 99),
)
def test_what_comes_after_the_cut_changes_nothing(encode, noise, cut, within, window, sampling_rate, seed):
    rate = 24000
    before = noise(12500, seed)
    after = np.concatenate([before[:cut], noise(12500 - cut, seed + 1000)])
    at_s = (cut + within) / rate
    options = {"window_s": window, "sampling_rate": sampling_rate}
    first, first_rate = read_prefix(encode(before, rate), at_s, **options)
    second, second_rate = read_prefix(encode(after, rate), at_s, **options)
    assert first_rate == second_rate
    np.testing.assert_array_equal(first, second)


def test_the_first_sample_is_the_files_first(backend, encode, ramp, as_float):
    silent_start = np.concatenate([np.zeros(8000, np.int16), ramp(8000)])
    prefix, _ = read_prefix(encode(silent_start, 16000), 0.75, backend=backend)
    np.testing.assert_array_equal(prefix, as_float(silent_start[:12000]))


def test_a_moment_of_zero_gives_an_empty_array(backend, encode, noise):
    for at_s in (0, 0.0, 1e-7):
        for options in ({}, {"window_s": 1.0}, {"sampling_rate": 8000}):
            prefix, rate = read_prefix(encode(noise(1600), 16000), at_s, backend=backend, **options)
            assert prefix.shape == (0,) and prefix.dtype == np.float32
            assert rate == options.get("sampling_rate", 16000)


def test_up_to_fifty_milliseconds_past_the_end_give_the_whole_file(backend, encode, noise, as_float):
    samples = noise(16000)
    for past_s in (0.0, 0.00001, 0.02, 0.05):
        prefix, _ = read_prefix(encode(samples, 16000), 1.0 + past_s, backend=backend)
        np.testing.assert_array_equal(prefix, as_float(samples))


@pytest.mark.parametrize("past_s", [0.0501, 0.1, 10.0])
def test_further_past_the_end_is_an_error_that_gives_the_length(encode, noise, past_s):
    with pytest.raises(
        ValueError, match=r"past the end of .* it lasts 1\.000 s \(16000 samples at 16000 Hz\)"
    ):
        read_prefix(encode(noise(16000), 16000), 1.0 + past_s)


@pytest.mark.parametrize("at_s", [-0.001, math.nan, math.inf, -16, "1", None])
def test_a_moment_that_is_none_is_an_error_before_the_file_is_opened(at_s):
    with pytest.raises((ValueError, TypeError), match="at_s"):
        read_prefix("/no/such/file.flac", at_s)


@pytest.mark.parametrize("window_s", [0.001, 0.5, 1.0, 3.0])
def test_a_window_is_the_end_of_the_prefix(backend, encode, noise, as_float, window_s):
    samples, rate = noise(60000), 24000
    data = encode(samples, rate)
    for at_s in (0.4, 1.0, 1.77777, 2.5):
        tail, _ = read_prefix(data, at_s, window_s=window_s, backend=backend)
        stop = n_samples(at_s, rate)
        np.testing.assert_array_equal(
            tail, as_float(samples[max(0, stop - n_samples(window_s, rate)) : stop])
        )


def test_a_window_decodes_its_own_samples_only(encode, noise, frames_read):
    data = encode(noise(24000 * 30), 24000)
    read_prefix(data, 29.0, window_s=2.0)
    assert frames_read == [48000]


@pytest.mark.parametrize("window_s", [0, -1, math.nan, math.inf])
def test_a_window_that_keeps_nothing_is_an_error(encode, noise, window_s):
    with pytest.raises(ValueError, match="expected"):
        read_prefix(encode(noise(1600), 16000), 0.05, window_s=window_s)


@pytest.mark.parametrize("sampling_rate", [8000, 16000, 48000])
@pytest.mark.parametrize("window_s", [None, 0.7])
def test_resampling_sees_the_cut_audio_and_nothing_else(encode, noise, as_float, sampling_rate, window_s):
    import soxr

    samples = noise(48000)
    prefix, rate = read_prefix(encode(samples, 24000), 1.3, window_s=window_s, sampling_rate=sampling_rate)
    start = 0 if window_s is None else n_samples(1.3, 24000) - n_samples(window_s, 24000)
    expected = soxr.resample(as_float(samples[start : n_samples(1.3, 24000)]), 24000, sampling_rate)
    assert rate == sampling_rate and prefix.dtype == np.float32
    np.testing.assert_array_equal(prefix, expected)
    assert abs(len(prefix) - (n_samples(1.3, 24000) - start) * sampling_rate / 24000) <= 1


def test_resampling_keeps_a_tone_that_fits_into_the_new_rate(encode):
    rate, new = 24000, 16000
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * rate) / rate) * 32767).astype(np.int16)
    prefix, _ = read_prefix(encode(tone, rate), 2.0, sampling_rate=new)
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * new) / new)
    middle = slice(new // 4, -new // 4)
    assert np.abs(prefix - expected)[middle].max() < 1e-3


def test_the_recordings_own_rate_is_not_resampled(encode, noise, as_float):
    prefix, rate = read_prefix(encode(noise(1600), 16000), 0.1, sampling_rate=16000)
    np.testing.assert_array_equal(prefix, as_float(noise(1600)))
    assert rate == 16000


def test_the_rate_comes_with_the_samples(encode, noise):
    mptb, turn = encode(noise(24000 * 3), 24000), encode(noise(16000 * 3), 16000)
    assert (len(read_prefix(mptb, 2.0)[0]), len(read_prefix(turn, 2.0)[0])) == (48000, 32000)
    assert (read_prefix(mptb, 2.0)[1], read_prefix(turn, 2.0)[1]) == (24000, 16000)


def test_writing_into_a_prefix_changes_no_later_one(encode, noise, as_float):
    source = {"array": as_float(noise(1600)), "sampling_rate": 16000}
    read_prefix(source, 0.1)[0][:] = 7
    np.testing.assert_array_equal(read_prefix(source, 0.1)[0], as_float(noise(1600)))


def test_without_soxr_resampling_names_the_package(encode, noise, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "soxr", None)
    with pytest.raises(ImportError, match="24000 Hz to 16000 Hz needs soxr: pip install soxr"):
        read_prefix(encode(noise(2400), 24000), 0.1, sampling_rate=16000)


def test_an_unknown_backend_is_an_error(encode, noise):
    with pytest.raises(ValueError, match="backend: expected one of soundfile, torchcodec, got 'ffmpeg'"):
        read_prefix(encode(noise(100), 16000), 0.0, backend="ffmpeg")
