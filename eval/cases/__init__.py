"""Case studies: one question through several systems, as the papers' figures show it."""
