"""Shared set-up: no network, no model hub, one thread a worker, one look of the terminal."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# what a command prints must not depend on the terminal that the tests happen to run in
os.environ["COLUMNS"] = "160"
for name in ("LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

# the same examples every time; `make test-all` (--hypothesis-profile=explore) looks for new ones
settings.register_profile("memsys", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("memsys")
