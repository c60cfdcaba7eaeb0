"""The same tasks on a Ray cluster. Each runs with the thread count that it would have here, so its numbers are the same."""

import logging
from collections.abc import Callable, Iterator, Sequence

from cutaway.errors import CutawayError, LabError
from cutaway.lab.ledger import Keeper
from cutaway.lab.plan import Skipped, Task
from cutaway.lab.record import Record
from cutaway.lab.runner import attempt
from cutaway.progress import Progress


def on_ray(
    tasks: Sequence[Task], keeper: Keeper | None, progress: Callable[[Task], Progress], address: str | None = None
) -> Iterator[Record | Skipped]:
    """Results in the order of the tasks, each written to the ledger here. Without an address a cluster is started on this machine.

    Other machines must have cutaway, the models, the data sets and an experiment's own file where this one has them.
    Raises LabError without Ray, or where the cluster cannot be reached. A run that is stopped keeps the tasks that were
    written; the one under way begins anew.
    """
    try:
        import ray
    except ImportError:
        raise LabError("Ray is not installed", then='install it with: pip install "cutaway[ray]"') from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise LabError(f"The Ray cluster {address or 'on this machine'} cannot be used: {error}", then="ray status shows one") from None
    try:
        remote = ray.remote(attempt)
        sent = [(task, remote.options(num_cpus=task.threads, max_retries=0).remote(task)) for task in tasks]
        for task, waiting in sent:
            progress(task)("on Ray", 0, 1)
            try:
                made = ray.get(waiting)
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                raise (cause if isinstance(cause, CutawayError) else LabError(f"{task} failed on Ray: {cause or error}")) from None
            if keeper and isinstance(made, Record):
                keeper.keep(made)
            yield made
    finally:
        ray.shutdown()
