"""Attribution by taking away: what does the answer lose when a part writes nothing, or a token is hidden?

What is lost need not add up: parts stand in for each other, and work together.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from cutaway.core.tap import See
from cutaway.trace.attribute import Answer, Attribution, Term, result, token_terms
from cutaway.trace.lens import masked_id


def ablation(answer: Answer) -> Attribution:
    """A term for each head (its z made zero) and MLP (its outcome, bias included, made zero), at every position."""
    parts = list(ablated(answer))

    def see(rows: slice) -> See:
        def look(name: str, x: Tensor) -> Tensor:
            here = [(row, head) for row, (_, tap, head) in enumerate(parts[rows]) if tap == name]
            if not here:
                return x
            x = x.clone()
            for row, head in here:
                x[row, slice(None) if head is None else head] = 0
            return x

        return look

    values = answer.rows(len(parts) + 1, see)  # the last row is left whole
    whole = float(values[-1])
    lost = (whole - values[:-1]).tolist()
    terms = [Term(term.name, value, term.layer, term.head) for (term, _, _), value in zip(parts, lost, strict=True)]
    return result(answer, "ablation", "what the answer loses when one head or one MLP writes zeros at every position", whole, terms)


Part = tuple[Term, str, int | None]  # of the result, the tap that is made zero, and its head


def ablated(answer: Answer) -> Iterator[Part]:
    config = answer.model.config
    for layer in range(config.layers):
        for head in range(config.heads):
            yield Term(f"block {layer} head {head}", 0.0, layer, head), f"blocks.{layer}.attn.z", head
        yield Term(f"block {layer} MLP", 0.0, layer), f"blocks.{layer}.mlp.out", None


def occlusion(answer: Answer) -> Attribution:
    """A term for each token: hidden by the mask where the model has one, else by the mean of all rows of the embedding."""
    ids, model = answer.ids[0], answer.model
    table = model.transformer.embed.token.weight
    mask = masked_id(model)
    instead = table.mean(dim=0) if mask is None else table[mask]

    def see(rows: slice) -> See:
        def look(name: str, x: Tensor) -> Tensor:
            if name != "tok_embed":
                return x
            x = x.clone()
            hidden = torch.arange(rows.start, min(rows.stop, len(ids)), device=x.device)
            x[hidden - rows.start, hidden] = instead
            return x

        return look

    values = answer.rows(len(ids) + 1, see)  # the last row hides nothing
    whole = float(values[-1])
    by = "the mean of all tokens' embeddings" if mask is None else f"the embedding of {model.tokenizer.token(mask)}"
    how = f"what the answer loses when one token's embedding is replaced by {by}"
    return result(answer, "occlusion", how, whole, token_terms(answer, whole - values[:-1]))
