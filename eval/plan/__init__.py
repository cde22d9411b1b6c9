"""Planning: what runs will cost, found by running them on a model that answers without thinking."""
