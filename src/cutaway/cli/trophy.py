"""`cutaway trophy`: what "it" looks at in two sentences that part after it, in a causal and a bidirectional model."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli import options, output
from cutaway.cli.progress import load
from cutaway.cli.reading import repaired
from cutaway.errors import TextError

if TYPE_CHECKING:
    from cutaway.model import Model
    from cutaway.trophy import Trophy

Words = str | None
Causal = Annotated[str, typer.Option("--causal", metavar="NAME", help="The causal model. " + options.NAMED)]
Bidirectional = Annotated[str, typer.Option("--bidirectional", metavar="NAME", help="The bidirectional one.")]
A = Annotated[Words, typer.Option("--a", metavar="TEXT", help="The first sentence; default: the trophy … too big.")]
B = Annotated[Words, typer.Option("--b", metavar="TEXT", help="The second; default: … too small.")]
Neutral = Annotated[Words, typer.Option("--neutral", metavar="TEXT", help="The first in other words; default: … too large.")]
Query = Annotated[str, typer.Option("--query", metavar="WORD", help="The word that asks, or its characters as START:END.")]
Occurrence = Annotated[int | None, typer.Option("--occurrence", metavar="N", help="Which one, if there are several.")]
Watch = Annotated[Words, typer.Option("--watch", metavar="FIRST,SECOND", help="What the first and the second sentence mean by it.")]
CausalTokenizer = Annotated[Path | None, typer.Option(metavar="DIR", help="Tokenizer files, for a folder without any.")]
OtherTokenizer = Annotated[Path | None, typer.Option(metavar="DIR", help="The same for the other model.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one page with the heat maps.")]


def command(
    causal: Causal = "nano-gpt2",
    bidirectional: Bidirectional = "nano-roberta",
    a: A = None,
    b: B = None,
    neutral: Neutral = None,
    query: Query = "it",
    occurrence: Occurrence = None,
    watch: Watch = None,
    causal_tokenizer: CausalTokenizer = None,
    bidirectional_tokenizer: OtherTokenizer = None,
    dtype: options.Dtype = None,
    device: options.Device = "cpu",
    offline: options.Offline = False,
    json: options.Json = False,
    out: options.Out = None,
    html: Html = None,
) -> None:
    """Chapter 3's experiment: is the attention of "it" the same in both sentences, when only a later word decides its meaning?

    \b
    Example: cutaway trophy --causal gpt2 --bidirectional roberta --html trophy.html
    One's own sentences:
      cutaway trophy --a "The cat fled from the dog because it was scared."
        --b "The cat fled from the dog because it was fierce." --watch cat,dog
    """
    words, sentences = given(a, b, neutral, watch)
    named = ((causal, causal_tokenizer), (bidirectional, bidirectional_tokenizer))
    one, other = (load(name, tokenizer=files, dtype=dtype, device=device, offline=offline) for name, files in named)
    with output.busy("reading both sentences with both models"):
        from cutaway.trophy import trophy

        result = trophy(one, other, *sentences, query=repaired(query), occurrence=occurrence, watch=words)
    present(result, noted((one, other), result.sentences), json, out, html)


def given(a: Words, b: Words, neutral: Words, watch: Words) -> tuple[tuple[str, str], tuple[str, str, str | None]]:
    """The watched words and the sentences; what was left out is the trophy's, but one's own sentences are never guessed about."""
    from cutaway import trophy as standard

    own = a is not None or b is not None
    if own and watch is None:
        raise TextError(
            "The sentences are your own, and no words are watched",
            expected="--watch FIRST,SECOND: what the first sentence means by the query word, then what the second means",
        )
    words = standard.WATCH if watch is None else tuple(word.strip() for word in repaired(watch).split(","))
    if len(words) != 2 or not all(words) or words[0] == words[1]:
        raise TextError(f"--watch is {watch!r}", expected="two different words with a comma between them, trophy,suitcase for instance")
    twin = standard.NEUTRAL if neutral is None and not own else neutral
    first, second = (default if text is None else repaired(text) for text, default in ((a, standard.A), (b, standard.B)))
    return (words[0], words[1]), (first, second, None if twin is None else repaired(twin))


def noted(models: Collection["Model"], texts: Collection[str]) -> list[str]:
    """What is to be known about these models and texts, printed and returned."""
    notes = list(dict.fromkeys(note for model in models for text in texts for note in model.notes_on(text)))
    output.note(*notes)
    return notes


def present(result: "Trophy", said: Collection[str], json: bool, out: Path | None, html: Path | None) -> None:
    if html:
        from cutaway.render import page

        output.write(html, page(result))
    if json or out:
        output.as_json(result.to_dict(), out)
    else:
        from cutaway.cli.trophy_view import show

        show(output.console(), result, said)
