"""Figures: the papers' curves, distributions, bars, radars and error matrices, drawn from runs."""
