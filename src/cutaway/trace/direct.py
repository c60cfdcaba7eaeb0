"""Direct logit attribution: what each part wrote into the stream, as the head reads it.

In a pre-norm model the stream is a sum: embeddings, then what each head, each MLP and each bias added. The final norm takes the mean out
and divides by one number, which is frozen at what it was in this run; then it is linear, and each addend has its share of the answer.
The shares add up to the answer. Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; the shares of TransformerLens's
`logit_attrs` with folding and centring off.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from cutaway.core.norm import LayerNorm
from cutaway.errors import EditError, ModelError
from cutaway.trace.attribute import Answer, Attribution, Term, result
from cutaway.trace.lazy import Taps

if TYPE_CHECKING:
    from cutaway.model import Model

HOW = "each part's own addend to the stream, read by the head; the final norm's scale is frozen at this run's"
SUMS = ("embed", "resid_pre", "resid_mid", "resid_post", "out", "ln_f", "logits")  # taps whose edit adds what no part wrote


@torch.no_grad()
def direct(answer: Answer) -> Attribution:
    """A term for each embedding, head, MLP and bias. Raises ModelError for a post-norm model, EditError if the stream itself is edited."""
    model, config = answer.model, answer.model.config
    if not config.norm_first or config.head != "lm":
        given = f"{model.name} norms the stream after each sum, so what one part wrote has no share of its own in the answer"
        raise ModelError(given, expected="a pre-norm model, nano-gpt2 for instance", then="use the method ablation, which fits every model")
    for tap in (tap for group in model.edits for tap in group.changes):
        if tap.rpartition(".")[2] in SUMS:
            given = f"An edit of {tap} is in force, so the stream is no longer the sum of what its parts wrote"
            raise EditError(given, expected="edits within parts, at attn.z or mlp.post for instance")
    trace = model.trace(answer.text)
    share = Share.of(answer, trace.taps.entering[-1][0, answer.at])
    terms = [Term(name, share(written), layer, head) for name, written, layer, head in written_by(model, trace.taps, answer.at)]
    if share.bias is not None:
        terms.append(Term("final norm's bias", share.bias))
    whole = float(answer.of(trace.whole("logits"))[0])
    return result(answer, "direct", HOW, whole, terms, adds_to=whole)


@dataclass(frozen=True)
class Share:
    """The share (nats) in the answer of a vector (D) that was added to the stream, in float64; and the share of the final norm's bias."""

    direction: Tensor  # (D), as the final norm's gain and frozen scale leave it
    centred: bool
    bias: float | None

    @classmethod
    def of(cls, answer: Answer, stream: Tensor) -> "Share":
        """stream (D): what the final norm reads where the answer is read."""
        transformer: Any = answer.model.transformer
        rows, norm = transformer.head.unembed.weight, transformer.ln_f
        direction = rows[answer.first].double() - rows[answer.second].double()
        if norm is None:
            return cls(direction, False, None)
        centred = isinstance(norm, LayerNorm)
        x = stream.double() - stream.double().mean() * centred
        bias = float(norm.bias.double() @ direction) if centred else None
        return cls(direction * norm.weight.double() / (x.square().mean() + norm.eps).sqrt(), centred, bias)

    def __call__(self, x: Tensor) -> float:
        return float((x.double() - x.double().mean() * self.centred) @ self.direction)


Written = tuple[str, Tensor, int | None, int | None]  # name, vector (D), layer, head


def written_by(model: "Model", taps: Taps, at: int) -> Iterator[Written]:
    """What each part added to the stream at place `at`, in the order of the run."""
    embeddings = ("embed",) if model.config.embed_norm else ("tok_embed", "segment_embed", "pos_embed")
    for name in embeddings:
        if name in taps:
            yield name, taps[name][0, at], None, None
    for layer, block in enumerate(model.transformer.blocks):
        attn, mlp = cast(Any, block).attn, cast(Any, block).mlp
        z = taps[f"blocks.{layer}.attn.z"][0, :, at].double()  # (H, K)
        of_heads = torch.einsum("hk,dhk->hd", z, attn.out.weight.double().unflatten(1, z.shape))  # (H, D)
        for head, vector in enumerate(of_heads):
            yield f"block {layer} head {head}", vector, layer, head
        if attn.out.bias is not None:
            yield f"block {layer} attention's bias", attn.out.bias, layer, None
        post = taps[f"blocks.{layer}.mlp.post"][0, at].double()  # (M)
        yield f"block {layer} MLP", mlp.down.weight.double() @ post, layer, None
        if mlp.down.bias is not None:
            yield f"block {layer} MLP's bias", mlp.down.bias, layer, None
