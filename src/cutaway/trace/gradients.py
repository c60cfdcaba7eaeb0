"""Attribution by gradients: how does the answer change as a token's embedding does? Input is the tap `tok_embed`."""

import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.trace.attribute import TOKENS, Answer, Attribution, result, token_terms
from cutaway.trace.edit import editing

STEPS = 64  # along the way, at the middles of equal parts; thrice as many, and thrice again, while too much is left
MOST = 9 * STEPS
ENOUGH = 0.02  # of the terms' sizes together: what the steps may leave of the way's change


def gradient(answer: Answer) -> Attribution:
    """Gradient × input, summed over each token's embedding (Shrikumar et al. 2017, section 2): a slope where the text stands."""
    trace = answer.model.trace(answer.text, grad=lambda logits: answer.of(logits)[0])
    values = (trace.grad("tok_embed") * trace["tok_embed"]).sum(dim=-1)  # (T)
    whole = float(answer.of(trace.whole("logits"))[0])
    return result(answer, "gradient", "gradient × input of each token's embedding", whole, token_terms(answer, values))


def integrated(answer: Answer) -> Attribution:
    """Integrated gradients (Sundararajan et al. 2017, equation 1), from the mean of all tokens' embeddings at every position.

    The terms would add up to the answer's change along the way with steps enough. There are more until what is left of it is ENOUGH,
    at most MOST; a note says if that was not reached.
    """
    embeddings = answer.model.transformer.embed.token
    here = embeddings(answer.ids).detach()  # (1, T, D)
    begin = embeddings.weight.detach().mean(dim=0).expand_as(here)
    with torch.no_grad():
        begun, whole = (float(of(answer, x)) for x in (begin, here))
    change, steps = whole - begun, STEPS
    total = along(answer, begin, here, (torch.arange(STEPS) + 0.5) / STEPS)
    while True:
        values = ((here - begin)[0] * total / steps).sum(dim=-1)  # (T)
        left, size = change - float(values.sum()), float(values.abs().sum())
        if abs(left) <= ENOUGH * size or steps == MOST:
            break
        part = torch.arange(steps)  # its middle has been seen; the middles of its outer thirds have not
        steps *= 3
        total += along(answer, begin, here, torch.cat([3 * part + 0.5, 3 * part + 2.5]) / steps)
    how = (
        f"integrated gradients from the mean of all tokens' embeddings, where the answer is {begun:.4g}, in {steps} steps; "
        f"the terms should add up to the whole way's change, {change:+.4g}"
    )
    notes = [] if abs(left) <= ENOUGH * size else [f"{steps} steps leave {left:+.4g} nats of a change of {change:+.4g}: too few."]
    return result(answer, "integrated", how, whole, token_terms(answer, values), adds_to=change, notes=notes)


def along(answer: Answer, begin: Tensor, end: Tensor, shares: Tensor) -> Tensor:
    """The sum (T, D) of the answer's gradients at these shares of the way from `begin` to `end` (1, T, D)."""
    total = torch.zeros_like(end[0])
    chunks = shares.to(end).split(max(1, TOKENS // end.shape[1]))
    for n, chunk in enumerate(chunks):
        answer.progress(f"{len(shares)} steps", n, len(chunks))
        total += slopes(answer, begin + chunk[:, None, None] * (end - begin)).sum(dim=0)
    return total


def slopes(answer: Answer, x: Tensor) -> Tensor:
    """The answer's gradient at each of some embeddings (N, T, D)."""
    x = x.requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(of(answer, x).sum(), x)
    return found


def of(answer: Answer, x: Tensor) -> Tensor:
    """The answer (N) for embeddings (N, T, D) in the place of the tokens' own."""
    tap = Tap(editing(answer.model.edits, lambda name, own: x if name == "tok_embed" else own))
    return answer.of(answer.model.transformer(answer.ids.expand(len(x), -1), tap=tap))
