"""Audio made in the test, tables of it, and the one place that says why torchcodec tests are skipped."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

AUDIO_TYPE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def why_no_torchcodec() -> str | None:
    try:
        import torchcodec.decoders  # noqa: F401
    except Exception as error:  # a broken install raises whatever its loader raises
        first_line = (str(error).splitlines() or [""])[0]
        return f"torchcodec cannot be imported (is FFmpeg installed?): {type(error).__name__}: {first_line}"
    return None


@pytest.fixture(scope="session")
def torchcodec() -> Any:
    """torchcodec's decoders, or a skip that says what is missing."""
    reason = why_no_torchcodec()
    if reason:
        pytest.skip(reason)
    import torchcodec.decoders

    return torchcodec.decoders


@pytest.fixture(params=["soundfile", "torchcodec"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn; torchcodec only where it works."""
    if request.param == "torchcodec":
        request.getfixturevalue("torchcodec")
    return request.param


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "hf-datasets")


@pytest.fixture(scope="session")
def encode() -> Callable[..., bytes]:
    """`encode(samples [n] or [n, channels], rate)` gives the bytes of a FLAC file, or of another kind."""

    def to_bytes(
        samples: Any, sampling_rate: int, *, container: str = "FLAC", subtype: str = "PCM_16"
    ) -> bytes:
        buffer = io.BytesIO()
        sf.write(buffer, samples, sampling_rate, format=container, subtype=subtype)
        return buffer.getvalue()

    return to_bytes


@pytest.fixture(scope="session")
def ramp() -> Callable[..., np.ndarray]:
    """`ramp(n)` is int16 [n] whose sample at index `i` is `i` (from -32768 on, wrapping)."""

    def make(n: int, first: int = 0) -> np.ndarray:
        return ((np.arange(n) + first) % 65536 - 32768).astype(np.int16)

    return make


@pytest.fixture(scope="session")
def noise() -> Callable[..., np.ndarray]:
    """`noise(n, seed)` is int16 [n] at half of full scale."""

    def make(n: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).integers(-16384, 16384, n).astype(np.int16)

    return make


@pytest.fixture(scope="session")
def as_float() -> Callable[[np.ndarray], np.ndarray]:
    """int16 samples as the float32 that they are, by arithmetic and not by a decoder."""
    return lambda samples: samples.astype(np.float32) / np.float32(32768)


@pytest.fixture(scope="session")
def table() -> Callable[..., Any]:
    """`table(audio=[...], **columns)` is a Dataset; audio values are bytes, paths or {"bytes", "path"}."""

    def make(
        audio: Sequence[Any] | None = None,
        *,
        declared_rate: int | None = None,
        decode: bool = False,
        **columns: Any,
    ) -> Any:
        import datasets

        made = {name: pa.array(values) for name, values in columns.items()}
        features = datasets.Features.from_arrow_schema(pa.table(made).schema)
        if audio is not None:
            cells = [
                value
                if isinstance(value, dict) or value is None
                else {"bytes": value, "path": None}
                if isinstance(value, bytes)
                else {"bytes": None, "path": str(value)}
                for value in audio
            ]
            made["audio"] = pa.array(cells, type=AUDIO_TYPE)
            features["audio"] = datasets.Audio(sampling_rate=declared_rate, decode=decode)
        return datasets.Dataset(
            datasets.table.InMemoryTable(pa.table(made)), info=datasets.DatasetInfo(features=features)
        )

    return make


@pytest.fixture
def frames_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every libsndfile read, by the number of frames that it decoded."""
    counts: list[int] = []
    read = sf.SoundFile.read

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        samples = read(self, *args, **kwargs)
        counts.append(len(samples))
        return samples

    monkeypatch.setattr(sf.SoundFile, "read", counting)
    return counts


@pytest.fixture
def files_opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with every file that libsndfile opens."""
    opened: list[Any] = []
    open_file = sf.SoundFile.__init__

    def counting(self: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        opened.append(file)
        open_file(self, file, *args, **kwargs)

    monkeypatch.setattr(sf.SoundFile, "__init__", counting)
    return opened
