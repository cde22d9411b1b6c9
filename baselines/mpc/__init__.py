"""MPC: a chatbot of prompted modules around a pool of memories."""

from baselines.mpc.system import Mpc, MpcAsk, MpcBuild

__all__ = ["Mpc", "MpcAsk", "MpcBuild"]
