"""For each figure: its title, the paper's claim, and how the measurement differs: measured values, devices, processes, calls under way, verdicts.

These words hold for every run. What a run found is said by _found.py, from its report.
"""


RECORDED = "Recorded runs of simulated devices last as long as these are busy; those of real devices last until their worker notices the end."
IDEAL = ("Simulated devices are kinder than real ones: computations that are queued follow each other without a gap, however late this machine's threads are, so "
         "only those that wait for the control path are delayed.")
FREE_TRANSFERS = ("Transfers within an island take no time but the control path's, so a pipeline's activations on one island are free, while the collectives of an SPMD "
                  "computation take their full time and overlap with nothing.")


def _parts(*paragraphs):
    return "\n\n".join(paragraphs)


FIGURES = {
    "5": {
        "title": "Dispatch overhead: computations a second",
        "paper": "A computation is an all-reduce of a scalar and an addition, on up to 2048 TPUs. OpByOp calls each computation; Chained and Fused "
                 "have 128 in a call. Fused: Pathways equals multi-controller JAX up to 1000 cores. Chained: Pathways is ahead of JAX's OpByOp up to "
                 "256 cores. OpByOp: JAX is far ahead of every single controller. Pathways is ahead of TensorFlow and Ray everywhere. Ray had other "
                 "hardware (GPUs, and PyTorch's all-reduce); the paper says that this does not compare directly.",
        "here": _parts(
            "Measured: computations a second; a chained or fused call counts as 128. opbyop is one call for each computation. chained is one program "
            "of 128 calls (pw.program; for Ray a compiled graph of 128 method calls on each actor; for TensorFlow a graph of 128 steps). fused is "
            "one call with a loop of 128 inside. jax alone has no chained, so the verdict on our chained is against its opbyop. A full run has seven "
            "rounds, in which the sides take turns of about 0.2 s.",
            "Devices: CPU devices, which share this machine's processors. So a collective gets slower with more devices; those of TPUs do not.",
            "Processes: one for each host on every side. Ours has a client, its agent and a controller besides; Ray has a driver and its own "
            "daemons. In rows of one host ours is there three times. In one process means a client and one process for the rest, one process more than jax has. By the PJRT "
            "door means that the cluster lives in the program's process, as many processes as jax has. The package chooses that for a program without a cluster, on up to eight devices. The "
            "other two sides use jax's IFRT proxy client. The side by the PJRT door is started with our allocator, as jax is; a program of a user has it only if the user loads it (LD_PRELOAD).",
            "Under way: at most 16 calls on every side. At 16, the caller waits until the oldest eight are done, then makes eight more. A turn has "
            "at least 48 calls; with jax's own runtime over several processes, fused, at least four, and on simulated devices at least 16. A Ray call ends when its "
            "method returns; behind it, an actor may have 16 unfinished computations more, in chained 2,048, which is as many as 16 chained calls of ours have. A turn ends when the last value is there. Ours and jax wait for it. Ray makes one "
            "more call to each actor, which reads it, and TensorFlow reads the values also where the others wait.",
            "Verdict: only against sides with our device plugin and thus our collectives and our allocator. These are jax in as many processes, and Ray, whose "
            "actors, one for each host, run the same jax functions. A verdict is of the whole system, not of dispatch alone. jax's own runtime and TensorFlow "
            "are shown without a verdict: that ratio is also one of collectives, and ours are made for small sums on few processors. TensorFlow has one process "
            "here, so it was not run in rows of several hosts. Against Ray, which has a driver, an actor for each host and daemons, only ours with a process for each task has a verdict; the "
            "other sides of ours have fewer processes, and are shown without one. All our sides are compared with the same turns of the rivals, so their verdicts depend on each other.",
            "Whose target: the paper says of Ray that its numbers do not compare directly, so the targets against Ray are our reading.",
            "Cost of a call: with one host, the sum never leaves its process; on one device there is no sum. The rest of a call is a function call "
            "for jax, and messages between processes for ours, also if its cluster is one process. By the PJRT door, messages stay in the process. Where a ratio is below 1, ours is slower. The table of where the "
            "time goes says which process takes the time.",
            "Several hosts: one call of fused or chained holds 128 sums, so a ratio below 1 there is not the price of making a call. In the tables of where the "
            "time goes, compare the processor time and the idle time of our calls with theirs. Why they differ was not measured.",
            "Other sides: the processes of all sides are up all the time. Ray's work even when nothing is asked of them. So all of Ray's are stopped while others "
            "have their turns. They go on 0.2 s before a turn of Ray's, which is not timed, so that they catch up first. No other side is ever stopped. The "
            "last table of each row says how many processors each side uses in the turns of the others; whatever is not 0 there slows them.",
            f"Simulated rows: no rival. {IDEAL} A stock client, sockets and the real controller drive devices whose computations take no time. A full run has five rounds "
            "of about 1 s, or longer where 16 calls take longer. A fused call counts as 128 although the device does nothing; divide by 128 for calls. All simulated hosts are one process, so these rates are those of this machine's processors.",
            "Weak points: the limits, 1 for opbyop and 3 for chained, are our own aims. The paper itself says that JAX is far ahead in OpByOp, "
            "and jax has no chained of its own. Every second round has the turns backwards. A multi-controller side counts as fast as its slowest process. A turn of a slow side can take seconds. Each Ray call takes the previous call's reference, as a Ray program would pass data; its "
            "calls would be in order without it. In a check of Ray alone before an earlier run, pauses of half a second moved its rates by less than these scatter. Longer "
            "pauses were not checked; in a full run pauses are seconds.",
            "Where the time goes: rates and processor times there are of the very turns that the table of rates is of. 1 / rate is of the median rate, and the caller's two times are medians. The "
            "processor time is the mean over all turns, from the clocks of all processes of that side; Ray's has its daemons in it. What others use "
            "in these turns is not in it. Idle is all processors times the time of a call, less what these "
            "processes use; so it can exceed the time of a call, and is a little below 0 where all processors are in use, since the two clocks differ. What processes wait for while processors are idle, this report does not "
            "say. Devices busy, and a call that is alone, come from two further runs under a recording. "
            "Our clusters in one process have no recordings. A device counts as busy while it waits for others in a sum. Of "
            "a call that is alone, 'the rest' is what remains of the caller's mean time after the medians of the other parts; it was "
            "not observed, and is below 0 where calls that were recorded took longer than the mean. A part between two events that come in the other order counts as 0. Devices is from the first device's begin to the last one's end. These parts are missing where no call was recorded as a "
            f"whole. {RECORDED}",
            "Beside the paper: the paper is ahead of TensorFlow everywhere. Here TensorFlow is without XLA; the table has the ratios.",
            "Not shown: rates on TPUs, or of hosts on separate machines with a network between them.")},
    "6": {
        "title": "The smallest computation at which the throughput equals JAX's",
        "paper": "Pathways' throughput equals JAX's from computations of 2.3 ms on with 16 hosts and 128 TPUs, and of 35 ms with 512 hosts and 2048 "
                 "TPUs.",
        "here": _parts(
            "Measured: the throughput of ours / theirs for computations of several lengths, at most 16 calls under way on every side. A length is "
            "the devices' time, not the rival's time for a call. On real devices it comes from a recording of one computation of ours that is alone; "
            "simulated devices are told it. Equal means a ratio of at least 0.97 in three quarters of the rounds, at this length and at all longer "
            "ones that were measured. A full run has seven rounds; five with 16 real hosts or simulated devices.",
            "Real devices: ours (client, agent, controller, a worker process for each host) against jax in as many processes on as many CPU devices, "
            "with our device plugin. With few hosts also jax with its own runtime is shown, without a verdict. On one host, ours is also there in one process, a client "
            "and one process for the rest, and by the PJRT door, one process in all, with our allocator. Their lengths are those that the first "
            "side recorded. The paper has no 1 x 2, so that row has no "
            "verdict. All 16 hosts of a side are processes on this one machine; the paper's hosts were machines with TPUs. Where 128 devices that share a "
            "few processors take longer than the paper's 2.3 ms even for the shortest computation, there is no verdict against the paper's value; the table says from which length on throughputs are equal.",
            f"Simulated devices: a stock client, its agent, the controller and a socket for each host; all hosts are one process. {IDEAL} There is no JAX for "
            "such devices, so the throughput is compared with devices that are never idle, which no system can beat. The whole control path shares "
            "this machine's processors. A cluster of machines has more processors, so it is not slower in that respect; but its network, which is "
            "missing here, makes it slower.",
            "Where the time goes: that table is of figure 5's opbyop calls, in turns after those of the lengths above. There are three of about half a second on real devices, "
            "and one of a second on simulated ones. It does not say where the time of longer computations goes. Processors in use are of all turns. As in figure 5, the rivals with our device plugin have our allocator too.",
            "Weak points: few lengths are tried, so parity is known only to lie between two of them. Lengths of real devices come from a "
            "recording of ours on processors that all devices share; for 128 devices most of the length is that sharing. 0.97 is our own reading "
            "of equal. A length is recorded once, after the turns, so two short computations can be recorded in the wrong order. A turn has at least 48 calls, or as many as take about 0.2 s, on simulated devices 1 s; "
            "in the row 16 x 8, the two longest computations have turns of about 3 s, of four calls at least. Filling and emptying the queue is part of what the longest computations on simulated devices lack. "
            f"Collectives of simulated devices take no time in this figure. {RECORDED}",
            "Not shown: parity with a running JAX on TPUs.")},
    "7": {
        "title": "Parallel against sequential dispatch, a stage on each host",
        "paper": "Each stage is on four cores of another host, and its result is sent to the next stage. With parallel dispatch, the fixed costs of "
                 "the client and of scheduling are amortised over many stages. Sequential dispatch, for comparison, waits until a stage is enqueued "
                 "before it enqueues the next.",
        "here": _parts(
            "Measured: calls a second of one program with 1 to 16 stages on one island. A stage is a sum over the four CPU devices of a worker "
            "process of its own. At most 16 calls are under way; no call takes another's result. The columns of one call are medians over calls that "
            "are alone.",
            "jax: one process with our device plugin and our allocator, which has the devices of all hosts, calls the stages one after another and moves each result with device_put. It has one process where ours "
            "has a client, its agent, a controller and a worker for each stage, so it is shown without a verdict. Multi-controller jax was not run: a stage's result would have to pass from "
            "process to process.",
            "Sides: sequential dispatch is made after the paper's section 4.5. The controller sends a stage when the hosts of the stage before have said that it is "
            "enqueued; calls do not wait for each other. Each kind of dispatch has a cluster and a client of its own. Both clusters and jax are up and take "
            "turns: five rounds in a full run, in which each makes as many calls as take it about a second. All processes share this machine's processors.",
            "Verdict: with four stages or more, parallel is to be at least as fast as sequential. By how much it leads in the paper is not compared. With one stage there is nothing to "
            "dispatch in parallel, so how far that row is from 1 shows how far two equal clusters differ.",
            "Weak points: two clusters with up to 16 workers each are up on this machine's few processors, so rows with many stages measure the "
            "contention for these. Where the middle half of the rounds is on both sides of 1, no lead is shown either way.",
            "Not shown: what parallel dispatch gains where messages between hosts cross a network.")},
    "8": {
        "title": "Several clients on the same devices",
        "paper": "Clients that submit different programs together reach at least what JAX reaches. So switching between programs costs nothing, as "
                 "long as all fit in the devices' memory. With very small computations they reach more than JAX, whose Python dispatches fewer.",
        "here": _parts(
            "Measured: results a second that 1, 4 and 16 client processes count together; in a full run, the median of five windows of 1 s. Each "
            "client has an agent, 16 calls under way, and a program whose text is no other's. The rest is a controller and one worker process.",
            f"Simulated: eight devices of one host. They are busy for as long as a computation takes and need no processor for that. {IDEAL} There is no JAX "
            "for them; the limit is what the devices can do. Their collectives take no time here. 0.04 ms stands for the paper's very small computations. 2.4 ms, which earlier pages had, is left out, so that 0.04 ms has its time.",
            "CPU device: one device. A computation is so many loops of a sine, and takes at most 1 s / the rate of jax's rows. 20, 150 and 500 loops are meant to take about 0.05, 0.33 and 1 ms; "
            "earlier pages had 45 and 140. jax has our device plugin, our allocator and one process. It is there twice: with one program and 16 calls under way, and with 16 programs, called in turn, and 256 calls under way, as "
            "many as the 16 clients have. Our device shares the processors with all clients, "
            "and what these take is missing for computing. So more clients may reach less.",
            "Weak points: where one client does not keep the devices busy, more clients reach more, for any cost of "
            "switching. Only computations that keep them busy could show that cost. In the paper, throughput does not fall with the number of clients. jax is one process "
            "and shares its device with nobody.",
            "Verdict: 16 clients against one client, and against the devices or jax, as our reading of the paper, whose rows are of TPUs. The first would be easy to meet where one client does not keep the "
            "devices busy, or does not reach jax's rate; it then has no verdict, unless it is missed. Where 16 clients do not reach the devices' rate, the last columns show which processes used the processors.")},
    "9": {
        "title": "Device time by weight",
        "paper": "Four clients share the devices' time 1:1:1:1 and 1:2:4:8: a trace of some of 128 cores.",
        "here": _parts(
            "Measured: each client's share of the results, against its weight. Four client processes, each with an agent, have 16 calls under way "
            "each, in windows of 6 s, five in a full run. Every computation runs on all 32 simulated devices of four hosts for 2.4 ms, so the share "
            "of results is the share of device time. The clients count the results; the scheduler is not asked. All hosts are one process; the "
            f"controller runs the policy that shares by weight. {IDEAL} Their collectives take no time here.",
            "Picture and last column: one device, at the end of a recording in the last window. Every window is recorded for 1 s of its 6, so that time is in the results, too.",
            "Verdict: no client's results differ from its share by more than 2 % of that share. This is an aim of our own.",
            "Weak points: all clients always have work and all computations take equally long, which is the easiest case for a policy of shares. The windows of one weighting come before those of the other; they do not take turns. "
            "The picture shows less than half a second of one device.",
            "Not shown: clients whose computations differ in length.")},
    "11": {
        "title": "What a device runs while clients share it",
        "paper": "Traces of figure 8 with computations of 0.33 ms by 1, 4, 8 and 16 clients. One client does not keep the devices busy; several come "
                 "to about 100 %. Their programs are gang-scheduled and interleave at the scale of a millisecond or less.",
        "here": _parts(
            "Measured: figure 8's computations of 0.33 ms on simulated devices. The picture is what one device ran, from a recording: a line for each "
            "number of clients, a colour for each client. How busy the device was is computed from the results that the clients counted in 2 s.",
            "Beside the paper: there, several clients come to about 100 %; the column says how far it is here. A recording runs for one of the 2 s. "
            f"By how much the recording slows the devices was not measured. Each number of clients was measured once, one after another, so there is no spread. Device time is of the last 0.4 s, and results are of 2 s. {RECORDED}",
            "Differs: each client has 16 calls under way; the paper does not say how many its clients have. How busy the device was is not observed on the device. "
            "No verdict.")},
    "table1": {
        "title": "Training an encoder-decoder and a decoder-only Transformer as SPMD, against JAX",
        "paper": "T5-Base and Large on 32 cores, 3B and 11B on 512: with Pathways as many tokens a second as with multi-controller JAX (618k, 90.4k, "
                 "282.8k, 84.8k).",
        "here": _parts(
            "Measured: tokens a second of small models on eight CPU devices, of one host and of two. Models are 128 wide, with texts of 64 tokens; "
            "the encoder-decoder has two layers of each kind, the decoder-only model four. A step is one jit with 16 examples: examples are spread "
            "over two groups of devices; heads, hidden units and words over the four devices of a group. A full run has five rounds of seven steps; "
            "the caller makes all of these without waiting, after one step that is not timed.",
            "Sides: ours is a client, its agent, a controller and a worker process for each host; jax is one process for each host. All share this "
            "machine's processors. Losses are compared to the last bit, step by step, in one round.",
            "Verdict: only against jax with our device plugin and our allocator. With jax's own runtime, another version of XLA's compiler takes part.",
            "Where ours is faster or slower than jax with the same plugin and allocator, the cause was not measured.",
            "Weak points: at this size a step takes a fraction of a second, and eight devices share a few processors. Losses are compared in one "
            "round only. Tokens are those of the decoder's text only. Where a process of jax with our plugin ends by a signal, it is probably a fault of our plugin or of its XLA, which our "
            "workers load, too.",
            "Not shown: models of the paper's size, or TPUs.")},
    "large": {
        "title": "The paper's model sizes, compiled for their shapes",
        "paper": "The models of tables 1 and 2, on as many cores.",
        "here": _parts(
            "Shown: the compiler's sizes and time for these models with our batch; each then runs through the control path once. A model that does not says FAILED. Layers, widths and the number of cores are the paper's; mesh and batch are ours. "
            "LM-3B's batch is 1/16 of the paper's: 128 examples against 2,048. XLA's CPU compiler partitions one step as SPMD for as many "
            "simulated devices as the paper had cores, four to a host; all hosts are one process. The state on a device is the compiler's size of a "
            "step's arguments (parameters, Adam's state, the batch); its temporary buffers are beside it, by XLA's CPU compiler. A core of a TPU v3 has 16 GiB. Positions are learned; T5's relative ones are left "
            "out.",
            "Not shown: any throughput. Nothing is computed and none is measured, so none is shown beside the paper's.")},
    "table2": {
        "title": "A decoder-only Transformer as a pipeline, by the number of stages",
        "paper": "See 'Table 2 and figure 10, simulated'.",
        "here": _parts(
            "Measured: ours alone, tokens a second of a small model of 16 layers, one CPU device for each stage, all devices in one worker process. "
            "A step has 64 examples and four times as many microbatches as stages, so a microbatch has four examples, two or one. The schedule is GPipe's, as the paper's. Rows take turns; a "
            "full run has five rounds of two steps, after one that is not timed.",
            "Sides: the same model with the same parameters as one SPMD jit over 16 devices (mesh 4 x 4, the whole batch at once), ours and of jax in one process with our device plugin and our allocator. A pipeline can be written in jax (shard_map and ppermute); that was not run.",
            "Verdict: only the SPMD jit, ours against jax's. The pipelines have 4, 8 and 16 devices and no model parallelism, where every row of the paper has 128 cores; so neither they nor the jit on 16 "
            "devices, whose collectives share this machine's processors, are set against the paper's ratios. Earlier pages did that. The simulated form of this table has the same cores in every row. Not shown: a gain from more devices, since all share this machine's processors. Where "
            "more stages are faster or slower than fewer, the cause was not measured; smaller microbatches may be part of it.")},
    "pipelines": {
        "title": "Table 2's model as SPMD and as pipelines over 128 cores; figure 10: on one island and on four",
        "paper": "3B parameters on 128 cores, 2,048 examples a step. As SPMD 125.7k tokens a second. As pipelines in the manner of GPipe, with four "
                 "times as many microbatches as stages, 133.7k in 4 stages, 132.7k in 8, 131.4k in 16. Also 131.4k in 16 stages on four islands of "
                 "32 cores. In 16 stages on 512 cores 507.8k; that row is not here.",
        "here": _parts(
            "Measured: tokens a second on simulated devices: the paper's 62 layers on 128 cores, 4 to a host. A stock client, its agent, the controller, each "
            "host's worker and their messages are real; all hosts of a cluster are one process. Nothing is computed. Rows take turns, four rounds in a full "
            "run: first SPMD, 4 stages and 16 stages on one island and on four, which the verdicts compare, then the other three. So 1f1b and gpipe in 16 stages are of different groups and did not take turns. A turn is three steps, all asked for without waiting; the middle one is timed, from the end of the first to its own end. Each row has a "
            "client of its own, and rows with as many islands share a cluster; those that take turns are up all the time.",
            "Device time: a stage takes the longer of two times, for its operations and for its bytes, at the speed of a TPU v3's core (61.5 Tflop/s, 450 GB/s), then its "
            "collectives. The counts are those of XLA's CPU compiler; its fusion, and so the bytes, are not a TPU's. Collectives are rings that overlap with nothing (docs/simulator.md). "
            f"{IDEAL} {FREE_TRANSFERS} This time passes in real time. Numbers have 32 bits, at a speed "
            "that a TPU has for 16. Hosts of different islands are 50 us apart, with 100 Gbit/s each. All of this is the same for all rows. So "
            "tokens a second compare with each other, not with the paper's.",
            "Rows: all have the same devices, the model spread over eight cores, and 128 examples a step; pipelines have four times as many "
            "microbatches as places. A place is the devices of one stage, or of several that are interleaved. A microbatch has two examples for "
            "eight cores, for any number of stages. SPMD recomputes by layer, pipelines by stage. SPMD sums gradients over 16 groups of eight cores, 4 stages over four, 16 stages over one. The paper's batch is 16 times as large, so its control path had 16 times as much time for "
            "each microbatch.",
            "Idle: in closed form it is (S - 1) / (M + S - 1) with S equal stages and M microbatches, for GPipe and 1F1B alike. Interleaved, it is (P - 1) / (R M + "
            "P - 1) with P places of R stages each. Measured, it is the part of one recorded step, without the optimizer, in which a device computes "
            "nothing. So these shares are those of the recorded step, not of the rounds, and they have no spread. Processor time is the mean of the three steps of a turn. No step of SPMD is recorded: whether the devices or the control path limit it is not "
            "known.",
            "Verdict: whether a step takes as long as its schedule does with these stages' recorded times. Any excess over the schedule is the optimizer and the "
            "control path on this machine; the table of where the time goes says how much of each. Also whether four islands reach the throughput of "
            "one, and whether pipelines reach the paper's own ratios: 1.064 for 4 stages against SPMD, and 0.983 for 16 stages against 4. These are our reading of the paper: the batch is 1/16 of its, numbers have 32 bits, and nothing is computed.",
            f"Weak points: four rounds are few. On one island, activations move for free; on four, they cross the simulated network. The recorded step is one, and not one of the rounds; the recording changes how long it takes. Its length is the sum of "
            f"its parts in the table of where the time goes; the column 'step' is of the rounds. {RECORDED} Waiting for transfers and "
            "the control path is what remains of the idle time, and was not observed by itself. All hosts share this machine's processors: where the table "
            "of processor time shows nearly all of them in use, they are the limit, not the schedule.",
            "Beside the paper: there, pipelines are faster than SPMD, and the number of stages hardly matters. Why that differs here was not measured, beyond the tables of where the time goes. The control path of all hosts runs on the processors of one machine.",
            "Picture: figure 10's, one step on four islands, with lines between them.")},
    "10": {
        "title": "The pipeline on one island and on four, on CPU devices",
        "paper": "131.4k tokens a second either way: transfers over the data-centre network hide behind the computations.",
        "here": _parts(
            "Measured: ours alone, tokens a second of table 2's small model, one CPU device for each stage, with GPipe's schedule. Both sides are four worker processes with a quarter of the devices each: as hosts of one "
            "island, or as an island each. Both clusters are up and take turns, five rounds in a full run.",
            "No rival was measured. jax has no function for pipelines and no islands; a pipeline can be written in it (shard_map and ppermute).",
            "Verdict: ours against ours; equal, as the paper says, is 0.97 or more.",
            "Beside the paper: the cause of any difference was not measured.",
            "Not shown: that transfers over a network hide. The islands are processes of this machine and exchange data through its memory; there is "
            "no network to hide. Earlier pages had one worker process for one island.")},
    "12": {
        "title": "Data parallelism over two islands, on CPU devices",
        "paper": "64B parameters over two islands of 512 cores: 97.2 % of SPMD over as many in one island. 136B over two islands of 1024: about 97 "
                 "%.",
        "here": _parts(
            "Measured: tokens a second of table 1's small decoder-only model as one SPMD jit over two hosts, worker processes with four "
            "CPU devices each. The hosts are one island, or an island each; then gradients are summed inside each island and exchanged once between "
            "them. jax is two processes with our device plugin and our allocator, which run the same jit. All are up and take turns, five rounds in a full run.",
            "jax has no islands, so it is there on one island only; its likeness of two would be sums in two steps, which was not run.",
            "Verdict: two islands against one, ours, to the paper's 0.972; and one island against jax. The picture has tokens a second; the paper's figure 12 is a trace, which 'Figure 12, simulated' has.",
            "Not shown: what a network between the islands costs. All processes are on this machine.")},
    "islands": {
        "title": "Data parallelism over two islands, simulated",
        "paper": "64B parameters over two islands of 512 cores: 97.2 % of SPMD over as many in one island. 136B over two islands of 1024: about 97 "
                 "%.",
        "here": _parts(
            "Measured: tokens a second of a decoder-only Transformer of 1B parameters on 256 simulated cores of a TPU v3: 1/64 of the paper's model on a quarter "
            f"of its cores. A step has 1,024 examples. Processes, device time, network, turns and rounds are as for table 2 above. {IDEAL} {FREE_TRANSFERS}",
            "Rows: the base is one SPMD jit over one island. Over two islands, the model is differentiated in four segments. Every device sends its "
            "part of a segment's summed gradients to its like in the other island while the segment before is differentiated. The middle row is one "
            "island with the segments, with an optimizer spread over all devices, and with recomputation by segment where the jit has it by layer. Which of these costs what was not measured. No step of the jit is recorded: whether the devices or the "
            "control path limit it is not known.",
            "Picture: the recorded step over two islands, a device of each.",
            "Verdict: against the jit, on all of these and islands together; against the segments in one island, on the islands alone.",
            "Not shown: what segments gain or lose against the jit on TPUs. The simulator overlaps nothing within a computation, so the jit's "
            "gradient sums are never hidden. A ratio above the paper's 97.2 % against the jit therefore proves little.",
            "Beside the paper: it compares with SPMD, so only the first verdict is of its claim. What the segments cost in one island is in the middle row; "
            "why they cost this is not known.",
            "Weak points: four rounds are few. Waiting before updates is any wait before one. In one island, it is not for another island's gradients, since there are none; over two, what part of it is for them was not measured. Bytes between the islands are computed from the arrays' shapes, not counted.")},
}
NAMES = {"12": "Figure 12's ratio", "islands": "Figure 12, simulated", "pipelines": "Table 2 and figure 10, simulated", "table1": "Table 1", "table2": "Table 2",
         "large": "Tables 1 and 2, compiled"}
STAGES_TO_SPMD, STAGES_16_TO_4 = 133.7 / 125.7, 131.4 / 133.7  # tokens a second in the paper's table 2
PARITY_MS = {"16 x 8": 2.3, "512 x 4": 35.0}  # hosts x TPUs of each: the paper's smallest computation with equal throughput
ISLANDS_RATIO = 0.972  # throughput of two islands / one, in the paper


def name(number):
    """Returns the paper's name of a figure or table."""
    return NAMES.get(number, f"Figure {number}")
