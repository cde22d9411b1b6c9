"""Benchmarks: files on disk to conversations and questions, one module each."""
