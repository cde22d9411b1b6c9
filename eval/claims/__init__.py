"""The claims of a paper, held against runs: holds, does not hold, or cannot be judged here."""
