"""Chapter 0: has a model what its configuration says? Its tensors counted, its arithmetic as it runs, and its cache."""

from collections import Counter
from collections.abc import Iterator

import torch
from torch.utils.flop_counter import FlopCounterMode

from cutaway.core.cache import Cache
from cutaway.core.tap import Tap
from cutaway.errors import LabError
from cutaway.families.size import cache_bytes, flops, parameters, part_of
from cutaway.lab.claims import ANY, CAUSAL, Claim, Needs
from cutaway.lab.experiment import Run, experiment
from cutaway.lab.measurement import Measurement

EVERY_TOKEN = ("lm", "mlm", "none")  # heads that say something of every token, or of none


@experiment(
    "e00_parts",
    chapter="00",
    version=1,
    question="Are a model's parameters, its arithmetic and its cache what its configuration says?",
    needs=ANY,
    claims=(
        Claim(
            sentence="Part by part a model has the parameters that its configuration says",
            measurement="parameters.apart",
            compare="==",
            bound=0,
            reason="the configuration is all that shapes the tensors, and a loader that has one left over refuses the file",
            fails_if="a part were counted wrongly, or a loader made up a tensor",
        ),
        Claim(
            sentence="A token costs the multiplications and additions that the configuration says",
            measurement="flops.apart",
            compare="==",
            bound=0,
            reason="two for each weight of each matrix, and for each position that is read two in the scores and two in the mean of values",
            fails_if="a matrix product were left out of the count, or done twice",
            of=Needs(heads=EVERY_TOKEN),
        ),
        Claim(
            sentence="Each token leaves as many bytes in the cache as the configuration says",
            measurement="cache.apart",
            compare="==",
            bound=0,
            reason="keys and values of every layer",
            fails_if="the cache kept more, or fewer heads than read it",
            of=CAUSAL,
        ),
    ),
)
def parts(run: Run, *, tokens: int = 16) -> Iterator[Measurement]:
    """tokens: of the text whose arithmetic is counted."""
    model, config = run.model, run.model.config
    if not 1 <= tokens <= config.context:
        raise LabError(f"tokens={tokens}", expected=f"1 to {config.context}")
    said, held = parameters(config), Counter[str]()
    for name, parameter in model.transformer.named_parameters():  # a tied matrix has one name here
        held[part_of(name)] += parameter.numel()
    for part in said:
        yield run.exact("part", held[part], "parameters", at={"part": part})
    yield run.exact("parameters", sum(held.values()))
    yield run.exact("parameters.apart", sum(abs(held[part] - said.get(part, 0)) for part in {*said, *held}), "parameters", n=len(said))
    yield arithmetic(run, tokens)
    kept = cache_bytes(config, "float32")
    if kept is None:
        yield run.absent("cache.apart", f"{model.name} is bidirectional, so it has nothing to keep")
        return
    cache = Cache(config, 1, tokens, dtype=torch.float32, device=torch.device("cpu"))
    tensors = [value for value in vars(cache).values() if isinstance(value, torch.Tensor)]
    size = sum(value.numel() * value.element_size() for value in tensors)
    yield run.exact("cache", size // tokens, "bytes a token, float32")
    yield run.exact("cache.apart", size - tokens * kept, "bytes", n=tokens)


@torch.no_grad()
def arithmetic(run: Run, tokens: int) -> Measurement:
    """Counted by PyTorch as the eager kernel runs, which computes the scores of later positions too before it masks them."""
    model = run.model
    if model.config.head not in EVERY_TOKEN:
        return run.absent("flops.apart", f"{model.name} has a head that reads one position alone ({model.config.head})")
    counter = FlopCounterMode(display=False)
    with counter:
        model.transformer(torch.zeros(1, tokens, dtype=torch.long, device=model.device), tap=Tap(lambda name, x: x))
    return run.exact("flops.apart", counter.get_total_flops() - tokens * flops(model.config, tokens).total, "of one text", n=tokens)
