"""Starts clusters: up.py on this machine (`pathways up`), slurm.py, ray.py and k8s.py by an engine. join.py adds a worker or an agent to a running
cluster (`pathways worker --join`, `pathways agent`).

May import _cluster and _commands.
"""
