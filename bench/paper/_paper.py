"""The paper's claims, figure by figure, as far as they compare with one machine; and what differs here."""

FIGURES = {
    "5": {"title": "Dispatch overhead: computations a second",
          "paper": "An all-reduce of a scalar and an addition, on up to 2048 TPUs; 128 of them in a chain. Fused, Pathways equals multi-controller JAX up to 1000 cores; Chained, it is "
                   "ahead of JAX's OpByOp up to 256 cores; OpByOp, JAX is far ahead of every single controller. Pathways is ahead of TensorFlow and Ray everywhere; Ray had other "
                   "hardware (GPUs, and PyTorch's all-reduce), which the paper says does not compare directly.",
          "here": "CPU devices that share this machine's processors, so that collectives grow with the number of devices, as those of TPUs do not. Every side has 16 calls "
                  "under way, and whenever the oldest eight are done there are eight more, at least 16 in each turn (four of JAX's own runtime over several processes, fused); every host is one process on every side (ours has a client and a controller "
                  "besides). A verdict is only about dispatch, so only about sides with our device plugin, and with it our collectives: jax in as many processes, and Ray, whose "
                  "actors, one for each host, run the same jax functions. JAX's own runtime and TensorFlow are beside without a verdict: there, the ratio is also that of "
                  "collectives, ours being made for small sums on few processors. TensorFlow has one process, so it is only where there is one host. "
                  "Among the devices of one process a sum never leaves it; on one device it is nothing at all, and what is left of a call is a function call of "
                  "JAX and messages between processes of ours: there we lose, and the table of where the time goes says to whom. "
                  "The last rows have no rival: simulated devices, whose computations take no time, behind a stock client, sockets and the real controller; all "
                  "their hosts are one process, so the rates are those of this machine's processors."},
    "6": {"title": "The smallest computation at which the throughput equals JAX's",
          "paper": "2.3 ms for 16 hosts with 128 TPUs, 35 ms for 512 hosts with 2048 TPUs.",
          "here": "The time is the devices': of real ones by a recording of one computation that is alone, of simulated ones what they are told; not the rival's total. Equal is 0.97 by three quarters of the rounds, from that "
                  "computation on. Real devices: ours, with client, sockets and controller, against jax in as many processes on as many devices, "
                  "with our device plugin; where hosts are few, with its own runtime beside. All 16 hosts are processes on this one machine, on either side; the paper's had a machine "
                  "each, and TPUs: 128 devices that share a few processors take longer for the smallest sum than the paper's 2.3 ms, so this row cannot meet that, only miss it. Simulated devices: a stock client, the controller, a socket of each host, and all hosts in one process; there is no JAX for such devices, "
                  "so the throughput is held against devices that are never idle, which no system can beat. All of the control path shares this machine's processors, so a "
                  "cluster of machines is not slower by this count; but its network, which is missing here, is."},
    "7": {"title": "Parallel against sequential dispatch, a stage on each host",
          "paper": "Stages on four cores each, of another host each, the result of one sent to the next: with parallel dispatch the fixed costs of the client and of scheduling are "
                   "amortised over many stages. Sequential dispatch, for comparison, waits until a stage is enqueued before it enqueues the next.",
          "here": "One island, a worker process of four CPU devices for each stage, a sum over these in it; both clusters are up, and take turns. All share this machine's "
                  "processors. Sequential dispatch is the paper's: a stage is sent when the hosts of the one before have said that it is enqueued, and calls do not wait for each "
                  "other. 16 calls are under way; the columns of one call are of calls that are alone."},
    "8": {"title": "Several clients on the same devices",
          "paper": "Clients that submit different programs together reach at least what JAX reaches, so switching between programs costs nothing, as long as all fit in the devices' memory. "
                   "Of very small computations they reach more than JAX, whose Python dispatches fewer.",
          "here": "1, 4 and 16 client processes, each with a program of its own text and 16 calls under way; results are counted by the clients. Simulated: eight devices of one host, "
                  "busy for as long as a computation takes without need of a processor; there is no JAX for them, so the line is what the devices can do. CPU device (a computation is so many loops of a sine, about 0.33 and 1 ms; jax's row says how long): it shares the "
                  "processors with all clients, whose part is missing for computing, so more clients may reach less; jax with our device plugin, one process and one program, is "
                  "beside. Where short computations do not keep the devices busy, the processors' columns say who had no more to give."},
    "9": {"title": "Device time by weight",
          "paper": "Four clients share the devices' time 1:1:1:1 and 1:2:4:8: a trace of some of 128 cores.",
          "here": "Gangs over 32 simulated devices of four hosts, 2.4 ms each. The shares are those of the results that the clients saw, all of them equally long; the scheduler is not "
                  "asked. The picture is a recording in the last of these windows, whose shares are beside."},
    "11": {"title": "What a device runs while clients share it",
           "paper": "Traces of figure 8 with computations of 0.33 ms by 1, 4, 8 and 16 clients: one alone does not keep the devices busy, several come to about 100 %; their programs are "
                    "gang-scheduled and interleave at the scale of a millisecond or less.",
           "here": "Figure 8's shortest computations on simulated devices: what one of these ran, by a recording; a line for each number of clients, a colour for each of them. One "
                   "client has 16 calls under way here, which the paper does not say of its own."},
    "table1": {"title": "Training an encoder-decoder and a decoder-only Transformer as SPMD, against JAX",
               "paper": "T5-Base and Large on 32 cores, 3B and 11B on 512: with Pathways as many tokens a second as with multi-controller JAX (618k, 90.4k, 282.8k, 84.8k).",
               "here": "Small models over eight CPU devices, of one host and of two, by one jit with the examples spread over two groups of devices and heads, hidden units and "
                       "words over four; jax does the same in as many processes. The verdict is against jax with our device plugin; with its own runtime, another version "
                       "of XLA's compiler takes part. Losses are compared to the last bit, step by step."},
    "large": {"title": "The paper's own configurations, compiled for their shapes",
              "paper": "Table 1's models and table 2's, on as many cores.",
              "here": "That they compile, fit and run through the control path once: compiled by XLA's CPU compiler, partitioned as SPMD for as many simulated devices as the paper had "
                      "cores. What a device holds is the compiler's word. Nothing is computed and no throughput is measured, so none is shown beside the paper's."},
    "table2": {"title": "A decoder-only Transformer as a pipeline, by the number of stages",
               "paper": "See below, in full size.",
               "here": "16 layers, one CPU device for each stage, 64 examples a step and four times as many microbatches as stages: so these have four examples, two or one. All devices "
                       "share this machine's processors: nothing can become faster by more stages, and this shows what dispatching more and smaller computations costs. No verdict."},
    "pipelines": {"title": "Table 2's model as SPMD and as pipelines over 128 cores; figure 10: on one island and on four",
                  "paper": "3B parameters on 128 cores, 2,048 examples a step: 125.7k tokens a second as SPMD; as pipelines in the manner of GPipe, with four times as many microbatches as stages, "
                           "133.7k in 4 stages, 132.7k in 8, 131.4k in 16; 131.4k too in 16 stages on four islands of 32 cores. In 16 stages on 512 cores 507.8k, a row that is not here.",
                  "here": "Simulated: the paper's 62 layers on 128 cores, 4 to a host. Real: a stock client, the controller, the worker of each host and what they say to each other. "
                          "A stage's time is XLA's count of its operations and bytes at the speed of a TPU v3's core (61.5 Tflop/s, 450 GB/s), with its "
                          "collectives as rings behind it (docs/simulator.md), and passes in real time: tokens a second compare with each other, not with the paper's. "
                          "Numbers have 32 bits, at a speed that a TPU has for 16: that too is the same for all rows. "
                          "All rows have the same devices, the model spread over eight cores, 128 examples a step and four times as many microbatches as places, so that a microbatch has "
                          "two examples for eight cores whatever the number of stages. The paper's batch is 16 times as large, which leaves a control path 16 times as long for each microbatch. "
                          "Idle in closed form is (S - 1) / (M + S - 1) of S equal stages and M microbatches, for GPipe and 1F1B alike, and "
                          "(P - 1) / (R M + P - 1) of P places with R stages each; measured it is a recorded step's time without the optimizer in which a device computes nothing. "
                          "The verdict: whether a step takes what its schedule takes with these stages' times; what is more is the optimizer and the control path on this machine, and the table of "
                          "where the time goes says how much of each. Hosts of different islands are 50 us apart with 100 Gbit/s each. Rows are measured one after the other, each alone on the machine. The picture is "
                          "figure 10's: one step on four islands, lines between."},
    "10": {"title": "The pipeline on one island and on four, on CPU devices",
           "paper": "131.4k tokens a second either way: transfers over the data-centre network hide behind the computations.",
           "here": "The islands are processes of this machine, and what goes from one to the next does so through its memory: there is no network to hide. No verdict."},
    "12": {"title": "Data parallelism over two islands, on CPU devices",
           "paper": "64B parameters over two islands of 512 cores: 97.2 % of SPMD over as many in one island; 136B over two islands of 1024: about 97 %.",
           "here": "One SPMD jit over two hosts of four devices, which are of one island or of two: in the second case gradients are summed inside each island, then exchanged once between "
                   "them. Processes of one machine: there is no network between the islands. No verdict."},
    "islands": {"title": "Data parallelism over two islands, simulated",
                "paper": "64B parameters over two islands of 512 cores: 97.2 % of SPMD over as many in one island; 136B over two islands of 1024: about 97 %.",
                "here": "A decoder-only Transformer of 1B parameters on 256 simulated cores of a TPU v3, as above: 1/64 of the paper's model on a quarter of its cores. The base is one SPMD jit over "
                        "one island. Over two islands the model is differentiated in four segments: every device sends its part of a segment's summed gradients to its "
                        "like in the other island while the segment before is differentiated. The middle row has the segments in one island, which says what these alone change: the "
                        "simulator overlaps nothing within a computation, so the jit's gradient sums are never hidden. What segments gain or lose against the jit says so nothing of TPUs; "
                        "the verdict against the jit is of both, that against the segments of the islands alone. Each row has the machine to itself, one after the other."},
}
NAMES = {"islands": "Figure 12, simulated", "pipelines": "Table 2 and figure 10, simulated", "table1": "Table 1", "table2": "Table 2", "large": "Tables 1 and 2, compiled"}
PARITY_MS = {"16 x 8": 2.3, "512 x 4": 35.0}  # hosts x TPUs of each
ISLANDS_RATIO = 0.972


def name(number):
    """As the paper calls it."""
    return NAMES.get(number, f"Figure {number}")
