"""Chat models: one protocol, several back ends, stored replies, and a ledger of what they cost."""
