"""Launchers of clusters. up.py starts one on this machine (`pathways up`) or by an engine: slurm.py, ray.py. join.py adds a worker or an agent to a
cluster that runs (`pathways worker --join`, `pathways agent`).

May import _cluster and _commands.
"""
