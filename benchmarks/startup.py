"""How long until the first answer? Cold processes, in turns, medians; first numbers as a ratio to `import torch` alone.

    .venv/bin/python benchmarks/startup.py [rounds]
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

CUTAWAY = str(Path(sys.executable).with_name("cutaway"))
FIRST_NUMBER = "import cutaway; print(cutaway.load('nano-gpt2').next_token('The trophy').candidates[0].probability)"
CONTENDERS = {
    "import torch": [sys.executable, "-c", "import torch"],
    "first number of a nano model": [sys.executable, "-c", FIRST_NUMBER],
    "cutaway --help": [CUTAWAY, "--help"],
    "cutaway next": [CUTAWAY, "next", "The trophy"],
    "cutaway trophy": [CUTAWAY, "trophy"],
}


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main(rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, command in CONTENDERS.items():
            times[name].append(seconds(command))
    torch = statistics.median(times["import torch"])
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name:30} {median:6.2f} s   {median / torch:5.2f} × import torch   ({min(taken):.2f} to {max(taken):.2f}, n = {rounds})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
