"""Attention on a terminal, at most 100 columns wide: colours on a terminal, shades of characters and numbers anywhere.

What the mask hides is a dot, and never drawn as a weight of 0.
"""

from collections.abc import Callable, Iterator, Sequence
from math import sqrt

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text
from torch import Tensor

from cutaway.attend import SIDE
from cutaway.patterns import Heads, Links, Rows, Thumbnails, View
from cutaway.render import facts, number, visible
from cutaway.shapes import Shapes, Step

SHADES = " ░▒▓█"
HIDDEN = "·"
COLOURS = ((38, 42, 54), (48, 128, 220), (255, 236, 170))  # of the weights 0, 1/4 and 1
LEAST = 6  # cells on a side of a thumbnail
LABEL = 14  # columns of a token beside its row
WIDTHS = (4, 2, 1)  # columns of a cell: with a percentage, and without
LETTERS = 8  # of a token above its column
MOST_LINES = 100  # of a list


def show(screen: Console, result: Thumbnails | Heads | Rows | Links | Shapes) -> None:
    if isinstance(result, Thumbnails):
        show_thumbnails(screen, result)
    elif isinstance(result, Heads):
        show_heads(screen, result)
    elif isinstance(result, Rows):
        show_rows(screen, result)
    elif isinstance(result, Links):
        show_links(screen, result)
    else:
        show_shapes(screen, result)
    for edit in result.edits:
        screen.print(f"Edit in force: {edit}", style="dim")
    screen.print(facts(result.facts), style="dim")


def show_thumbnails(screen: Console, result: Thumbnails) -> None:
    """Layers as rows, heads as columns; as many heads as fit."""
    label = len(str(len(result.cells) - 1)) + 7
    heads = result.cells.shape[1]
    across = min(heads, (screen.width - label) // (LEAST + 1))
    small = result.fitting(min(SIDE, (screen.width - label) // across - 1))
    side = max(len(small.readable), LEAST)
    word, corner = ("head ", "") if side > len("head 9") else ("", "head")
    screen.print(Text(corner.ljust(label) + " ".join(f"{word}{n}".ljust(side) for n in range(across)), "dim"))
    for layer, cells in enumerate(small.cells[:, :across]):
        for top in range(0, len(small.readable), 2):
            line = Text(f"layer {layer}".ljust(label) if top == 0 else " " * label, "dim")
            for head in cells:
                line.append_text(half_rows(screen, head[top : top + 2], small.readable[top : top + 2]))
                line.append(" " * (side - len(small.readable) + 1))
            screen.print(line, no_wrap=True, overflow="crop")
        screen.print()
    screen.print(legend(screen))
    screen.print(f"{small.cell}.")
    if not screen.color_system:
        screen.print("A character is the larger of two cells, one above the other.")
    if across < heads:
        screen.print(f"Heads 0 to {across - 1} of {heads} are shown; --layer L shows all of a layer, --html FILE all of all.")
    left_out(screen, result)


def half_rows(screen: Console, values: Tensor, readable: Tensor) -> Text:
    """Two rows of cells as one line: the upper and the lower half of each character."""
    line = Text()
    columns = zip(values.T.tolist(), readable.T.tolist(), strict=True)
    for weights, seen in columns:
        shown = [colour(weight) if can else None for weight, can in zip(weights, seen, strict=True)]
        upper, lower = (*shown, None)[:2]
        if not any(seen):
            line.append(HIDDEN, "dim")
        elif not screen.color_system:
            line.append(shade(max(weight for weight, can in zip(weights, seen, strict=True) if can)))
        elif upper is None:
            line.append("▄", lower or "")
        else:
            line.append("▀", upper if lower is None else f"{upper} on {lower}")
    return line


def show_heads(screen: Console, result: Heads) -> None:
    room = (screen.width - LABEL - (0 if result.whole else len(ELSEWHERE))) // (1 if len(result.heads) == 1 else 2)
    small = result.first(room)
    for head, weights, elsewhere in zip(small.heads, small.weights, small.elsewhere.tolist(), strict=True):
        screen.print(f"layer {small.layer} head {head}", style="bold")
        rest = None if small.whole else elsewhere
        grid(screen, named(small), small.shown, weights, small.readable, rest, percent)
        screen.print()
    screen.print("Rows ask, columns are read.")
    left_out(screen, small)


def show_rows(screen: Console, result: Rows) -> None:
    """Every head's row of weights, then of lengths."""
    small = result.around((screen.width - LABEL - len(ELSEWHERE)) // 2)
    screen.print(f"Where {small.query!r}, token {small.position}, looks: a row for each layer.head", style="bold")
    names = [f"{layer}.{head}" for layer, head in small.heads]
    readable = small.readable.expand(small.weights.shape)
    grid(screen, names, small.shown, small.weights, readable, None if small.whole else small.elsewhere.tolist(), percent)
    screen.print("\nHow long each source's contribution is: weight × value × output matrix", style="bold")
    longest = small.lengths.max().item() or 1.0
    grid(screen, names, small.shown, small.lengths / longest, readable, None, lambda part: short(part * longest))
    screen.print(f"In units of the residual stream; the strongest is {number(longest)}.")
    left_out(screen, small)


def show_links(screen: Console, result: Links) -> None:
    first = result.window[0]
    screen.print(f"layer {result.layer} head {result.head}: where each token looks most", style="bold")
    for n, row in enumerate(result.links[:MOST_LINES], first):
        looks = "  ".join(f"{percent(link.weight)} % {link.position} {visible(result.tokens[link.position])}" for link in row)
        screen.print(Text(set_cell_size(f"{n} {visible(result.tokens[n])}", LABEL) + " → " + looks), soft_wrap=False)
    if len(result.links) > MOST_LINES:
        screen.print(f"{len(result.links) - MOST_LINES:,} tokens more: --window START:END shows others, --json has all.")
    left_out(screen, result)


ELSEWHERE = " else"  # above the weight of what is not shown


def grid(
    screen: Console,
    names: Sequence[str],
    tokens: Sequence[str],
    values: Tensor,
    readable: Tensor,
    elsewhere: Sequence[float] | None,
    written: Callable[[float], str],
) -> None:
    """A heat map of values (rows, columns) from 0 to 1 with names on both sides; `written` is what a wide cell says.

    elsewhere: what each row gives to tokens that have no column; None where there are none.
    """
    room = screen.width - LABEL - (0 if elsewhere is None else len(ELSEWHERE))
    width = next((width for width in WIDTHS if width * len(tokens) <= room), 1)
    for line in above(tokens, width):
        screen.print(Text(" " * LABEL + line.rstrip(), "dim"), no_wrap=True, overflow="crop")
    for n, name in enumerate(names):
        row = Text(set_cell_size(name, LABEL - 1) + " ")
        for value, can in zip(values[n].tolist(), readable[n].tolist(), strict=True):
            row.append_text(cell(screen, value, width, written) if can else Text(HIDDEN.rjust(min(width, 3)).ljust(width), "dim"))
        if elsewhere is not None:
            row.append(percent(elsewhere[n]).rjust(len(ELSEWHERE)), "dim")
        screen.print(row, no_wrap=True, overflow="crop")
    if written is percent:
        plain = width == WIDTHS[0] and not screen.color_system
        screen.print(f"Numbers are percentages  {HIDDEN} masked" if plain else legend(screen))
    if elsewhere is not None:
        screen.print("The last column: the percentage that goes to tokens which are not shown.", style="dim")


def cell(screen: Console, value: float, width: int, written: Callable[[float], str]) -> Text:
    said = written(value).rjust(3).ljust(width) if width == WIDTHS[0] else " " * width
    if screen.color_system:
        ink = "black" if value > 0.3 else "bright_white"
        return Text(said, f"{ink} on {colour(value)}")
    return Text(said if said.strip() else shade(value) * width)


def above(tokens: Sequence[str], width: int) -> Iterator[str]:
    """The tokens' letters, downwards over their columns."""
    words = [visible(token)[:LETTERS] for token in tokens]
    height = max(map(len, words))
    for n in range(height):
        letters = (word.rjust(height)[n] for word in words)
        yield "".join(set_cell_size((letter if cell_len(letter) <= width else "?").rjust(min(width, 3)), width) for letter in letters)


def named(view: View) -> list[str]:
    return [f"{n} {visible(token)}" for n, token in enumerate(view.shown, view.window[0])]


def left_out(screen: Console, view: View) -> None:
    if view.left_out:
        screen.print(f"{view.left_out} --window START:END shows others.")


def legend(screen: Console) -> Text:
    """What a weight looks like."""
    line = Text("weight ")
    for weight in (0, 0.05, 0.25, 0.5, 1):
        line.append("  " if screen.color_system else shade(weight) * 2, f"on {colour(weight)}" if screen.color_system else "")
        line.append(f" {weight:g}  ")
    return line.append(f"{HIDDEN} masked")


def shade(value: float) -> str:
    return SHADES[round(sqrt(min(1.0, max(0.0, value))) * (len(SHADES) - 1))]


def colour(value: float) -> str:
    """Half of the way stands for a quarter, so that small weights can be seen."""
    far = 2 * sqrt(min(1.0, max(0.0, value)))
    one, other = COLOURS[:2] if far < 1 else COLOURS[1:]
    mixed = (round(a + (b - a) * (far if far < 1 else far - 1)) for a, b in zip(one, other, strict=True))
    return f"rgb({','.join(map(str, mixed))})"


def percent(value: float) -> str:
    """A share in percent, in three characters; little is never written as nothing.

    >>> percent(0.0), percent(0.001), percent(0.376), percent(1.0)
    ('0', '<1', '38', '100')
    """
    return "0" if value == 0 else "<1" if value < 0.005 else f"{100 * value:.0f}"


def short(value: float) -> str:
    """A length in three characters.

    >>> short(0.0), short(0.01), short(0.26), short(3.14), short(31.4)
    ('0', '<.1', '0.3', '3.1', '31')
    """
    return "0" if value == 0 else "<.1" if value < 0.05 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def show_shapes(screen: Console, result: Shapes) -> None:
    screen.print(", ".join(f"{letter} = {count:,} {what}" for letter, what, count in result.dimensions))
    asks, read = (f"{n} {visible(result.tokens[n])}" for n in (result.query, result.source))
    screen.print(f"Layer {result.layer}, head {result.head}. Worked out: how token {asks} reads token {read}, at which it looks most.")
    for n, step in enumerate(result.steps, 1):
        screen.print()
        show_step(screen, n, step)
    screen.print(f"\nAll steps: {result.multiplications:,} multiplications in matrix products; norms and the softmax are not counted.")


def show_step(screen: Console, n: int, step: Step) -> None:
    shape = f"({', '.join(step.letters)}) = {' × '.join(f'{size:,}' for size in step.sizes)}"
    line = Text(f"{n:2} {step.name}", "bold")
    line.append(f"  {shape} = {step.elements:,} numbers" if len(step.sizes) > 1 else f"  {shape} numbers", "not bold")
    screen.print(line.append(f"  {step.tap}" if step.tap else "", "not bold dim"))
    made = f", {step.multiplications:,} multiplications" if step.multiplications else ""
    screen.print(f"   {step.formula}{made}")
    for row in step.corner:
        more = " …" if step.sizes[-1] > len(row) else ""
        screen.print("   " + "".join(f"{value:>9}" if isinstance(value, int) else f"{value:9.4f}" for value in row) + more, style="cyan")
    for check in step.checks:
        screen.print(f"   {check.place} = {check.working} = {check.worked_out:.6f}")
        screen.print(f"   in the tensor {check.in_tensor:.6f}, difference {number(check.difference, signed=True)}", style="green")
