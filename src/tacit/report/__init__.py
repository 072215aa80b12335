"""Reports: one HTML file about one or more runs, without network and scripts, for screens, phones and paper.

    write_report([Run.open("runs/mce-exact-gridworld-s0-3fa1b2c4")], "report.html")

Each section is a function `(RunData, anchor) -> Section | None`; a new family of runs adds its functions to
`page.SECTIONS`. `data.py` says what is read from the run folder, and tolerates what is missing.
"""

from tacit.report.data import RunData, load_run
from tacit.report.page import render_report, write_report

__all__ = ["RunData", "load_run", "render_report", "write_report"]
