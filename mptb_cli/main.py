"""The `mptb` command: every command parses, calls and prints; imports wait until they are needed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="mptb",
    help="Load, hear and score MultiPartyTurnBench and turn-end-detection.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Root = Annotated[str, typer.Option(help="Folder of the corpus, in the layout of its card.")]
Protocol = Annotated[str, typer.Option(help="mptb (the card's section 5) or turnbench.")]
By = Annotated[
    list[str] | None, typer.Option(help="Break down by num_speakers or conversation_type; repeat.")
]
Resamples = Annotated[int, typer.Option(help="Bootstrap replicates for intervals; 0 for none.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    detector: Annotated[str, typer.Option(help="What listens.")] = "energy",
) -> None:
    """Hear, choose on dev, score on test: the main job on the embedded sample, offline."""
    from .demo import run_demo

    run_demo(out, detector)


@app.command()
def verify(root: Root) -> None:
    """Check a corpus against itself: files, checksums, channels, anchors, joins."""
    from mptb_dataset import verify as check

    from .render import console, errors, progress

    with progress("verifying") as report:
        found = check(root, progress=report)
    console.print(", ".join(f"{number} {what}" for what, number in found.checked.items()), highlight=False)
    for problem in found.problems:
        errors.print(f"mptb: {problem}", highlight=False, markup=False, soft_wrap=True)
    if not found.ok:
        raise typer.Exit(2)
    console.print("nothing is wrong")


@app.command()
def run(
    detector: Annotated[str, typer.Option(help="energy, another registered name, or module:object.")],
    root: Root,
    split: Annotated[str, typer.Option(help="dev or test.")],
    out: Annotated[Path, typer.Option(help="Score file to write (.npz).")],
    hop_s: Annotated[float, typer.Option(help="Seconds of audio between two scores.")] = 0.08,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core by default.")] = None,
) -> None:
    """Let a detector hear every conversation of a split. An interrupted run goes on where it was."""
    from .gold import read_split
    from .render import console, progress
    from .running import run_split

    gold = read_split(root, split)
    with progress(f"{detector} hears {split}") as report:
        scores, timer = run_split(gold, detector, out, hop_s=hop_s, jobs=jobs, progress=report)
    speed = f", {timer.real_time_factor:.4f} s of work per second heard" if timer.audio_s else ""
    console.print(
        f"{out}: {scores.detector} on {len(gold.conversations)} conversations, "
        f"{len(gold.references)} channels at {scores.frame_rate:g} Hz{speed}",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def select(
    root: Root,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    split: Annotated[str, typer.Option(help="Where thresholds are chosen.")] = "dev",
    scores: Annotated[Path | None, typer.Option(help="Score file of `mptb run`.")] = None,
    submission: Annotated[
        list[str] | None, typer.Option(help="THRESHOLD=FILE, one or more: 0.5=a.json 0.7=b.json.")
    ] = None,
    protocol: Protocol = "mptb",
    budget: Annotated[float, typer.Option(help="Highest FPR allowed.")] = 0.10,
    out: Annotated[Path | None, typer.Option(help="Write the frozen thresholds here (JSON).")] = None,
) -> None:
    """Choose each track's operating point: the highest recall within the FPR budget."""
    from .selecting import select_from_scores, select_from_submissions, show, write_thresholds

    named = [*(submission or []), *(more or [])]
    if (scores is None) == (not named):
        raise typer.BadParameter("give either --scores FILE or --submission THRESHOLD=FILE ...")
    if scores is not None:
        chosen = select_from_scores(root, split, scores, protocol=protocol, budget=budget)
    else:
        chosen = select_from_submissions(root, split, named, protocol=protocol, budget=budget)
    show(chosen)
    if out is not None:
        write_thresholds(out, chosen)


@app.command()
def score(
    root: Root,
    split: Annotated[str, typer.Option(help="dev or test.")] = "test",
    submission: Annotated[Path | None, typer.Option(help="Submission (JSON).")] = None,
    scores: Annotated[Path | None, typer.Option(help="Score file, with --thresholds.")] = None,
    thresholds: Annotated[Path | None, typer.Option(help="What `mptb select --out` wrote.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="mptb or turnbench; with --thresholds, theirs.")
    ] = None,
    by: By = None,
    n_resamples: Resamples = 0,
    confidence_level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    official: Annotated[bool, typer.Option(help="Refuse a split that is not complete.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the result here (JSON).")] = None,
) -> None:
    """Score a submission, or scores at frozen thresholds."""
    from .scoring import score_command

    if (submission is None) == (scores is None) or (scores is None) != (thresholds is None):
        raise typer.BadParameter("give either --submission FILE, or --scores FILE with --thresholds FILE")
    score_command(
        root,
        split,
        submission=submission,
        scores_path=scores,
        thresholds_path=thresholds,
        protocol=protocol,
        by=by or [],
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        official=official,
        out=out,
    )


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"mptb: note: {message}", file=sys.stderr)


def main() -> None:
    """Run the command; a user's mistake is one message on standard error and exit code 2."""
    warnings.showwarning = _show_warning
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        print(f"mptb: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("mptb: interrupted", file=sys.stderr)
        sys.exit(130)
