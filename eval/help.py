"""What `scripts/run.py --help` prints: groups and settings, read from `configs/` as they stand."""

from __future__ import annotations

from pathlib import Path

from eval.outside import config_names

_CONFIGS = Path(__file__).resolve().parent.parent / "configs"
_GROUPS = ("dataset", "method", "protocol", "profile", "encoder", "reranker", "llm", "judge")


def run_help(usage: str) -> str:
    """Return the usage, the choices of every group, and the settings of a run."""
    lines = [usage.strip(), "", "Groups (GROUP=CHOICE; chat models: llm@llm.main=CHOICE):"]
    for group in _GROUPS:
        lines.append(f"  {group:<9} {' '.join(config_names(group))}")
    settings = (_CONFIGS / "run.yaml").read_text(encoding="utf-8")
    body = settings.split("\nstage:", 1)[1].split("\nhydra:", 1)[0]
    lines += [
        "",
        "Settings and their defaults (configs/run.yaml):",
        "  stage:" + body.split("\n")[0],
    ]
    lines += [f"  {line}" if line else "" for line in body.split("\n")[1:]]
    return "\n".join(lines).rstrip()
