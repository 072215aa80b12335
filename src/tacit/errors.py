"""The two ways in which something the user asked for can go wrong.

The command line turns them into one line on stderr and an exit status; in Python they are ordinary exceptions.
"""


class UserError(ValueError):
    """The input is wrong (a file, an option, an argument). One sentence: what, where, how to fix it. Exit status 2."""


class RunFailed(RuntimeError):
    """The input was fine but the run did not succeed (diverged, infeasible, check failed). Exit status 1."""
