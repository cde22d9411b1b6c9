"""Encoders (text → vectors) and rerankers ((query, text) → score)."""
