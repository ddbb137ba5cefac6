"""The exact sweep of a dev-sized corpus beside scoring anew at every threshold, and scoring one submission.

Both sides run in this process on the same input. The slow side is timed on a sample of thresholds, spread
over the whole range, and extrapolated to all of them.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

from mptb_metric import score_floor, sweep
from mptb_metric.matching import match
from mptb_metric.sweep import channel_counts

FRAME_RATE = 25.0
CHANNELS, SECONDS = 168, 1.42 * 3600 / 48  # 48 conversations of 1.42 h in all

# Mean numbers of positives, negative spans and excluded spans of a channel, from the card's totals.
PER_CHANNEL = {"eot": (4.07, 0.29, 0.44), "int": (0.44, 1.76, 0.72)}


def spans(rng, mean, seconds, length_s):
    starts = rng.uniform(0, seconds - length_s, rng.poisson(mean)).round(3)
    return [(start, start + length_s) for start in starts.tolist()]


def dev_corpus(smooth, seed=0):
    """Gold as dense as dev's EOT track (706 positives, 55 negatives), float32 scores in (0, 1)."""
    rng = np.random.default_rng(seed)
    n_frames = round(SECONDS * FRAME_RATE)
    corpus = []
    for _ in range(CHANNELS):
        noise = rng.normal(size=n_frames)
        walk = np.convolve(noise, np.ones(25) / 5, "same") if smooth else noise
        corpus.append(
            {
                "positives": rng.uniform(0, SECONDS, rng.poisson(706 / CHANNELS)).round(3),
                "negative_spans": spans(rng, 55 / CHANNELS, SECONDS, 0.8),
                "excluded_spans": spans(rng, 0.5, SECONDS, 0.5),
                "scores": (1 / (1 + np.exp(-walk))).astype(np.float32),
            }
        )
    return corpus


def submission(seed=0):
    """240 conversations, 840 channels, gold as dense as the whole corpus, a decision every 8 s or so."""
    rng = np.random.default_rng(seed)
    references, rows = [], []
    for c in range(240):
        for s in range(2 + c % 4):
            ids = {"conversation_id": f"test_{c:05}", "speaker": f"speaker_{s + 1}"}
            gold = {}
            for track, positives, negatives, excluded in (
                ("eot", 4.07, 0.29, 0.44),
                ("int", 0.44, 1.76, 0.72),
            ):
                gold[track] = {
                    "positives": rng.uniform(0, 100, rng.poisson(positives)).round(3).tolist(),
                    "negative_spans": spans(rng, negatives, 100, 0.8),
                    "excluded_spans": spans(rng, excluded, 100, 0.5),
                }
            references.append({**ids, "duration_s": 100.0, "num_speakers": 2 + c % 4, **gold})
            decisions = [np.unique(rng.uniform(0, 100, 12).round(3)).tolist() for _ in range(2)]
            rows.append({**ids, "eot": decisions[0], "int": decisions[1]})
    return rows, references


def best_of(run, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return min(times), result


def sweep_against_anew(repeats, sample):
    print(
        f"exact sweep, {CHANNELS} channels of {SECONDS:.0f} s at {FRAME_RATE:g} Hz, float32 scores, one core"
    )
    for smooth in (False, True):
        corpus = dev_corpus(smooth)
        for protocol, refractory_s in (("mptb", 2.0), ("turnbench", 2.0), ("mptb", 0.0)):
            options = {"protocol": protocol, "refractory_s": refractory_s}
            fast, found = best_of(lambda c=corpus, o=options: sweep(c, FRAME_RATE, **o), repeats)
            chosen = np.linspace(0, len(found) - 1, sample).astype(int)

            def anew(c=corpus, o=options, thetas=found.theta[chosen]):
                return [sum(channel_counts(c, FRAME_RATE, float(theta), **o)) for theta in thetas]

            slow, counts = best_of(anew, 1)
            for i, count in zip(chosen, counts, strict=True):
                assert (found.tp[i], found.fp[i]) == (count.tp, count.fp)
            every = slow / sample * len(found)
            kind = "smooth" if smooth else "white "
            print(
                f"  {kind} scores, {protocol:9} refractory {refractory_s:g} s: {len(found):,} thresholds in "
                f"{fast:.2f} s; anew at each {every:,.0f} s (from {sample}): {every / fast:,.0f}x"
            )


def one_submission(repeats):
    rows, references = submission()
    tracks = [(row[t], gold[t]) for row, gold in zip(rows, references, strict=True) for t in ("eot", "int")]

    def matching():
        return [
            match(gold["positives"], gold["negative_spans"], gold["excluded_spans"], times)
            for times, gold in tracks
        ]

    print(f"one submission of 240 conversations, {len(rows)} channels, two tracks")
    print(f"  matching alone {best_of(matching, repeats)[0] * 1000:.0f} ms")
    plain, _ = best_of(lambda: score_floor(rows, references), repeats)
    print(f"  checked, matched and pooled (score_floor) {plain * 1000:.0f} ms")
    grouped, _ = best_of(lambda: score_floor(rows, references, by="num_speakers", n_resamples=9999), repeats)
    print(f"  with a breakdown and 9,999 replicates each {grouped * 1000:.0f} ms")


def imports(repeats):
    def run(code):
        return best_of(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats)[0]

    bare, numpy, ours = (run(code) for code in ("pass", "import numpy", "import mptb_metric"))
    print(f"import mptb_metric {(ours - bare) * 1000:.0f} ms, of which numpy {(numpy - bare) * 1000:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sample", type=int, default=12, help="thresholds that are scored anew")
    arguments = parser.parse_args()
    sweep_against_anew(arguments.repeats, arguments.sample)
    one_submission(arguments.repeats)
    imports(arguments.repeats)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
