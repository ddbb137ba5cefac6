"""The commands that make something for the Hub: `mptb export` and `mptb publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OFFICIAL_CONVERSATIONS = 192
"""Of the published test split (card, section 2)."""


def export(
    out: Annotated[Path, typer.Option(help="Folder to make; it must not be there, or be an earlier export.")],
    root: Annotated[
        str | None, typer.Option(help="Folder of the corpus; the published one by default.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(help="Table; repeat. All of the folder by default.")
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Split; repeat. All by default.")] = None,
    audio: Annotated[str, typer.Option(help="noisy, clean, both or none.")] = "noisy",
    delay_s: Annotated[float, typer.Option(help="Of decision points.")] = 0.0,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier export.")] = False,
    push: Annotated[
        str | None, typer.Option(help="Also upload to this dataset repository, org/name.")
    ] = None,
    private: Annotated[bool, typer.Option(help="Make a new repository private.")] = False,
    create_pr: Annotated[bool, typer.Option(help="Open a pull request instead of committing.")] = False,
) -> None:
    """Write tables as Parquet with a card, so that plain `datasets` loads them without this package."""
    from mptb_dataset.export import export as write
    from mptb_dataset.export import push as upload

    from .render import console, counting

    with counting("exporting") as report:
        written = write(
            root,
            out,
            configs=config,
            splits=split,
            audio=audio,
            delay_s=delay_s,
            overwrite=overwrite,
            progress=lambda table, part, rows: report(f"{table}, {part}", rows),
        )
    for table, rows in written.rows.items():
        told = ", ".join(f"{number} rows of {name}" for name, number in rows.items())
        console.print(f"{table}: {told}", highlight=False)
    console.print(f"{out}: {written.n_bytes / 1e6:.1f} MB in {len(written.files)} files", highlight=False)
    if push is not None:
        address = upload(out, push, private=private or None, create_pr=create_pr)
        console.print(f"pushed: {address}", highlight=False, soft_wrap=True)


def publish(
    result: Annotated[Path, typer.Option(help="What `mptb score --out` wrote.")],
    model: Annotated[str, typer.Option(help="The model's repository, org/name.")],
    folder: Annotated[Path, typer.Option(help="Write .eval_results/mptb.yaml below it.")] = Path(),
    push: Annotated[bool, typer.Option(help="Open a pull request with the file.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only show it.")] = False,
    model_index: Annotated[
        bool, typer.Option(help="Also add the figures to the card's model-index.")
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Commit of the corpus that was scored.")] = None,
    source_url: Annotated[str | None, typer.Option(help="Where the result comes from.")] = None,
    source_name: Annotated[str | None, typer.Option(help="What to call that.")] = None,
    notes: Annotated[str | None, typer.Option(help="More words about the system.")] = None,
) -> None:
    """Write a result as the Hub shows it on a model's page, and offer it to the model."""
    from mptb_dataset.eval_results import Source
    from mptb_dataset.publish import publish as write
    from mptb_dataset.publish import read_result

    from .render import console, errors

    if source_name is not None and source_url is None:
        raise typer.BadParameter(
            "--source-name needs --source-url: the Hub refuses a source without an address"
        )
    done = write(
        result,
        model,
        folder=folder,
        push=push,
        dry_run=dry_run,
        model_index=model_index,
        revision=revision,
        source=Source(source_url, source_name) if source_url else None,
        notes=notes,
    )
    scored = read_result(result).get("n_conversations")
    if scored != OFFICIAL_CONVERSATIONS:
        errors.print(
            f"mptb: note: this result covers {scored} conversations; the published test split has "
            f"{OFFICIAL_CONVERSATIONS}",
            highlight=False,
            soft_wrap=True,
        )
    console.print(done.text, markup=False, highlight=False, end="", soft_wrap=True)
    if done.path is not None:
        console.print(f"written: {done.path}", highlight=False, soft_wrap=True)
    if push:
        told = done.pull_request or "the model has this file already"
        console.print(f"pull request: {told}", highlight=False, soft_wrap=True)
