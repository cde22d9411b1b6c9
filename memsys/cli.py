"""How every command ends: one clear sentence for bad input, a traceback only for our own bugs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from memsys.errors import MemsysError, UserError

FAILED_QUESTIONS = 3
"""Exit status of a command that finished, with questions that could not be answered."""


def guarded(main: Callable[[], int | None]) -> NoReturn:
    """Run `main` and leave with its exit status.

    0 fine, 1 our bug, 2 the user's input, 3 finished with failed questions, 130 interrupted.
    """
    try:
        status = main() or 0
        sys.stdout.flush()
    except MemsysError as error:
        print(f"error: {error}", file=sys.stderr)
        status = error.exit_status
    except BrokenPipeError:
        # the reader (head, less) went away: not an error, but Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        if error.filename is None:
            raise  # not about a file of the user's: our own bug, with its traceback
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        status = UserError.exit_status
    except KeyboardInterrupt:
        print(
            "interrupted: everything finished is kept; the same command goes on from there",
            file=sys.stderr,
        )
        status = 130
    sys.exit(status)
