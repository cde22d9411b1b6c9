"""Claims: one process at a time, whatever becomes of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from memsys.stores.claims import Claims

KEY = "0123456789abcdef" * 4
CODE = (
    "import sys; from pathlib import Path; from memsys.stores.claims import Claims\n"
    "c = Claims(Path(sys.argv[1])); print(c.take(sys.argv[2]), flush=True)\n"
    "sys.stdin.readline(); c.release(sys.argv[2]); print('released', flush=True); sys.stdin.read()"
)


def other(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, str(path), KEY],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "True\n"
    return process


def test_a_key_that_another_process_claims_is_held_until_it_is_released(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "new" / "claims")
    process = other(claims.path)
    assert not claims.take(KEY)
    assert claims.take("f" * 64)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "released\n"
    assert claims.take(KEY)
    process.communicate("", 30)
    claims.close()


def test_a_killed_process_claims_nothing(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims")
    process = other(claims.path)
    assert not claims.take(KEY)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert claims.take(KEY)


def test_a_file_system_without_locks_grants_everything(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("memsys.stores.claims.fcntl.lockf", refuse)
    claims = Claims(tmp_path / "claims")
    assert claims.take(KEY) and claims.take(KEY)
    claims.release(KEY)
