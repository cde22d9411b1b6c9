"""Two runs, question by question: what differs, by how much, and in which settings."""
