"""llama.cpp on the same weights: another implementation, run in a process of its own, and how far it is from ours.

    python -m tests.llama_cpp FILE.gguf      prints the differences; needs pip install "cutaway[llamacpp]"

On quantized weights they are larger, because llama.cpp rounds the activations too.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import cutaway
from cutaway.core.cache import Cache
from cutaway.model import Model

PROMPTS = ("The history of the steam engine begins in", "def fibonacci(n):\n    ", "Once upon a time, there was a little girl who")


def greedy(model: Model, prompt: str, steps: int) -> tuple[list[int], list[torch.Tensor]]:
    """Tokens, and the log-probabilities (V) that each was chosen by."""
    ids, _, _ = model.batch([prompt])
    cache = Cache(model.config, 1, ids.shape[1] + steps, dtype=model.dtype)
    tokens, odds = [], []
    with torch.no_grad():
        for _ in range(steps):
            odds.append(model.transformer(ids, cache=cache)[0, -1].double().log_softmax(-1))
            tokens.append(int(odds[-1].argmax()))
            ids = torch.tensor([[tokens[-1]]])
    return tokens, odds


LLAMA_CPP = """
import json, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.warmup, params.verbosity = sys.argv[1], 512, 1, False, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # by default keys and values are kept in float16
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(params)
for prompt in json.loads(sys.argv[2]):
    asked = {"prompt": prompt, "n_predict": 32, "temperature": 0.0, "n_probs": 5, "cache_prompt": False}
    print("ANSWER", json.dumps(server.handle_completions(asked)["choices"][0]["logprobs"]["content"]))
"""


def llama_cpp(path: Path) -> list[list[dict[str, Any]]]:
    """For each prompt and step: the token chosen, and the likeliest with their log-probabilities."""
    done = subprocess.run(
        [sys.executable, "-c", LLAMA_CPP, str(path), json.dumps(PROMPTS)], capture_output=True, text=True, timeout=300, check=True
    )
    return [json.loads(line.removeprefix("ANSWER ")) for line in done.stdout.splitlines() if line.startswith("ANSWER ")]


@dataclass(frozen=True)
class Difference:
    """Of one prompt. largest: of the log-probabilities that llama.cpp states, as long as both have read the same tokens, in nats.

    margins: at each step ours between the two likeliest tokens. equal: how many tokens are, from the first on.
    """

    largest: float
    margins: list[float]
    equal: int


def differences(model: Model, answers: list[list[dict[str, Any]]]) -> list[Difference]:
    """For each prompt."""
    found = []
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        tokens, odds = greedy(model, prompt, len(answer))
        equal = next((n for n, (ours, step) in enumerate(zip(tokens, answer, strict=True)) if ours != step["id"]), len(tokens))
        steps = list(zip(odds, answer, strict=True))[: equal + 1]
        largest = max(abs(float(row[top["id"]]) - top["logprob"]) for row, step in steps for top in step["top_logprobs"])
        found.append(Difference(largest, [float(row.topk(2).values.diff().abs()) for row in odds], equal))
    return found


def vocabulary_of(path: Path) -> dict[str, Any]:
    """The tokenizer's settings, as GGUFWriter takes them."""
    import gguf

    fields = gguf.GGUFReader(path).fields
    return {
        name: (field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
        for name, field in fields.items()
        if name.startswith("tokenizer.ggml")
    }


def main(path: Path) -> None:
    for prompt, found in zip(PROMPTS, differences(cutaway.load(str(path)), llama_cpp(path)), strict=True):
        print(f"{prompt!r}: {found.equal} of {len(found.margins)} tokens equal, largest difference {found.largest:.2g} nats")
        if found.equal < len(found.margins):
            print(f"    our margin where they part: {found.margins[found.equal]:.2g} nats")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
