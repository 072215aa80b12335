"""Old names of modules that have moved. Each still imports for one minor version, with a DeprecationWarning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "tacit.calibration": "tacit.cost.calibration",
    "tacit.cell_rules": "tacit.explain.cells",
    "tacit.compiled": "tacit.run.machine",
    "tacit.cost_card": "tacit.cost.card",
    "tacit.cost_ensemble": "tacit.cost.ensemble",
    "tacit.cost_quality": "tacit.cost.quality",
    "tacit.cost_table": "tacit.cost.table",
    "tacit.envs.making": "tacit.envs.registry",
    "tacit.envs.saving": "tacit.envs.rng_state",
    "tacit.evaluate_exact": "tacit.forward.evaluate_exact",
    "tacit.explain_words": "tacit.explain.words",
    "tacit.feature_plots": "tacit.plots.features",
    "tacit.gae": "tacit.forward.gae",
    "tacit.grid_plots": "tacit.plots.grids",
    "tacit.inverse.alternation": "tacit.inverse.loop",
    "tacit.inverse.deep_run": "tacit.inverse.trainer",
    "tacit.inverse.registry": "tacit.algorithms",
    "tacit.lagrange": "tacit.forward.lagrange",
    "tacit.nets": "tacit.forward.nets",
    "tacit.normalize": "tacit.forward.normalize",
    "tacit.preflight": "tacit.explain.preflight",
    "tacit.progress": "tacit.run.terminal",
    "tacit.report.findings": "tacit.explain.findings",
    "tacit.rule_plots": "tacit.plots.rules",
    "tacit.rules": "tacit.explain.rules",
    "tacit.run_lock": "tacit.run.lock",
    "tacit.sinks": "tacit.run.sinks",
    "tacit.storage": "tacit.run.storage",
    "tacit.sweep_file": "tacit.sweep.file",
    "tacit.sweep_ray": "tacit.sweep.ray",
    "tacit.sweep_time": "tacit.sweep.time",
    "tacit.sweep_worker": "tacit.sweep.worker",
    "tacit.threads": "tacit.run.machine",
    "tacit.video": "tacit.plots.video",
}


class _Finder(MetaPathFinder, Loader):
    """Imports the new module under its old name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} is now {new}; the old name goes with version 0.3", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has been executed under its new name, which it keeps."""
        if module.__spec__ is not None and module.__spec__.loader is self:
            module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Let the old names be found; twice is the same as once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
