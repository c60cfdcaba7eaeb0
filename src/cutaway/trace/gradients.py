"""Attribution by gradients: how does the answer change as a token's embedding does? Input is the tap `tok_embed`."""

import torch
from torch import Tensor

from cutaway.core.tap import Tap
from cutaway.trace.attribute import TOKENS, Answer, Attribution, result, token_terms
from cutaway.trace.edit import editing

STEPS = 64  # along the way, at the middles of equal parts


def gradient(answer: Answer) -> Attribution:
    """Gradient × input, summed over each token's embedding (Shrikumar et al. 2017, section 2): a slope where the text stands."""
    trace = answer.model.trace(answer.text, grad=lambda logits: answer.of(logits)[0])
    values = (trace.grad("tok_embed") * trace["tok_embed"]).sum(dim=-1)  # (T)
    whole = float(answer.of(trace.whole("logits"))[0])
    return result(answer, "gradient", "gradient × input of each token's embedding", whole, token_terms(answer, values))


def integrated(answer: Answer) -> Attribution:
    """Integrated gradients (Sundararajan et al. 2017, equation 1), from the mean of all tokens' embeddings at every position.

    The terms add up to the answer's change along the way, as far as STEPS steps see it.
    """
    embeddings = answer.model.transformer.embed.token
    here = embeddings(answer.ids).detach()  # (1, T, D)
    begin = embeddings.weight.detach().mean(dim=0).expand_as(here)
    at_once = max(1, TOKENS // here.shape[1])
    total = torch.zeros_like(here[0])
    for share in ((torch.arange(STEPS, device=here.device) + 0.5) / STEPS).split(at_once):
        total += slopes(answer, begin + share[:, None, None].to(here) * (here - begin)).sum(dim=0)
    values = ((here - begin)[0] * total / STEPS).sum(dim=-1)  # (T)
    with torch.no_grad():
        begun, whole = (float(of(answer, x)) for x in (begin, here))
    how = (
        f"integrated gradients from the mean of all tokens' embeddings, where the answer is {begun:.4g}, in {STEPS} steps; "
        "the terms add up to the whole way's change"
    )
    return result(answer, "integrated", how, whole, token_terms(answer, values), adds_to=whole - begun)


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
