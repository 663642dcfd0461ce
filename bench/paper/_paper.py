"""What the paper says in its figures and tables, as far as it compares with one machine, and what differs here."""

FIGURES = {
    "5": {"title": "Dispatch overhead: computations a second",
          "paper": "On up to 2048 TPUs. Fused, Pathways equals multi-controller JAX up to 1000 cores; Chained, it is ahead of JAX OpByOp up to 256 cores.",
          "here": "CPU devices of this machine, which share its cores: the times of collectives grow with the number of devices, as those of TPUs do not. "
                  "Everybody has 16 calls under way, and whenever the oldest eight are done there are eight more: deeper queues of collectives can stop JAX's own CPU runtime. "
                  "One column of ours has 1024. So have all on one device, where nothing can stop; but there a sum over devices is nothing at all, so all that is "
                  "measured is what a call costs: JAX's a function call, ours a message to another process, whose least is in the table below (a server that "
                  "discards). The paper's Fused is 128 sums over real devices, as here from two devices on. TensorFlow: one graph over logical devices of one process. Ray: an actor for each device, Chained is a compiled graph; "
                  "Fused would need collectives between actors. The last rows: simulated devices, whose computations take no time, behind a stock client and the real "
                  "controller; all their hosts are one process of this machine, so the rates are its processors' and not the controller's alone. The tables below: of many calls under way, what each takes "
                  "of the processors, by process, while the caller makes or awaits it; of one call alone, its way by a recording: the client and the wire, the controller, the wire to the "
                  "workers, the workers, the devices, and back."},
    "6": {"title": "The smallest computation at which the throughput equals JAX's",
          "paper": "2.3 ms for 16 hosts with 128 TPUs, about 35 ms for 512 hosts with 2048 TPUs.",
          "here": "One and two hosts, as many devices as there are cores to compute on. 16 and 512 hosts are simulated: the time that the real session, scheduler and "
                  "dispatch of the controller need for a computation, with hosts that answer at once and without sockets. Computations that take longer hide "
                  "it, so it is a lower bound of what the paper measured. Then the same with a stock client, sockets and all hosts (one process here), whose devices take "
                  "no time: what a computation takes of each process on its way. On machines of their own these work side by side, and the busiest is what the "
                  "computation has to be longer than."},
    "7": {"title": "Parallel against sequential dispatch, a stage on each host",
          "paper": "Parallel dispatch amortises the cost of each stage; sequential dispatch falls with every stage.",
          "here": "Every host is a worker process of this machine. All of them share its cores, so both fall; their ratio is what compares."},
    "8": {"title": "Several clients on the same device",
          "paper": "No cost of switching between programs: together the clients reach at least what one reaches.",
          "here": "1 to 16 client processes. On a simulated device, computations of the paper's lengths and of 10 ms: it is busy for as long as they take and needs no "
                  "processor for it, so whatever it stands still was lost between clients; all else is real, in real time. On a CPU device, a computation of some "
                  "milliseconds: it shares the processors with the clients, whose part is missing for computing. What each takes of the processors is beside it."},
    "9": {"title": "Device time by weight",
          "paper": "Four clients get 1:1:1:1 and 1:2:4:8 of the device's time, as a trace shows.",
          "here": "The table: what the scheduler accounted for, over a window in which every client had work waiting. The picture: computations as recorded after "
                  "it, with eight of each client under way."},
    "table1": {"title": "Training an encoder-decoder and a decoder-only Transformer as SPMD, against JAX",
               "paper": "T5-Base 618k, Large 90.4k, 3B 282.8k and 11B 84.8k tokens a second: the same with Pathways as with multi-controller JAX.",
               "here": "Small models over eight CPU devices of one host, by one jit with the examples spread over two groups of devices and heads, hidden units and "
                       "words over four; JAX in process does the same. Losses are compared to the last bit, step by step. Where they are not equal to JAX's, the compilers "
                       "differ: our workers have another version of XLA. JAX in process with our workers' device plugin says what that makes out."},
    "table2": {"title": "A decoder-only Transformer as a pipeline, by the number of stages",
               "paper": "3B parameters on 128 cores: 125.7k tokens a second as SPMD, 133.7k in 4 stages, 132.7k in 8, 131.4k in 16, with four times as many microbatches "
                        "as stages.",
               "here": "16 layers, a CPU device for each stage; the same batch throughout, so more stages mean smaller microbatches. The devices share the machine's cores: "
                       "nothing can become faster by more stages, and what the table shows is what dispatching four times as many computations costs."},
    "10": {"title": "The pipeline on one island and on four",
           "paper": "131.4k tokens a second either way: transfers over the data-centre network hide behind the computations.",
           "here": "The islands are processes of this machine, and what goes from one to the next does so through its memory."},
    "pipelines": {"title": "Transformers as pipelines over 128 cores, on one island and on four",
                  "paper": "133.7k tokens a second in 4 stages, 132.7k in 8, 131.4k in 16 with four times as many microbatches as stages, on one island or on four. Figure 11 is "
                           "the trace of the latter.",
                  "here": "Simulated: 128 cores of a TPU v3, 4 to a host. Real: a stock client, the controller, the worker of each host and what they say to each "
                          "other; stages are compiled, spread over their cores, by XLA's CPU compiler, whose count of operations and bytes at the speed of a core is "
                          "how long a computation takes, in real time, with its collectives as rings behind it (docs/simulator.md). So tokens a second compare with each other and not with the paper's. "
                          "Hosts of different islands are 50 us apart with 100 Gbit/s each. With M = 4 S microbatches the schedule itself leaves (S - 1) / (M + S - 1) idle, "
                          "which is 15.8 % in 4 stages and 19.0 % in 16: 0.962 is all that 16 stages can have of 4. Interleaved, each place has four stages in turn, and "
                          "waits a quarter of that (on devices of half the speed). All microbatches go through one round of stages before the next, so that what comes round has time to "
                          "spare. A step is from the end of one to that of the next. jaxlib's client has a thread that looks for work all the time, a seventh of a processor, which "
                          "is in what the client takes. The first rows are of 30 layers, the interleaved ones of the paper's 62. "
                          "The picture: one step on four islands, lines between them."},
    "12": {"title": "Data parallelism over two islands",
           "paper": "64B and 136B parameters over two islands of 512 cores: 97.2 % of one island with twice as many.",
           "here": "Two hosts of four devices, of one island or of two. Gradients are summed inside each island, then exchanged once between them."},
    "islands": {"title": "Data parallelism over two islands, simulated",
                "paper": "64B and 136B parameters over two islands of 512 cores: 97.2 % of one island with twice as many.",
                "here": "A decoder-only Transformer of 1B parameters on simulated cores of a TPU v3, as above. Each island has all of the model and half of the batch. The "
                        "model is differentiated in four segments: every device sends its part of a segment's summed gradients to its like in the other island, in one piece, "
                        "while the segment before is differentiated, and gets as much. A step of both islands is one program. The other row has all devices in one island. "
                        "Seconds are from the end of one step to that of the next, several of which are asked for at once."},
    "large": {"title": "The paper's own configurations, for their shapes",
              "paper": "Tokens a second as in its tables, in the last column.",
              "here": "Compiled by XLA's CPU compiler, partitioned as SPMD for as many simulated devices as the paper had cores, and run once there: the control path is "
                      "real, nothing is computed. What a device holds is the compiler's word; the bound is 8 operations a parameter and token (activations are "
                      "computed twice) at the 61.5 Tflop/s of a core of a TPU v3, without communication."},
}
PAPER_TOKENS_PER_S = {"T5-Base": 618e3, "T5-Large": 90.4e3, "T5-3B": 282.8e3, "T5-11B": 84.8e3, "LM-3B": 125.7e3}
CORE_FLOPS = 61.5e12
NAMES = {"islands": "Figure 12 in full size", "pipelines": "Table 2 and figures 10 and 11 in full size", "table1": "Table 1", "table2": "Table 2", "large": "Tables 1 and 2 in full size"}


def name(number):
    """What the paper calls it."""
    return NAMES.get(number, f"Figure {number}")


PARITY_MS = {"16x8 TPUs": 2.3, "512x4 TPUs": 35.0}
