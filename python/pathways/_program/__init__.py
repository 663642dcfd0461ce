"""`@pw.program`: many compiled functions, on any devices, as one program, with one message to the cluster. See docs/programs.md.

tracer.py has the decorator. It records calls into a graph (graph.py), which goes to the cluster in the form of _client/wire.py.

host_functions.py makes nodes of functions that run on hosts, route_nodes.py those of rows that travel to where values say (route.py).

May import _jax, _callbacks and _client.
"""
