"""What audio may be given as, and what is refused."""

from __future__ import annotations

import io
import os
import sys

import numpy as np
import pytest
import soundfile as sf

from turn_end_prefix import DecodeError, read_prefix

RATE = 16000


@pytest.fixture
def samples(noise):
    return noise(RATE)


@pytest.fixture
def data(encode, samples):
    return encode(samples, RATE)


@pytest.fixture
def path(tmp_path, data):
    (tmp_path / "turn.flac").write_bytes(data)
    return tmp_path / "turn.flac"


class NotSeekable(io.RawIOBase):
    """A stream that can only be read."""

    def __init__(self, data: bytes):
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._data.readinto(buffer)


@pytest.mark.parametrize(
    "form",
    {
        "bytes": lambda data, path: data,
        "bytearray": lambda data, path: bytearray(data),
        "memoryview": lambda data, path: memoryview(data),
        "str": lambda data, path: str(path),
        "Path": lambda data, path: path,
        "bytes only": lambda data, path: {"bytes": data},
        "path only": lambda data, path: {"path": str(path)},
        "null bytes": lambda data, path: {"bytes": None, "path": str(path)},
        "null path": lambda data, path: {"bytes": data, "path": None},
        "bytes and the name of no file": lambda data, path: {"bytes": data, "path": "a1b2.flac"},
        "array": lambda data, path: dict(zip(("array", "sampling_rate"), sf.read(path), strict=True)),
        "array and the name of no file": lambda data, path: {
            "path": "gone.flac",
            "array": sf.read(path, dtype="float32")[0],
            "sampling_rate": RATE,
        },
        "[1, n] array": lambda data, path: {"array": sf.read(path)[0][None], "sampling_rate": RATE},
        "[n, 1] array": lambda data, path: {"array": sf.read(path)[0][:, None], "sampling_rate": RATE},
        "list": lambda data, path: {"array": sf.read(path)[0].tolist(), "sampling_rate": RATE},
        "file in memory": lambda data, path: io.BytesIO(data),
        "file that cannot seek": lambda data, path: NotSeekable(data),
        "file:// address": lambda data, path: path.as_uri(),
        "memory:// address": lambda data, path: in_memory(data),
    }.items(),
    ids=lambda form: form[0],
)
def test_every_form_of_source_gives_the_same_samples(backend, form, data, path, samples, as_float):
    prefix, rate = read_prefix(form[1](data, path), 0.7, backend=backend)
    assert rate == RATE
    np.testing.assert_array_equal(prefix, as_float(samples[:11200]))


def in_memory(data: bytes) -> str:
    import fsspec

    with fsspec.open("memory://prefix/turn.flac", "wb") as file:
        file.write(data)
    return "memory://prefix/turn.flac"


def test_a_file_object_is_read_from_its_start_and_stays_open(backend, path, samples, as_float):
    with open(path, "rb") as file:
        file.seek(1000)
        for _ in range(2):
            prefix, _ = read_prefix(file, 0.5, backend=backend)
            np.testing.assert_array_equal(prefix, as_float(samples[:8000]))
        assert not file.closed


def test_a_datasets_decoder_is_opened_at_its_source_and_not_decoded(
    torchcodec, backend, table, data, path, samples, as_float, monkeypatch
):
    rows = table([data, path], declared_rate=RATE, decode=True, turn_key=["a", "b"])
    for row in rows:
        decoder = row["audio"]
        if backend == "soundfile":
            monkeypatch.setattr(type(decoder), "get_samples_played_in_range", None)
        prefix, rate = read_prefix(decoder, 0.7, backend=backend)
        assert rate == RATE
        np.testing.assert_array_equal(prefix, as_float(samples[:11200]))


def test_a_decoder_whose_table_declares_another_rate_is_refused_unless_that_rate_is_asked_for(
    torchcodec, table, data
):
    decoder = table([data], declared_rate=24000, decode=True, turn_key=["a"])[0]["audio"]
    with pytest.raises(DecodeError, match=r"header says 16000 Hz, the table 24000 Hz.*sampling_rate=24000"):
        read_prefix(decoder, 0.5)
    prefix, rate = read_prefix(decoder, 0.5, sampling_rate=24000)
    assert (len(prefix), rate) == (12000, 24000)


def test_a_plain_torchcodec_decoder_is_cut_at_the_same_sample(torchcodec, data, path, samples, as_float):
    for source in (data, str(path)):
        for options in ({}, {"window_s": 0.1}):
            prefix, _ = read_prefix(torchcodec.AudioDecoder(source), 0.7, **options)
            np.testing.assert_array_equal(prefix, as_float(samples[:11200])[-len(prefix) :])
            assert len(prefix) == (1600 if options else 11200)


def test_a_torchcodec_decoder_that_resamples_before_the_cut_is_refused(torchcodec, data):
    with pytest.raises(
        ValueError, match=r"it resamples 16000 Hz to 8000 Hz before the cut.*sampling_rate=8000"
    ):
        read_prefix(torchcodec.AudioDecoder(data, sample_rate=8000), 0.5)


def test_a_file_of_several_speakers_is_not_mixed(backend, encode):
    packed = np.tile(np.array([0.1, 0.2, 0.3]), (RATE, 1))
    with pytest.raises(DecodeError, match="has 3 channels"):
        read_prefix(encode(packed, RATE), 0.5, backend=backend)


def test_two_channels_are_averaged(backend, encode):
    left_right = np.tile(np.array([0.5, -0.25]), (RATE, 1))
    prefix, _ = read_prefix(encode(left_right, RATE), 0.5, backend=backend)
    np.testing.assert_array_equal(prefix, np.full(8000, 0.125, np.float32))


def test_an_array_never_gives_more_than_its_prefix_along_either_axis():
    for shape in ((1, RATE), (RATE, 1)):
        assert read_prefix({"array": np.zeros(shape), "sampling_rate": RATE}, 0.001)[0].shape == (16,)
    with pytest.raises(ValueError, match=r"array: expected mono samples \[n\], got shape \(2, 16000\)"):
        read_prefix({"array": np.zeros((2, RATE)), "sampling_rate": RATE}, 0.001)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "no audio: bytes, path and array are missing or null"),
        ({"bytes": None, "path": None}, "no audio: bytes, path and array are missing or null"),
        ({"array": np.zeros(9)}, "array: comes without its sampling_rate"),
        (
            {"array": np.zeros(9, np.int16), "sampling_rate": RATE},
            r"array: expected floats in \[-1, 1\], got int16",
        ),
        ({"array": np.zeros(9), "sampling_rate": 0}, "sampling_rate: expected Hz > 0"),
    ],
)
def test_a_dict_without_audio_says_what_is_missing(source, message):
    with pytest.raises(ValueError, match=message):
        read_prefix(source, 0.0)


@pytest.mark.parametrize("source", [None, 3, 0.5, np.zeros(16), ["a.flac"]])
def test_what_is_no_source_is_a_type_error_that_lists_the_forms(source):
    with pytest.raises(TypeError, match="expected a path, bytes"):
        read_prefix(source, 0.0)


def test_a_text_file_is_a_type_error(path):
    with open(path, encoding="latin-1") as file, pytest.raises(TypeError, match="binary mode"):
        read_prefix(file, 0.5)


def test_a_missing_file_is_named(backend, tmp_path):
    with pytest.raises(DecodeError, match=r"gone\.flac: no such audio file") as caught:
        read_prefix(tmp_path / "gone.flac", 0.5, backend=backend)
    assert isinstance(caught.value, FileNotFoundError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("address", ["memory://prefix/gone.flac", "file:///no/such/gone.flac"])
def test_a_missing_address_is_named(address):
    with pytest.raises(DecodeError, match=r"gone\.flac: no such audio file"):
        read_prefix(address, 0.5)


def test_an_empty_file_is_said_to_be_empty(backend, tmp_path):
    (tmp_path / "empty.flac").write_bytes(b"")
    for source in (tmp_path / "empty.flac", b"", {"bytes": b"", "path": "x.flac"}, io.BytesIO(b"")):
        with pytest.raises(DecodeError, match=r"is empty \(0 bytes\)"):
            read_prefix(source, 0.5, backend=backend)


@pytest.mark.parametrize(
    "junk", [b"\0" * 500, b"hello " * 100, b"fLaC", b"RIFF", b"version https://git-lfs.github.com/spec/v1\n"]
)
def test_what_is_no_audio_is_refused(backend, junk, tmp_path):
    (tmp_path / "junk.flac").write_bytes(junk)
    for source in (junk, tmp_path / "junk.flac"):
        with pytest.raises(DecodeError, match="is not FLAC or WAV audio"):
            read_prefix(source, 0.5, backend=backend)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(DecodeError, match="is not FLAC or WAV audio"):
        read_prefix(tmp_path, 0.5)


@pytest.mark.parametrize("container", ["MP3", "OGG"])
def test_a_preview_is_refused_in_favour_of_the_noisy_channels(backend, encode, samples, container):
    subtype = {"MP3": "MPEG_LAYER_III", "OGG": "VORBIS"}[container]
    preview = encode(samples, RATE, container=container, subtype=subtype)
    with pytest.raises(DecodeError, match="noisy FLAC channels"):
        read_prefix(preview, 0.5, backend=backend)


def test_a_preview_in_a_plain_torchcodec_decoder_is_refused_too(torchcodec, encode, samples):
    preview = encode(samples, RATE, container="MP3", subtype="MPEG_LAYER_III")
    with pytest.raises(DecodeError, match="noisy FLAC channels"):
        read_prefix(torchcodec.AudioDecoder(preview), 0.5)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_flac_cut_in_the_middle_is_an_error_where_samples_are_missing(backend, data, share):
    with pytest.raises(DecodeError, match=r"damaged or cut short|is not FLAC or WAV audio"):
        read_prefix(data[: int(len(data) * share)], 1.0, backend=backend)


def test_a_wav_cut_in_the_middle_is_an_error_where_samples_are_missing(backend, encode, samples):
    wav = encode(samples, RATE, container="WAV")
    with pytest.raises(ValueError, match=r"past the end of .* it lasts 0\.4"):
        read_prefix(wav[: len(wav) // 2], 1.0, backend=backend)


@pytest.mark.parametrize("window_s", [None, 0.2])
def test_no_byte_that_is_lost_or_changed_gives_wrong_samples(encode, noise, as_float, window_s):
    samples = noise(8 * RATE)
    data = encode(samples, RATE)
    generator = np.random.default_rng(0)
    for _ in range(150):
        broken = bytearray(data)
        if generator.random() < 0.5:
            broken = broken[: generator.integers(86, len(data))]
        else:
            broken[generator.integers(86, len(data))] ^= generator.integers(1, 256)
        at_s = generator.uniform(0.1, 8)
        try:
            prefix, _ = read_prefix(bytes(broken), at_s, window_s=window_s)
        except DecodeError:
            continue
        stop = int(at_s * RATE)
        np.testing.assert_array_equal(prefix, as_float(samples[:stop])[-len(prefix) :])


def test_a_flac_without_a_length_is_refused_by_name(data):
    unknown = bytearray(data)
    unknown[21] &= 0xF0  # the 36 bits of "total samples" in STREAMINFO
    unknown[22:26] = bytes(4)
    with pytest.raises(DecodeError, match="leaves the number of samples open"):
        read_prefix(bytes(unknown), 0.5)


def test_no_file_stays_open_after_a_prefix_or_an_error(path, tmp_path, data):
    (tmp_path / "cut.flac").write_bytes(data[:3000])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        read_prefix(path, 0.5)
        with pytest.raises(DecodeError):
            read_prefix(tmp_path / "cut.flac", 1.0)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_torchcodec_that_cannot_be_imported_is_one_error_that_names_ffmpeg(monkeypatch, tmp_path, data):
    (tmp_path / "torchcodec").mkdir()
    (tmp_path / "torchcodec" / "__init__.py").write_text("raise RuntimeError('Could not load libtorchcodec')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchcodec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match=r"torch.*FFmpeg.*Could not load libtorchcodec"):
        read_prefix(data, 0.5, backend="torchcodec")
    assert len(read_prefix(data, 0.5)[0]) == 8000


def test_a_saved_table_takes_its_audio_along(table, path, tmp_path, samples, as_float):
    import datasets

    table([path], turn_key=["a"]).save_to_disk(tmp_path / "saved")
    path.unlink()
    prefix, _ = read_prefix(datasets.load_from_disk(tmp_path / "saved")[0]["audio"], 0.5)
    np.testing.assert_array_equal(prefix, as_float(samples[:8000]))
