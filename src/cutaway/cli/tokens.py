"""`cutaway tokens`: the pieces in which a model reads a text, what a language costs in them, and a vocabulary of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from cutaway.cli import options, output, tokens_cost, tokens_train, tokens_view
from cutaway.cli.progress import downloads
from cutaway.cli.reading import read_text, repaired
from cutaway.errors import CutawayError

GIVEN = 'The text, or "-" for standard input; with --cost or --train files of texts.'

Given = Annotated[list[str] | None, typer.Argument(metavar="TEXT|FILE", show_default=False, help=GIVEN)]
Models = Annotated[str | None, typer.Option("--model", metavar="A,B,…", help="Known names, folders, .gguf files. Default: nano-gpt2.")]
Steps = Annotated[str | None, typer.Option("--steps", metavar="WORD", help="Show a word of the text merge by merge.")]
Splitter = Annotated[
    str | None, typer.Option("--splitter", metavar="HOW", help="GPT-1's cleaning: plain, spacy (with ftfy: the publisher's) or both.")
]
All = Annotated[bool, typer.Option("--all", help=f"Print every token or merge, not the first {tokens_view.ROWS} alone.")]
Cost = Annotated[bool, typer.Option("--cost", help="What a language costs. FILE…: eng.txt, por_PT.txt …, a folder, or udhr.")]
Reference = Annotated[str, typer.Option("--reference", metavar="LANG", help="With --cost: the language that counts as 1.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="With --cost: of the intervals' resamples.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="With --cost: write the chart as a page.")]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="With --cost: write the chart as a picture.")]
Train = Annotated[bool, typer.Option("--train", help="Learn a vocabulary from FILE… and write it to --out DIR.")]
Vocab = Annotated[int | None, typer.Option("--vocab", metavar="N", help="With --train: how many pieces, control tokens aside.")]
Kind = Annotated[str, typer.Option("--kind", help="With --train: gpt2, roberta or gpt1.")]
Force = Annotated[bool, typer.Option("--force", help="With --train: write over a vocabulary that is in DIR.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="PLACE", help="Write the JSON to a file instead; with --train the folder.")]


def command(
    ctx: typer.Context,
    given: Given = None,
    file: options.File = None,
    model: Models = None,
    steps: Steps = None,
    splitter: Splitter = None,
    every: All = False,
    cost: Cost = False,
    reference: Reference = "eng",
    seed: Seed = 0,
    html: Html = None,
    svg: Svg = None,
    train: Train = False,
    vocab: Vocab = None,
    kind: Kind = "gpt2",
    force: Force = False,
    offline: options.Offline = False,
    json: options.Json = False,
    out: Out = None,
) -> None:
    """The pieces in which a model reads a text, under one or several tokenizers. Needs no weights.

    \b
    Examples:
      cutaway tokens "The trophy didn't fit." --model nano-gpt1,nano-gpt2,nano-roberta
      cutaway tokens "It was unbelievable." --steps unbelievable
      cutaway tokens --file "my book.txt" --model gpt1 --splitter both
      cutaway tokens --cost eng.txt por_PT.txt por_BR.txt --model gpt2 --html cost.html
      cutaway tokens --train "my book.txt" --vocab 1000 --out "my vocabulary"
    """
    check(ctx, cost, train)
    texts, names = given or [], models(model)
    if train:
        tokens_train.run(texts, vocab, kind, out, force=force, json=json, every=every)
    elif cost:
        tokens_cost.run(texts, names, splitter, reference, seed, offline=offline, json=json, out=out, charts=(html, svg))
    else:
        pieces(texts, file, names, steps, splitter, offline, every, json, out)


# The options that belong to one or two of the three ways to use the command; the others go with all.
BELONG = {
    "file": ("text",),
    "steps": ("text",),
    "model": ("text", "cost"),
    "splitter": ("text", "cost"),
    "offline": ("text", "cost"),
    "every": ("text", "train"),
    "reference": ("cost",),
    "seed": ("cost",),
    "html": ("cost",),
    "svg": ("cost",),
    "vocab": ("train",),
    "kind": ("train",),
    "force": ("train",),
}
WAYS = {"text": "a text", "cost": "--cost", "train": "--train"}


def check(ctx: typer.Context, cost: bool, train: bool) -> None:
    """Raises CutawayError for options that do not go together."""
    if cost and train:
        raise CutawayError("--cost and --train were both given", expected="one of the two")
    way = "cost" if cost else "train" if train else "text"
    for name, ways in BELONG.items():
        source = ctx.get_parameter_source(name)
        if way not in ways and source is not None and source.name == "COMMANDLINE":
            option = "--all" if name == "every" else f"--{name}"
            then = "name the files without --file" if name == "file" else ""
            raise CutawayError(f"{option} does not go with {WAYS[way]}", expected=" or ".join(WAYS[one] for one in ways), then=then)


def models(given: str | None) -> list[str]:
    names = [name.strip() for name in ("nano-gpt2" if given is None else given).split(",")]
    if not all(names):
        raise CutawayError(f"--model is {given!r}", expected="names with commas between them, gpt1,gpt2 for instance")
    return list(dict.fromkeys(names))


def pieces(
    texts: list[str],
    file: Path | None,
    names: list[str],
    steps: str | None,
    splitter: str | None,
    offline: bool,
    every: bool,
    json: bool,
    out: Path | None,
) -> None:
    """The text's tokens, printed; without a text, those of the word that is to be shown merge by merge."""
    from cutaway.tokens import tokens

    if len(texts) > 1:
        given = f"{len(texts)} texts were given"
        raise CutawayError(given, expected="one, in double quotes if it has blanks", then="for files add --cost or --train")
    word = None if steps is None else repaired(steps)
    text = word.strip() if word is not None and not texts and file is None else read_text(texts[0] if texts else None, file)
    with downloads() as progress:
        result = tokens(text, names, steps=word, splitter=splitter, offline=offline, progress=progress)
    output.note(*result.notes)
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        tokens_view.show(output.console(), result, every)
