"""The trophy experiment on a terminal, at most 100 columns wide."""

from collections.abc import Collection, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutaway.render import deciding, facts, facts_of, number, visible
from cutaway.trophy import Head, Reading, Trophy

FIRST, SECOND, ASKS = "bold cyan", "bold yellow", "bold reverse"
MOST_ROWS = 24  # of the table of heads


def show(screen: Console, result: Trophy, said: Collection[str] = ()) -> None:
    """Everything that was measured. `said`: notes that were printed already."""
    for sentence, (start, end), style in zip(result.sentences, deciding(*result.sentences), (FIRST, SECOND), strict=True):
        line = Text(sentence)
        line.stylize(style, start, end)
        screen.print(line)
    if result.neutral:
        screen.print(f"Neutral twin: {result.neutral}", style="dim")
    for reading in (result.causal, result.bidirectional):
        screen.print()
        show_reading(screen, reading, result)
        for note in reading.notes:
            if note not in said:
                screen.print(note, style="dim")
    screen.print()
    screen.rule("What was measured", align="left")
    for measured in result.verdict:
        screen.print(measured)


def show_reading(screen: Console, reading: Reading, result: Trophy) -> None:
    screen.rule(f"{reading.model}, {'causal' if reading.causal_mask else 'bidirectional'}", align="left")
    screen.print(facts(facts_of(reading)), style="dim")
    for side, style in enumerate((FIRST, SECOND)):
        screen.print(tokens(reading, side, style))
    screen.print(f"{result.query!r} is token {reading.query_position}; the sentences part at token {reading.first_difference}.")
    chosen = shown(reading)
    screen.print(heads(chosen, result.watch))
    if len(chosen) < len(reading.heads):
        which = "that differ most" if reading.max_abs_diff else "that look most at the watched words"
        screen.print(f"Of {len(reading.heads)} heads these are the {len(chosen)} {which}; --json has all.", style="dim")
    exact = "0, bit for bit" if reading.max_abs_diff == 0 else number(reading.max_abs_diff)
    screen.print(f"Largest difference of the attention of {result.query!r}, over {len(reading.heads)} heads: {exact}", style="bold")
    controls = reading.controls
    screen.print(
        f"Controls: first against itself {number(controls['a_a'])}, against the neutral twin {number(controls['neutral'])}, "
        f"against a twin that differs before {result.query!r} {number(controls['before'])}"
    )
    if reading.kernel_noise is not None:
        screen.print(f"Without padding to one length: {number(reading.kernel_noise)}, the kernels' noise")
    if reading.later:
        first, second = result.watch
        screen.print(f"\nOne later token's column swapped: how far log p({first}) − log p({second}) moves towards {second}, in nats")
        screen.print(later(reading))


def tokens(reading: Reading, side: int, style: str) -> Text:
    line = Text()
    for n, token in enumerate(reading.tokens[side]):
        line.append(f"{n}:", "dim")
        line.append(visible(token), ASKS if n == reading.query_position else style if n == reading.first_difference else "")
        line.append("  ")
    return line


def shown(reading: Reading) -> list[Head]:
    """The heads that fit on a screen: those that say most, in their order."""
    if len(reading.heads) <= MOST_ROWS:
        return list(reading.heads)
    most = sorted(reading.heads, key=lambda head: (-head.max_abs_diff, -sum(map(sum, head.to.values()))))[:MOST_ROWS]
    return [head for head in reading.heads if head in most]


def heads(chosen: list[Head], watch: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("layer", "head"):
        table.add_column(name, justify="right")
    for word in watch:
        for name in ("first", "second", "diff.", "neutral"):
            table.add_column(f"{word if name == 'first' else ''}\n{name}", justify="right", min_width=8, overflow="fold")
    table.add_column("largest\ndiff.", justify="right")
    for head in chosen:
        row = [str(head.layer), str(head.head)]
        for word in watch:
            a, b = head.to[word]
            row += [number(a), number(b), number(b - a, signed=True), number(head.neutral[word] if head.neutral else None)]
        table.add_row(*row, number(head.max_abs_diff), style="" if head.max_abs_diff else "dim")
    return table


def later(reading: Reading) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("token", justify="right")
    table.add_column("first / second")
    for name in ("effect", "neutral", "threshold"):
        table.add_column(name, justify="right")
    table.add_column("found out?")
    for row in reading.later:
        table.add_row(*cells(row), style="bold" if row["found_out"] else "")
    return table


def cells(row: Mapping[str, Any]) -> list[str]:
    said = {None: "not measured", True: "yes", False: "no"}[row["found_out"]]
    words = " / ".join(map(visible, dict.fromkeys(row["token"])))
    return [str(row["position"]), words, number(row["effect"], signed=True), number(row["neutral"]), number(row["threshold"]), said]
