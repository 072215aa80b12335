"""Bring other people's logs, arrays, pickles and tables: docs/bring-your-logs.md.

    from tacit.imports import read
    data = read("rollouts/", env="tacit/HalfCheetah-v0")

One way in four steps, one module each: `contents` and `tables` read a file as plain arrays, without running anything in
it; `layouts` and `splitting` find out which arrays are what and where episodes begin; `episodes` aligns actions with
observations and completes what is missing; `importing` puts everything together and compares it with an environment.
"""

from tacit.imports.importing import Imported, import_files, read
from tacit.imports.reading import Choices
from tacit.imports.target import Target

__all__ = ["Choices", "Imported", "Target", "import_files", "read"]
