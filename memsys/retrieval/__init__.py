"""Shared numeric kernels: ranking, vector index, mixtures, Personalized PageRank, BM25."""
