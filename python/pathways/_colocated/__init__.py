"""Colocated Python: functions of jax.experimental.colocated_python run on the hosts of their devices, in processes beside the workers.

May import _jax, _callbacks and _client.

    envelope.py       packs a function with the client's Python version, jax configuration, and the sources of its own modules
    functions.py      in the client: puts functions into envelopes, and keeps them from running in the client by mistake
    program_flags.py  carries the program's command-line flags to the hosts
    host.py           the process on a host: a worker starts it for each session (pathways/worker/python)
    lent_files.py     the files in memory by which results go to the worker
    wire.py           the messages between that process and its worker
"""
