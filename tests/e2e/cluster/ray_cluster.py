"""Runs a Ray cluster on this machine, a head and nodes with room for one host each, for as long as standard input is open.

    ray_cluster.py NODES     prints the address, then reads commands: "remove NODE_ID" kills a node with all its processes

Ends only the processes that it started, by their pids.
"""

import sys

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
try:
    nodes = [cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]))]
    print(cluster.address, flush=True)
    for line in sys.stdin:
        _, node_id = line.split()
        (node,) = [n for n in nodes if n.node_id == node_id]
        cluster.remove_node(node, allow_graceful=False)
        print("removed", flush=True)
finally:
    cluster.shutdown()
