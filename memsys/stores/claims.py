"""Claims on keys, held by one process at a time: two processes never fetch the same thing at once.

A claim is a lock on one byte of a file that stays empty; the operating system drops it when its
process ends, however that happens. Where a file system knows no locks, every claim is granted:
then the same thing may be fetched twice, and nothing worse.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Claims:
    """Claims on hexadecimal keys, through the locks of one file."""

    def __init__(self, path: Path) -> None:
        """Use the file `path`; it is made at the first claim."""
        self.path = path
        self._file: int | None = None
        self._useless = False

    def take(self, key: str) -> bool:
        """Claim `key`; false if another process holds it."""
        if self._useless:
            return True
        try:
            fcntl.lockf(self._open(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key))
        except BlockingIOError:
            return False
        except PermissionError:
            if self._file is None:
                self._useless = True  # a folder that is read only
                return True
            return False  # some systems say EACCES for "held"
        except OSError:
            self._useless = True
        return True

    def release(self, key: str) -> None:
        """Give `key` back."""
        if self._file is not None and not self._useless:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(key))

    def close(self) -> None:
        """Give everything back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        # opened once: closing any descriptor of the file would drop all of this process's locks
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        return self._file


def _byte(key: str) -> int:
    return int(key[:15], 16)
