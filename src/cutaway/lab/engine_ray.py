"""The same tasks on a Ray cluster. Each runs with the thread count that it would have here, so its numbers are the same."""

import logging
from collections.abc import Iterator, Sequence

from cutaway.errors import LabError
from cutaway.lab.ledger import Ledger
from cutaway.lab.record import Record
from cutaway.lab.runner import Task, keep, perform


def on_ray(tasks: Sequence[Task], ledger: Ledger | None, address: str | None = None) -> Iterator[Record]:
    """Records as they are done, each written to the ledger here. Without an address a cluster is started on this machine.

    Raises LabError without Ray. A run that is stopped keeps the tasks that were done; units within a task are not kept.
    """
    try:
        import ray
    except ImportError:
        raise LabError("Ray is not installed", then='install it with: pip install "cutaway[ray]"') from None
    ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        remote = ray.remote(perform_elsewhere)
        waiting = [remote.options(num_cpus=task.threads).remote(task) for task in tasks]
        while waiting:
            done, waiting = ray.wait(waiting)
            made = Record.from_dict(ray.get(done[0]))
            if ledger:
                keep(ledger, made)
            yield made
    finally:
        ray.shutdown()


def perform_elsewhere(task: Task) -> dict[str, object]:
    return perform(task).to_dict()
