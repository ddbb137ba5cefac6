"""What hearing a conversation costs: the detector's own work, and the harness around it.

The harness is everything else: decoding the files, checking, cutting into hops, resampling, collecting
scores. Its share is relative to the detector's own work. Times are processor time, one core's, and of each
part the best round of the same run counts.
Targets: the harness adds at most 5 % to `smart-turn`; `energy` runs at 200x real time or more. The
conversation is the sample's with four channels at 24 kHz.
"""

from __future__ import annotations

import json
import time

import soundfile

from mptb_dataset import sample_dir
from turn_end_prefix.detectors import MissingExtraError, load_detector
from turn_end_prefix.replay import Detector, ReplayTimer, replay

DETECTORS = {"energy": 7, "silence": 7, "silero": 5, "smart-turn": 5}
"""Detectors measured, each with its rounds."""

N_CHANNELS = 4
LEAST_ENERGY_SPEED = 200
MOST_HARNESS_SHARE = 0.05


def paths_of_four_channels() -> list[str]:
    root = sample_dir("mptb")
    for split in ("dev", "test"):
        for line in (root / split / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
            paths = json.loads(line)["audio_noisy"].values()
            if len(paths) == N_CHANNELS:
                return [str(root / path) for path in paths]
    raise LookupError(f"the sample has no conversation with {N_CHANNELS} channels")


def one_round(paths: list[str], detector: Detector) -> tuple[float, ReplayTimer]:
    began = time.process_time()
    channels = {path: soundfile.read(path, dtype="float32") for path in paths}
    decoding_s = time.process_time() - began
    timer = ReplayTimer(clock=time.process_time)
    replay(channels, detector, timer=timer)
    return decoding_s, timer


def main() -> None:
    paths = paths_of_four_channels()
    print(f"{'detector':<12}{'x real time':>12}{'detector':>11}{'replay':>10}{'decoding':>10}{'harness':>10}")
    for name, rounds in DETECTORS.items():
        try:
            detector = load_detector(name)
        except MissingExtraError as error:
            print(f"{name:<12}not measured: {error}")
            continue
        runs = [one_round(paths, detector) for _ in range(rounds)]
        decoding_s = min(decoding_s for decoding_s, _ in runs)
        detector_s = min(timer.detector_s for _, timer in runs)
        replay_s = min(timer.total_s - timer.detector_s for _, timer in runs)
        share = (replay_s + decoding_s) / detector_s
        speed = runs[0][1].audio_s / (detector_s + replay_s + decoding_s)
        verdict = ""
        if name == "energy":
            verdict = (
                f"   target >= {LEAST_ENERGY_SPEED}x: {'met' if speed >= LEAST_ENERGY_SPEED else 'MISSED'}"
            )
        if name == "smart-turn":
            met = share <= MOST_HARNESS_SHARE
            verdict = f"   target <= {MOST_HARNESS_SHARE:.0%}: {'met' if met else 'MISSED'}"
        print(
            f"{name:<12}{speed:>11.0f}x{detector_s * 1e3:>8.1f} ms{replay_s * 1e3:>7.1f} ms"
            f"{decoding_s * 1e3:>7.1f} ms{share:>10.1%}{verdict}"
        )


if __name__ == "__main__":
    main()
