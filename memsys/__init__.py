"""The ground that every long-term conversational memory system stands on."""

__version__ = "0.1.0"
