"""Optional models behind measures; importing this package loads none."""
