"""What the paper says in its figures 5 to 9, as far as it compares with one machine, and what differs here."""

FIGURES = {
    "5": {"title": "Dispatch overhead: computations a second",
          "paper": "On up to 2048 TPUs. Fused, Pathways equals multi-controller JAX up to 1000 cores; Chained, it is ahead of JAX OpByOp up to 256 cores.",
          "here": "CPU devices of this machine, which share its cores: the times of collectives grow with the number of devices, as those of TPUs do not. "
                  "At most 16 calls are under way, because deeper queues of collectives can stop JAX's own CPU runtime; one column of ours has no "
                  "such limit. Ray, TensorFlow and simulated devices are not measured."},
    "6": {"title": "The smallest computation at which the throughput equals JAX's",
          "paper": "2.3 ms for 16 hosts with 128 TPUs, about 35 ms for 512 hosts with 2048 TPUs.",
          "here": "One and two hosts, as many devices as there are cores to compute on. 16 and 512 hosts are simulated: the time that the real session, scheduler and "
                  "dispatch of the controller need for a computation, with hosts that answer at once and without sockets. Computations that take longer hide "
                  "it, so it is a lower bound of what the paper measured."},
    "7": {"title": "Parallel against sequential dispatch, a stage on each host",
          "paper": "Parallel dispatch amortises the cost of each stage; sequential dispatch falls with every stage.",
          "here": "Every host is a worker process of this machine. All of them share its cores, so both fall; their ratio is what compares."},
    "8": {"title": "Several clients on the same device",
          "paper": "No cost of switching between programs: together the clients reach at least what one reaches.",
          "here": "One CPU device, one program of some milliseconds, 1 to 16 client processes."},
    "9": {"title": "Device time by weight",
          "paper": "Four clients get 1:1:1:1 and 1:2:4:8 of the device's time, as a trace shows.",
          "here": "The table: what the scheduler accounted for, over a window in which every client had work waiting. The picture: computations as recorded after "
                  "it, with eight of each client under way."},
}
PARITY_MS = {"16x8 TPUs": 2.3, "512x4 TPUs": 35.0}
