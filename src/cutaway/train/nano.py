"""The nano family: three small models of the true architectures, trained here on the micro-world, each by one command.

Same passages, same schedule; what differs between them is what differed between GPT-1, GPT-2 and RoBERTa.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cutaway.core.transformer import Transformer
from cutaway.families import FAMILIES
from cutaway.text.tokenizer import Tokenizer, load_tokenizer
from cutaway.text.train import train_bpe
from cutaway.train import card, data
from cutaway.train.loop import Schedule, Step, initialise, train
from cutaway.train.objectives import Causal, Masked, Objective
from cutaway.train.recurrent import Recurrent
from cutaway.weights.publish import publish
from cutaway.weights.safetensors import save_safetensors
from cutaway.worlds import Passage, passages
from cutaway.writing import write_text

WIDTH, LAYERS, HEADS = 192, 3, 6


SCHEDULE = Schedule(steps=7_500, rate=1e-3)


@dataclass(frozen=True)
class Recipe:
    """What makes one nano model: its family, the published configuration in its family's own words, and the schedule.

    Pools of passages up to `easy` are easy ones, from then to `hard` ever fewer are: a beginner's text first.
    """

    family: str
    hf_config: Mapping[str, Any]
    schedule: Schedule
    batch_tokens: int = 512
    easy: int = 6
    hard: int = 20
    recurrent: bool = False  # an LSTM in the transformer's place: the baseline, scored and not shipped
    salient: float = 5.0  # how much an answer weighs in a causal loss; of a masked one, how often it is hidden

    def passages(self, pool: int) -> Iterator[Passage]:
        ease = min(1.0, max(0.0, (self.hard - pool) / (self.hard - self.easy)))
        return passages(self.schedule.seed * 1_000_003 + pool, ease)


def gpt_sizes(context: int) -> dict[str, Any]:
    return {"n_positions": context, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "layer_norm_epsilon": 1e-5}


NANO_GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", **gpt_sizes(1024)}

RECIPES = {
    "nano-gpt1": Recipe(
        "gpt1",
        {"model_type": "openai-gpt", "architectures": ["OpenAIGPTLMHeadModel"], "afn": "gelu", **gpt_sizes(512)},
        SCHEDULE,
    ),
    "nano-gpt2": Recipe("gpt2", NANO_GPT2, SCHEDULE),
    # as many tokens in larger batches: an LSTM runs token by token, and small ones would leave the machine idle
    "lstm": Recipe("gpt2", NANO_GPT2, Schedule(steps=1_850, rate=2e-3, warmup=100), batch_tokens=2048, recurrent=True),
    "nano-roberta": Recipe(
        "roberta",
        {
            "model_type": "roberta",
            "architectures": ["RobertaForMaskedLM"],
            "hidden_act": "gelu",
            "hidden_size": WIDTH,
            "intermediate_size": 4 * WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "layer_norm_eps": 1e-5,
        },
        SCHEDULE,
        salient=0.5,
    ),
}


def retrain(name: str, folder: Path, on_step: Callable[[Step], None], *, steps: int | None = None) -> None:
    """Train one nano model from nothing, or from where `folder/training` left off, and write it to `folder`.

    The folder is then an ordinary model folder: config.json, model.safetensors, vocab.json, merges.txt, and a card.
    """
    recipe = RECIPES[name]
    recipe = replace(recipe, schedule=replace(recipe.schedule, steps=steps or recipe.schedule.steps))
    tokenizer = make_tokenizer(recipe, folder)
    hf_config = {**recipe.hf_config, "vocab_size": tokenizer.vocab_size}
    config = FAMILIES[recipe.family].hub.config_from(hf_config, {})
    model = Recurrent(config) if recipe.recurrent else Transformer(config)
    initialise(model, recipe.schedule.seed)
    encoder = partial(data.encode, tokenizer=tokenizer)
    source = partial(batches, recipe, encoder)
    started, log = time.monotonic(), card.Log()
    train(model, source, objective(recipe, tokenizer), recipe.schedule, folder / "training", log.seeing(on_step))
    if isinstance(model, Transformer):
        write_model(model, recipe, hf_config, folder)
    card.write(folder, name, recipe, model, tokenizer, log, minutes=(time.monotonic() - started) / 60)


def batches(recipe: Recipe, encoder: Callable[[Passage], data.Encoded], start: int) -> Iterator[data.Batch]:
    return data.batches(recipe.passages, encoder, tokens=recipe.batch_tokens, pad=0, start=start)


def make_tokenizer(recipe: Recipe, folder: Path) -> Tokenizer:
    """The vocabulary, learned once from the first passages."""
    if not (folder / "vocab.json").exists():
        texts = [passage.text for passage in itertools.islice(passages(recipe.schedule.seed), 20_000)]
        train_bpe(texts, recipe.family, None, folder)  # type: ignore[arg-type]
    return load_tokenizer(folder, kinds=(recipe.family,))


def objective(recipe: Recipe, tokenizer: Tokenizer) -> Objective:
    if recipe.family != "roberta":
        return Causal(recipe.salient)
    specials = frozenset(tokenizer.specials.values())
    return Masked(tokenizer.specials["<mask>"], specials, tokenizer.vocab_size, salient=recipe.salient)


def write_model(model: Transformer, recipe: Recipe, hf_config: Mapping[str, Any], folder: Path) -> None:
    family = FAMILIES[recipe.family]
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    save_safetensors(folder / "model.safetensors", publish(own, family.hub.rules(model.config), model.config.layers))
    write_text(folder / "config.json", json.dumps(hf_config, indent=2) + "\n")


