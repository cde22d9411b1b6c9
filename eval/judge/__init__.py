"""LLM judges: each reads one answered question and returns scores, or no verdict."""
