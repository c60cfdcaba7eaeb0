"""What does looking cost? One text of 1,024 tokens through GPT-2 124M, every tap readable afterwards, against TransformerLens.

Both arms hold the same random weights, nothing folded or centred, and run in turns, each in a process of its own that has read every weight
and run a short text before. Time and memory are of the trace alone: its peak is what the process held at most, above what it held before.
cutaway keeps the residual stream and computes the rest when it is read, so reading every tap once, in order, is measured apart.

    .venv/bin/python benchmarks/tracing.py [pairs]
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

WRITTEN = """
import sys
from pathlib import Path
from transformers import GPT2Config, GPT2LMHeadModel
from cutaway.text.train import train_bpe
train_bpe(["the the"] * 3, "gpt2", None, Path(sys.argv[1]))  # a small vocabulary
GPT2LMHeadModel(GPT2Config()).save_pretrained(sys.argv[1])  # GPT-2 124M, random numbers
"""
MEASURED = """
import json, os, sys, time, warnings
from pathlib import Path
import torch
warnings.simplefilter("ignore")

def held(which="VmRSS"):  # bytes: now, or with "VmHWM" at most since `forget`
    return 1024 * int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which)).split()[1])

def forget():
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now

def measured(step):
    forget()
    before, started = held(), time.perf_counter()
    result = step()
    seconds = time.perf_counter() - started
    return result, dict(seconds=seconds, bytes=held("VmHWM") - before)

folder, text = sys.argv[1], "the " * 1023 + "the"
{load}
float(sum(parameter.sum() for parameter in parameters))
with torch.no_grad():
    trace("the the the")
    made, making = measured(lambda: trace(text))
    logits, reading = read(made)
print(json.dumps(dict(making=making, reading=reading, threads=torch.get_num_threads(), check=logits.double().abs().sum().item())))
"""
ARMS = {
    "TransformerLens": """
from transformers import GPT2LMHeadModel
from transformer_lens.model_bridge import TransformerBridge
from cutaway.text.tokenizer import load_tokenizer
tokenizer = load_tokenizer(Path(folder))
model = TransformerBridge.boot_transformers(folder, hf_model=GPT2LMHeadModel.from_pretrained(folder), device="cpu")
parameters = model.parameters()

def trace(text):
    return model.run_with_cache(torch.tensor([[piece.id for piece in tokenizer.pieces(text)]]))

def read(made):
    logits, cache = made
    return logits, measured(lambda: [cache[name] for name in cache])[1]  # they are there already
""",
    "cutaway": """
import cutaway
from dataclasses import replace
from cutaway.text.tokenizer import load_tokenizer
model = replace(cutaway.load(folder), read_tokenizer=lambda: load_tokenizer(Path(folder)))  # `load` would refuse so small a vocabulary
parameters = model.transformer.parameters()
trace = model.trace

def read(trace):
    def every():
        for tap in trace:
            trace.whole(tap)
    reading = measured(every)[1]
    return trace.logits, reading
""",
}


def process(code: str, folder: Path) -> str:
    """What it prints. Not in this process, where this folder's tokenizers.py would stand before the library of that name."""
    here = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, env=here)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def run(arm: str, folder: Path) -> dict[str, Any]:
    """Seconds and bytes of making the trace and of reading it."""
    found: dict[str, Any] = json.loads(process(MEASURED.format(load=ARMS[arm]), folder).splitlines()[-1])
    return found


def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process(WRITTEN, folder)
        rounds = [{arm: run(arm, folder) for arm in ARMS} for _ in range(pairs)]
    arms = {arm: [one[arm] for one in rounds] for arm in ARMS}
    ours, theirs = arms["cutaway"], arms["TransformerLens"]
    apart = max(abs(mine["check"] / peer["check"] - 1) for mine, peer in zip(ours, theirs, strict=True))
    print(f"GPT-2 124M, 1 × 1,024 tokens, float32, {ours[0]['threads']} threads, {pairs} pairs in turns; logits agree to {apart:.0e}")
    for arm, runs in arms.items():
        for step in ("making", "reading"):
            seconds, held = ([one[step][what] for one in runs] for what in ("seconds", "bytes"))
            spread = f"({min(seconds):.3f} to {max(seconds):.3f})"
            print(f"{arm:16} {step:8} {median(seconds):7.3f} s {spread:20} peak {median(held) / 1e6:6,.0f} MB")
    for what in ("seconds", "bytes"):
        ratios = [mine["making"][what] / peer["making"][what] for mine, peer in zip(ours, theirs, strict=True)]
        print(f"making, {what}: {median(ratios):.3f} × TransformerLens ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
