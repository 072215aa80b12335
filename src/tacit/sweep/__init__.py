"""Many runs: jobs from Python or from a file, in local processes or on a Ray cluster."""

from tacit.sweep.runner import THREADS, Job, LocalCrew, Task, prepare, run_jobs, run_tasks

__all__ = ["THREADS", "Job", "LocalCrew", "Task", "prepare", "run_jobs", "run_tasks"]
