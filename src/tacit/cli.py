"""The command line: `tacit VERB ...`, one module of `tacit.commands` per verb, imported only when it is asked for.

Exit status: 0 done, 1 the run or the check failed, 2 the input was wrong, 130 stopped with Ctrl-C. A mistake of the
user's gives one line on stderr and no traceback; a traceback is always a bug.

-q and -v are options of every command: nothing on stderr but warnings and errors, or also what is read and written.
"""

from __future__ import annotations

import difflib
import os
import sys
import traceback
import warnings
from importlib import import_module

from tacit import startup
from tacit.errors import RunFailed, UserError, extra_of, install_command
from tacit.run import log, terminal

VERBS = {
    "demo": "discover a hidden constraint: solve the built-in gridworld exactly and write a report",
    "playground": "draw a gridworld in the browser, hide a constraint, and watch it being inferred",
    "envs": "list the environments, with constraint, horizon and spaces",
    "demos": "make, show, validate and convert demonstrations",
    "traffic": "look at traffic recordings, write them as highD files, validate them",
    "preflight": "check before learning: is there anything to learn from the demonstrations?",
    "learn": "learn a constraint and a policy from demonstrations",
    "expert": "train an expert who knows the constraint, and let it demonstrate",
    "runs": "list the runs, with what each of them found",
    "resume": "continue an interrupted run",
    "sweep": "run an algorithm over seeds, environments and settings, several runs at once",
    "eval": "measure a run's policy and cost against the truth",
    "calibrate": "choose the threshold of a learned cost, with a guarantee",
    "explain": "say in words what a run has learned, and what cannot be known",
    "retrain": "train a fresh agent on a learned cost: does the cost work without its own policy?",
    "transfer": "train a fresh agent on a learned cost in another environment",
    "certify": "check an exact solution again, from its weights alone",
    "reproduce": "measure an experiment again: numbers, table, figure",
    "report": "write one HTML page about one or more runs",
    "export": "take a policy and a cost to ONNX, torch or Stable-Baselines3",
    "doctor": "check this installation: versions, threads, and what is missing",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args, level = _verbosity(list(sys.argv[1:] if argv is None else argv))
    with terminal.cleaned(), log.on_stderr(level), log.bars(level <= log.NORMAL):
        status = _run(args)
    if argv is None:
        startup.end(status)
    return status


def _verbosity(args: list[str]) -> tuple[list[str], int]:
    """(the other arguments, how much is said on stderr)."""
    quiet, verbose = {"-q", "--quiet"}, {"-v", "--verbose"}
    level = log.VERBOSE if verbose & {*args} else log.QUIET if quiet & {*args} else log.NORMAL
    return [arg for arg in args if arg not in quiet | verbose], level


def _run(args: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **_: _say(f"warning: {message}")
        try:
            return _dispatch(args)
        except UserError as error:
            _say(f"error: {error}", error)
            return 2
        except RunFailed as error:
            _say(f"failed: {error}", error)
            return 1
        except ModuleNotFoundError as error:
            extra = extra_of(error)
            if extra is None:
                raise
            _say(f"error: this needs {error.name}, which is not installed: {install_command(extra)}")
            return 2
        except KeyboardInterrupt as stop:
            _say(f"stopped; {stop}" if str(stop) else "stopped")
            return startup.STOPPED
        except BrokenPipeError:
            # The reader of our output has left (`tacit envs | head`); keep Python from complaining about it on exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:
            _say(f"failed: {error.filename or 'file'}: {error.strerror or error}", error)
            return 1


def _dispatch(args: list[str]) -> int:
    verb, rest = (args[0], args[1:]) if args else ("", [])
    if verb in ("-h", "--help", "help") and not rest:
        print(usage())
        return 0
    if verb == "--version":
        from tacit import __version__

        print(f"tacit {__version__}")
        return 0
    if not verb:
        print(usage(), file=sys.stderr)
        return 2
    if verb == "help":
        verb, rest = rest[0], ["--help"]
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean `tacit {close[0]}`?" if close else "`tacit --help` lists the commands"
        raise UserError(f"there is no command {verb!r}; {hint}")
    try:
        status: int = import_module("tacit.commands").run(verb, rest)
        return status
    except SystemExit as stop:  # tyro, after --help (0) or on arguments that do not parse (2)
        return stop.code if isinstance(stop.code, int) else 2


def usage() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {text}" for verb, text in VERBS.items()]
    return "\n".join(
        [
            "usage: tacit COMMAND ...",
            "",
            "Learn the constraints that nobody wrote down. Start with `tacit demo`.",
            "",
            *lines,
            "",
            "`tacit COMMAND --help` explains a command. RUN is a run folder, the beginning of its name, or `latest`.",
            "Every command takes -q (only the result, warnings and errors) and -v (also what is read and written).",
            "Exit status: 0 done, 1 failed, 2 wrong input, 130 stopped.",
        ]
    )


def _say(text: str, error: Exception | None = None) -> None:
    """One line on stderr. With -v the way to the error comes first."""
    if error is not None and log.logger.isEnabledFor(log.VERBOSE):
        traceback.print_exception(error)
    print(" ".join(text.split()), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
