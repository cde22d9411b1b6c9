"""Replies that have the shape which was asked for, and anything at all in it."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from pydantic import BaseModel

ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


def filled_with_anything(schema: type[BaseModel]) -> st.SearchStrategy[str]:
    """JSON objects with a schema's own keys."""
    return st.fixed_dictionaries(dict.fromkeys(schema.model_fields, ANYTHING)).map(json.dumps)
