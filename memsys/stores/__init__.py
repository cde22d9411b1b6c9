"""Content-addressed stores, shared by all runs: replies, vectors and memories."""
