"""What does opening a model cost? GPT-2 124M from safetensors, against the safetensors library itself.

Both arms read every tensor once (its sum), so that neither gets away with not touching the file; each runs in a process of its own,
in turns, the file in the operating system's cache. Time is of loading and summing alone. Memory is measured in other runs, since
looking costs time: the peak of the resident set above what the process had after its imports, as a ratio to the weights' bytes.

    .venv/bin/python benchmarks/loading.py [rounds]
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from cutaway.core.transformer import Transformer
from cutaway.families import find_known
from cutaway.weights.publish import publish
from cutaway.weights.safetensors import save_safetensors

MEASURED = """
import json, resource, sys, threading, time
from pathlib import Path
import torch
torch.set_num_threads(1)
{imports}

def resident():  # file pages count: a mapped file is in memory too
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

peak, running = resident(), True
def watch():
    global peak
    while running:
        peak = max(peak, resident())
        time.sleep(0.002)

before = resident()
watcher = threading.Thread(target=watch)
if sys.argv[2] == "memory":
    watcher.start()
started = time.perf_counter()
{load}
total = sum(float(tensor.sum()) for tensor in tensors)
seconds = time.perf_counter() - started
peak = max(peak, resident())
running = False
print(json.dumps(dict(seconds=seconds, peak=peak - before, total=total)))
"""
ARMS = {
    "safetensors": (
        "from safetensors import safe_open",
        "file = safe_open(sys.argv[1] + '/model.safetensors', framework='pt')\ntensors = (file.get_tensor(name) for name in file.keys())",
    ),
    "safetensors, load_file": (
        "from safetensors.torch import load_file",
        "tensors = load_file(sys.argv[1] + '/model.safetensors').values()",
    ),
    "cutaway, the weights": (
        "from pathlib import Path\nimport cutaway.weights.safetensors\nfrom cutaway.weights.opening import open_weights",
        "tensors = open_weights(Path(sys.argv[1]))[0].values()",
    ),
    "cutaway.load, a model": (
        "import cutaway, cutaway.load, cutaway.weights.safetensors",
        "tensors = cutaway.load(sys.argv[1]).transformer.parameters()",
    ),
}


def write_model(folder: Path) -> int:
    """A model of GPT-2's shape in its published layout, random numbers; returns its bytes."""
    known = find_known("gpt2")
    assert known is not None
    rng = torch.Generator().manual_seed(0)
    model = Transformer(known.config)
    own = {name: torch.randn(p.shape, generator=rng) for name, p in model.named_parameters()}
    save_safetensors(folder / "model.safetensors", publish(own, known.family.hub.rules(known.config), known.config.layers))
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return sum(p.numel() * 4 for p in own.values())


def run(arm: str, folder: Path, what: str) -> float:
    """Seconds, or bytes of memory."""
    imports, load = ARMS[arm]
    code = MEASURED.format(imports=imports, load=load)
    done = subprocess.run([sys.executable, "-c", code, str(folder), what], check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["peak" if what == "memory" else "seconds"])


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_model(folder)
        memory = {arm: run(arm, folder, "memory") / size for arm in ARMS}  # and the file is in the cache
        seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
        for _ in range(rounds):
            for arm in ARMS:
                seconds[arm].append(run(arm, folder, "time"))
        print(f"GPT-2 124M, {size / 1e6:.0f} MB, float32, one thread, {rounds} rounds in turns")
        for arm, taken in seconds.items():
            ratio = statistics.median(mine / peer for mine, peer in zip(taken, seconds["safetensors"], strict=True))
            print(f"{arm:24} {statistics.median(taken):6.3f} s  {ratio:5.2f} × safetensors   peak {memory[arm]:4.2f} × the weights")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
