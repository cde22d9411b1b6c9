"""Measures: one metric a file, each a value that prints its own definition."""
