"""The run folder: everything that a run writes, and the only interface between training and what comes after it."""

from tacit.run.folder import SCHEMA, Run, RunInUse, in_use, provenance, run_name, versions

__all__ = ["SCHEMA", "Run", "RunInUse", "in_use", "provenance", "run_name", "versions"]
