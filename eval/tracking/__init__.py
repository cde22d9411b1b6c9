"""wandb, if a command asks for it: settings, live progress, scores, tables, figures, files.

Off by default, and never in the way: all of it happens on a thread of its own, and whatever goes
wrong there is one warning. No key is sent, and no text of a benchmark unless `wandb.records=true`.
"""

from eval.tracking.follow import Following, follow_command, follow_run
from eval.tracking.settings import Tracking, split_settings

__all__ = ["Following", "Tracking", "follow_command", "follow_run", "split_settings"]
