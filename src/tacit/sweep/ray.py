"""Sweeps on a Ray cluster. All machines must see the folder of the runs, and have the same version of Tacit.

Ray only starts the work and says how it ended. What is finished, and where to go on after a crash, is in the run
folders as always, so Ray's own retries and its object store are not used.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from tacit.errors import UserError, install_command
from tacit.sweep import THREADS, Task
from tacit.sweep.worker import CRASHED, work

TIMEOUT = 5.0
"""Seconds to wait for an address to answer."""


class RayCrew:
    """Tasks on a cluster: "local" starts one on this machine, "auto" finds one that runs here, HOST:PORT names one."""

    def __init__(self, address: str, workers: int | None) -> None:
        check_address(address)
        import ray

        self._ray, self._workers = ray, workers
        try:
            ray.init(
                address=address,
                runtime_env={"env_vars": THREADS},
                log_to_driver=False,
                configure_logging=False,
                include_dashboard=False if address == "local" else None,
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise UserError(f"there is no Ray cluster at {address}: {_first_line(error)}") from None
        # One processor each; the run folder knows where to go on, so Ray need not try again.
        self._work = ray.remote(num_cpus=1, max_retries=0)(work_in)

    def __enter__(self) -> RayCrew:
        self._running: set[Any] = set()
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._running:
            self._ray.cancel(handle, force=True)
        self._ray.shutdown()

    @property
    def size(self) -> int:
        """The limit if there is one, otherwise the number of processors that the cluster has now."""
        return max(1, self._workers or int(self._ray.cluster_resources().get("CPU", 1)))

    def start(self, task: Task) -> Any:
        handle = self._work.remote(
            os.getcwd(), task.job.algo, task.job.env, str(task.path.parent), dict(task.job.wanted)
        )
        self._running.add(handle)
        return handle

    def ended(self, handles: list[Any]) -> Iterable[tuple[Any, tuple[int, str]]]:
        if not handles:
            return
        ready, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        for handle in ready:
            self._running.discard(handle)
            try:
                yield handle, self._ray.get(handle)
            except self._ray.exceptions.RayError as error:
                yield handle, (CRASHED, f"the worker died: {_first_line(error)}")


def work_in(folder: str, algo: str, env: str, out: str, wanted: dict[str, Any]) -> tuple[int, str]:
    """Run `work` in the folder where the sweep was started, because jobs name files relative to it."""
    if os.path.isdir(folder):
        os.chdir(folder)
    return work(algo, env, out, wanted)


def check_address(address: str) -> None:
    """UserError within seconds if Ray is not installed or nothing listens there. Ray itself would keep trying."""
    if find_spec("ray") is None:
        raise UserError(f"--ray needs Ray, which is not installed: {install_command('ray')}")
    parts = re.fullmatch(r"(?:ray://)?(\[[^\]]+\]|[^:/]+):(\d+)", address)
    if parts is None:
        if address not in ("auto", "local"):
            raise UserError(f"--ray takes HOST:PORT, ray://HOST:PORT, auto or local, not {address!r}")
        return
    try:
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), timeout=TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"there is no Ray cluster at {address}: {error}") from None


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
