"""The run folder: everything that a run writes, and the only interface between training and later commands."""

from tacit.run.folder import SCHEMA, Run, RunInUse, in_use, provenance, versions
from tacit.run.naming import run_name

__all__ = ["SCHEMA", "Run", "RunInUse", "in_use", "provenance", "run_name", "versions"]
