"""The state of a training run in one safetensors file: weights, the optimizer's two moments, and how far it has come."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from cutaway.errors import TrainError
from cutaway.weights.safetensors import save_safetensors

FILE = "state.safetensors"


def save(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, run: dict[str, Any], step: int, tokens: int
) -> None:
    """Write the state to a temporary name and rename, so that a stopped save leaves the one before it."""
    state = {f"weight/{name}": p.detach() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        for moment, value in optimizer.state[p].items():
            state[f"{moment}/{name}"] = value
    folder.mkdir(parents=True, exist_ok=True)
    save_safetensors(folder / FILE, state, {"run": json.dumps(run), "step": str(step), "tokens": str(tokens)})


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, run: dict[str, Any]) -> tuple[int, int]:
    """Load the state if there is one; returns steps and tokens done. Raises TrainError if it belongs to another run."""
    if not (folder / FILE).exists():
        return 0, 0
    with safe_open(folder / FILE, framework="pt") as state:
        about = state.metadata()
        saved = json.loads(about["run"])
        if saved != run:
            other = [f"{part}.{key}" for part in run for key in run[part] if saved.get(part, {}).get(key) != run[part][key]]
            raise TrainError(
                f"{folder / FILE} is of another run; these differ: {', '.join(other)}",
                then="resume with the settings it was started with, or name another folder",
            )
        for name, p in model.named_parameters():
            p.data.copy_(state.get_tensor(f"weight/{name}"))
            optimizer.state[p] = {m: state.get_tensor(f"{m}/{name}") for m in ("step", "exp_avg", "exp_avg_sq")}
    return int(about["step"]), int(about["tokens"])


def weights(folder: Path) -> dict[str, Tensor]:
    """The model's parameters alone, by name."""
    with safe_open(folder / FILE, framework="pt") as state:
        return {name.removeprefix("weight/"): state.get_tensor(name) for name in state.keys() if name.startswith("weight/")}  # noqa: SIM118
