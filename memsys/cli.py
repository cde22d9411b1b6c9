"""How every command ends: one clear sentence for bad input, a traceback only for our own bugs."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from memsys.errors import MemsysError, UserError

if TYPE_CHECKING:
    from rich.console import Console

FAILED_QUESTIONS = 3
"""Exit status of a command that finished, with questions that could not be answered."""

_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}
"""What a disk says of itself, where Python does not know for which file."""


def guarded(main: Callable[[], int | None]) -> NoReturn:
    """Run `main` and leave with its exit status.

    0 fine, 1 our bug, 2 the user's input, 3 finished with failed questions, 4 stopped at the
    budget, 130 interrupted, 143 terminated.
    """
    try:
        status = main() or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader (head, less) went away: not an error, but Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except KeyboardInterrupt:
        print(
            "interrupted: everything finished is kept; the same command goes on from there",
            file=sys.stderr,
        )
        status = 130
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        text, status = told
        print(text, file=sys.stderr)
    sys.exit(status)


def console(*, highlight: bool = True) -> Console:
    """Return what a command prints on: as wide as the terminal, or 160 where there is none."""
    from rich.console import Console  # lazily: --help needs none

    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    return Console(width=wide, highlight=highlight)


def sentence(error: BaseException) -> tuple[str, int] | None:
    """Return what to tell the user and the exit status, or `None` for a bug of ours."""
    if isinstance(error, MemsysError):
        # a command that stops on purpose has done nothing wrong
        label = "error" if error.exit_status in (1, UserError.exit_status) else "stopped"
        return f"{label}: {error}", error.exit_status
    if isinstance(error, OSError):
        if error.filename is not None:
            return f"error: {error.filename}: {error.strerror}", UserError.exit_status
        if error.errno in _MACHINE:
            return (
                f"error: {error.strerror}. Everything finished is kept; once this is mended, the "
                "same command goes on from there.",
                UserError.exit_status,
            )
    return None
