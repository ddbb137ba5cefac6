"""The `mptb` command: every command parses, calls and prints; imports wait until they are needed."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from .hub_commands import export, publish

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
By = Annotated[list[str] | None, typer.Option(help="Break down by a column, such as num_speakers; repeat.")]
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
    split: Annotated[str, typer.Option(help="dev or test; train, validation or test.")],
    out: Annotated[Path, typer.Option(help="Score file (.npz); predictions (.json) for turn-end-detection.")],
    hop_s: Annotated[
        float, typer.Option(help="Seconds of audio between two scores.", min=0.001, max=10)
    ] = 0.08,
    theta: Annotated[
        float | None, typer.Option(help="turn-end-detection: hear whole turns, fire above this score.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core by default.", min=1)] = None,
) -> None:
    """Let a detector hear a split: every conversation; every prefix, or with --theta every turn.

    An interrupted run goes on where it was.
    """
    from .render import console, progress
    from .turn_end import is_turn_end, run_turn_end

    with progress(f"{detector} hears {split}") as report:
        if is_turn_end(root):
            number, timer = run_turn_end(
                root, split, detector, out, theta=theta, hop_s=hop_s, jobs=jobs, progress=report
            )
            told = f"{detector}, {number} {'observations' if theta is None else 'turns'}"
        elif theta is not None:
            raise typer.BadParameter("--theta is for turn-end-detection; for MPTB, choose with `mptb select`")
        else:
            from .gold import read_split
            from .running import run_split

            gold = read_split(root, split)
            scores, timer = run_split(gold, detector, out, hop_s=hop_s, jobs=jobs, progress=report)
            told = (
                f"{scores.detector}, {len(gold.conversations)} conversations, {len(gold.references)} channels"
            )
    speed = f", {timer.real_time_factor:.4f} s of work per second heard" if timer.audio_s else ""
    console.print(f"{out}: {told}{speed}", highlight=False, soft_wrap=True)


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
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    submission: Annotated[Path | None, typer.Option(help="Submission (JSON).")] = None,
    scores: Annotated[Path | None, typer.Option(help="Score file, with --thresholds.")] = None,
    thresholds: Annotated[Path | None, typer.Option(help="What `mptb select --out` wrote.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="mptb or turnbench; with --thresholds, theirs.")
    ] = None,
    theta: Annotated[str | None, typer.Option(help="Threshold of turn-end scores, or select.")] = None,
    budget: Annotated[float, typer.Option(help="Highest FPR allowed by --theta select.")] = 0.10,
    by: By = None,
    n_resamples: Resamples = 0,
    confidence_level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    official: Annotated[bool, typer.Option(help="Refuse a split that is not complete.")] = False,
    write_submission: Annotated[
        Path | None, typer.Option(help="With --scores: write the decisions as a submission.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result here (JSON).")] = None,
) -> None:
    """Score a submission, scores at frozen thresholds, or predictions for turn-end-detection."""
    from .scoring import score_command
    from .turn_end import is_turn_end

    if (submission is None) == (scores is None) or (scores is None) != (thresholds is None):
        raise typer.BadParameter("give either --submission FILE, or --scores FILE with --thresholds FILE")
    if write_submission is not None and scores is None:
        raise typer.BadParameter("--write-submission goes with --scores: a submission is there already")
    if theta is not None and not is_turn_end(root):
        raise typer.BadParameter("--theta is for turn-end-detection; for MPTB, choose with `mptb select`")
    if submission is not None and is_turn_end(root):
        from mptb_metric import to_json

        from .files import write_json
        from .turn_end import score_turn_end

        result = score_turn_end(
            root,
            split,
            submission,
            theta=_theta(theta),
            budget=budget,
            by=by or [],
            n_resamples=n_resamples,
            confidence_level=confidence_level,
        )
        if out is not None:
            write_json(out, {"split": split, **to_json(result)})
        return
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
        submission_out=write_submission,
        out=out,
    )


@app.command()
def compare(
    systems: Annotated[list[str], typer.Argument(help="Two or more files, or NAME=FILE.")],
    root: Root,
    split: Annotated[str, typer.Option(help="The split that the files are about.")] = "test",
    protocol: Protocol = "mptb",
    theta: Annotated[float | None, typer.Option(help="Threshold of turn-end scores.")] = None,
    by: By = None,
    published: Annotated[bool, typer.Option(help="Endpoints: beside the published services too.")] = False,
    stratify: Annotated[str | None, typer.Option(help="Draw units within the values of this column.")] = None,
    n_resamples: Annotated[int, typer.Option(help="Bootstrap replicates.")] = 9999,
    confidence_level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="Write the result here (JSON).")] = None,
) -> None:
    """Compare systems on the same units: figures, every pair's difference, Holm-adjusted p-values."""
    from mptb_metric import to_json

    from .comparing import compare_files, name_systems, show
    from .files import write_json

    result = compare_files(
        root,
        split,
        name_systems(systems, least=1 if published else 2),
        protocol=protocol,
        theta=theta,
        by=by or [],
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        stratify=stratify,
        published=published,
    )
    show(result)
    if out is not None:
        write_json(out, {"split": split, **to_json(result)})


@app.command()
def audit(
    root: Root,
    split: Annotated[str, typer.Option(help="dev or test.")] = "dev",
    detector: Annotated[str | None, typer.Option(help="A registered name, or module:object.")] = None,
    command: Annotated[
        str | None, typer.Option(help="A program that reads {root} and writes a submission to {out}.")
    ] = None,
    probes: Annotated[int, typer.Option(help="Probe times.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the probe times.")] = 0,
    tolerance: Annotated[float, typer.Option(help="Largest change of a score that passes.")] = 0.0,
    lookahead_s: Annotated[
        float, typer.Option(help="Audio after its decisions that a command may use; covers rounding.")
    ] = 0.005,
    conversations: Annotated[int, typer.Option(help="Most conversations to use.")] = 8,
    out: Annotated[Path | None, typer.Option(help="Write the record here (JSON).")] = None,
    submission: Annotated[Path | None, typer.Option(help="Put the record into this submission.")] = None,
) -> None:
    """Does the past change when the future does? Exit code 1 if it does."""
    from .auditing import audit_detector, audit_program, keep_record

    if (detector is None) == (command is None):
        raise typer.BadParameter("give either --detector NAME or --command '... {root} ... {out} ...'")
    if detector is not None:
        record = audit_detector(
            detector, root, split, probes=probes, seed=seed, tolerance=tolerance, most=conversations
        )
    elif command is not None:
        record = audit_program(
            command,
            root,
            split,
            probes=probes,
            seed=seed,
            lookahead_s=lookahead_s,
            most=conversations,
            submission=submission,
        )
    keep_record(record, out=out, submission=submission)
    if not record["ok"]:
        raise typer.Exit(1)


def _theta(text: str | None) -> float | str | None:
    if text is None or text == "select":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--theta {text}: expected a number, or select") from None


app.command()(export)
app.command()(publish)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"mptb: note: {message}", file=sys.stderr)


def main() -> None:
    """Run the command; a user's mistake is one message on standard error and exit code 2."""
    warnings.showwarning = _show_warning
    sys.path.append(os.getcwd())  # where a user's own detector lies
    try:
        app()
    except (ValueError, OSError, ImportError, LookupError) as error:
        if type(error) in (KeyError, IndexError):  # a mistake of ours, which nobody could read
            raise
        print(f"mptb: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("mptb: interrupted", file=sys.stderr)
        sys.exit(130)
