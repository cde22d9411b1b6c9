"""Auditing published numbers: what each can be, what it agrees with, what the text says of it."""
