"""Tables: rows × columns of a paper's table, filled from runs, beside the published cells."""
