"""This process as a client of a cluster: its connection, the memory shared with the cluster, its share of the devices' time and its virtual slices.

May import _jax, _cluster and _callbacks.

    connection.py     makes jax's client, and starts the process that it connects to
    doors.py          chooses the door by which this process enters a cluster; implements the PJRT door
    connect.py        waits until a controller listens
    environment.py    sets environment variables that jax reads
    timer_slack.py    lets the client's idle threads sleep longer
    host_memory.py    moves large arrays through shared memory
    programs.py       sends programs of many nodes, and calls them; wire.py encodes them
    profiler.py       puts the events of the hosts into the profiles of jax.profiler
    questions.py      asks the cluster on the client's own connection
    shares.py         the share that this process wants; set_share.py changes it
    slices.py         virtual slices; seats.py lists devices whose hosts are lost
"""
