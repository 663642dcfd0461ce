"""Lists all private names of jax and jaxlib that Pathways uses.

jax may rename or remove a private name in any release. So every use goes through a `Seam` of this module, or a module beside it that asks the `Seam`
first. A `Seam` records the name's module, the feature that needs it, and why no public name suffices. If the name is absent, `find()` returns None
and warns once; the feature is off, and everything else works. tools/lint/private_jax.py prevents other modules from importing private names.

This module imports nothing of jax before the first `find()`.
"""

import dataclasses
import importlib
import logging

logger = logging.getLogger("pathways")

hidden = set()  # keys of seams to report as absent: for tests
_warned = set()


@dataclasses.dataclass(frozen=True)
class Seam:
    """One private name."""
    key: str
    module: str
    name: str     # within the module, dotted for nested attributes; empty: the module itself
    feature: str  # the feature that is off without the name; plural, to precede "are off"
    reason: str   # why no public name suffices
    absent: str   # the behaviour without the name
    since: str = "0.8.3"  # the first release that has it; 0.8.3 is the oldest that Pathways supports

    def find(self):
        """Returns the object, or None if this jax lacks it. Imports the module."""
        holder, name = self._holder()
        found = holder if not name else getattr(holder, name, None)
        if found is None:
            self._warn()
        return found

    def replace(self, new):
        """Replaces the object by `new`, which jax then uses. REQUIRES: find() has found it."""
        holder, name = self._holder()
        setattr(holder, name, new)

    def _holder(self):
        """Returns (the module or class that has the name, the name's last part); (None, ...) if it is absent."""
        *outer, name = self.name.split(".")
        if self.key in hidden or self._is_to_come():
            return None, name
        try:
            holder = importlib.import_module(self.module)
        except ImportError:
            return None, name
        for one in outer:
            holder = getattr(holder, one, None)
        return holder, name

    def _warn(self):
        if self.key in _warned or self._is_to_come():
            return
        _warned.add(self.key)
        logger.warning("%s are off: %s %s has no %s. %s. The releases that Pathways was tested with are in docs/compatibility.md.",
                       self.feature, *self._library(), self.full_name, self.absent)

    def _library(self):
        """Returns (name, version) of jax or jaxlib."""
        name = self.module.partition(".")[0]
        return name, importlib.import_module(name).__version__

    def _is_to_come(self):
        """Whether this release predates the name. An object of the same name may exist there, with another meaning."""
        return _numbers(self._library()[1]) < _numbers(self.since)

    @property
    def full_name(self):
        return f"{self.module}.{self.name}" if self.name else self.module


def _numbers(version):
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def find_all(*seams):
    """Returns the objects of all seams; None if one is absent."""
    found = [seam.find() for seam in seams]
    return None if any(one is None for one in found) else found


SEAMS = []


def _seam(*args, **named):
    SEAMS.append(Seam(*args, **named))
    return SEAMS[-1]


# --------------------------------------------------------------------------------------------------------------- connection
PROXY_CLIENT = _seam(
    "PROXY_CLIENT", "jaxlib._ifrt_proxy", "",
    "connections to a cluster",
    "jax makes clients of its own backends only, and the IFRT proxy's is not one of them",
    "A first use of a device raises an error that says so")

PLUGIN_CLIENT = _seam(
    "PLUGIN_CLIENT", "jaxlib.xla_client", "",
    "connections by the PJRT door (PATHWAYS_DOOR=pjrt)",
    "jax makes clients of plugins when it starts a backend, before the cluster's address is known",
    "A first use of a device raises an error that says so; the other door works", since="0.10.2")  # older ones do not ask a plugin for shardings

BACKENDS = _seam(
    "BACKENDS", "jax._src.xla_bridge", "_backends",
    "jax's own backends in forked children, and knowing which connections jax.clear_backends has dropped,",
    "jax.extend.backend.backends() starts backends where there are none",
    "A child that forks from a process with jax's cpu backend may hang at its end, and dropped connections count as live")

PLUGIN_PROFILER = _seam(
    "PLUGIN_PROFILER", "jaxlib._profiler", "register_plugin_profiler",
    "events of the cluster's hosts in profiles of jax.profiler",
    "jax registers the profilers of the plugins that it loads itself, which are those of its own backends",
    "Profiles have the events of this process alone; 'pathways profile' writes those of the hosts")

# -------------------------------------------------------------------------------------------------------------- compilation
COMPILE = _seam(
    "COMPILE", "jax._src.compiler", "compile_or_get_cached",
    "host callbacks, jax.debug.inspect_array_sharding, asynchronous collectives on older workers, and checks of compiler passes",
    "jax has no hook between lowering and compilation",
    "Modules are sent as jax makes them, and the cluster refuses what it cannot run")

INSPECT_SHARDING = _seam(
    "INSPECT_SHARDING", "jax._src.lib", "xla_client.encode_inspect_sharding_callback",
    "jax.debug.inspect_array_sharding and visualize_array_sharding inside jit",
    "the module holds a pointer that this function makes; the Python function behind it is nowhere else",
    "The cluster refuses functions with such calls")

LOWER = _seam(
    "LOWER", "jax._src.interpreters.pxla", "lower_sharding_computation",
    "results asked to be unreduced by out_shardings or device_put, and the fast lowering of programs,",
    "jax.jit lowers functions, not jaxprs, and does not show the jaxpr before it is lowered",
    "Do not ask for unreduced results: they would be too large. Programs are traced once more for each computation")

IR_CONTEXT = _seam(
    "IR_CONTEXT", "jax._src.interpreters.mlir", "make_ir_context",
    "shared MLIR contexts of a program's computations",
    "jax has no option to lower several functions into one context",
    "Programs take longer to build")

COST_ANALYSIS = _seam(
    "COST_ANALYSIS", "jax._src.interpreters.pxla", "MeshComputation.cost_analysis",
    "cost analyses of lowered functions (Lowered.cost_analysis)",
    "jax asks the client library for it, and neither the proxy's client nor those of plugins have one",
    "cost_analysis() of what is not compiled raises an error or returns None; Compiled.cost_analysis() works")

# --------------------------------------------------------------------------------------------------------- colocated Python
COLOCATED_SERIALIZE = _seam(
    "COLOCATED_SERIALIZE", "jax.experimental.colocated_python.func", "_serialize",
    "the sources of a program's own modules, for colocated Python,",
    "jax pickles a function and sends it in one step, without a hook",
    "Colocated functions run on hosts if these have the modules that they name, and not in programs")

COLOCATED_FALLBACK = _seam(
    "COLOCATED_FALLBACK", "jax.experimental.colocated_python.api", "_colocated_cpu_devices_cached_fallback_to_cpu_backend",
    "errors where a cluster has no CPU devices beside its accelerators",
    "colocated_cpu_devices takes this process's own CPU devices then, and has no hook",
    "Colocated functions beside such accelerators run in the client's process")

COLOCATED_DESERIALIZE = _seam(
    "COLOCATED_DESERIALIZE", "jax.experimental.colocated_python.serialization", "_deserialize",
    "colocated functions on hosts",
    "only Google's runtime calls it, on its hosts",
    "Colocated functions fail when they are loaded, and say so", since="0.9.1")

COLOCATED_DEVICES = _seam(
    "COLOCATED_DEVICES", "jax.experimental.colocated_python.serialization", "_get_cpu_device_map",
    "colocated functions on devices of virtual slices",
    "a pickle names devices by ids, and the hosts' jax has those of physical devices only",
    "Such functions fail when they are loaded, and say so", since="0.9.1")

COLOCATED_GET = _seam(
    "COLOCATED_GET", "jax.experimental.colocated_python.func", "_SpecializedCollection.get",
    "calls of colocated functions in pw.program",
    "jax takes arrays there and no traced values, and has no hook",
    "Such a call raises an error in jax: call the function outside of the program", since="0.9.1")

COLOCATED_SPECIALIZED = _seam(
    "COLOCATED_SPECIALIZED", "jax.experimental.colocated_python.func", "_uncached_get_specialized_func",
    "calls of colocated functions in pw.program, if they have no arguments or in_specs,",
    "as COLOCATED_GET, for functions whose arguments are specified",
    "Such a call raises an error in jax, or runs while the program is traced: call the function outside of the program", since="0.9.1")

COLOCATED_SPEC = _seam(
    "COLOCATED_SPEC", "jax.experimental.colocated_python.func", "_get_spec",
    "calls of methods of colocated objects in pw.program",
    "jax asks each argument for its sharding before it calls the method, and traced values have none",
    "Such a call raises an error in jax: call the method outside of the program", since="0.9.1")

COLOCATED_CLIENT = _seam(
    "COLOCATED_CLIENT", "jaxlib._pathways", "_create_cpu_client",
    "colocated functions on hosts",
    "jax's own CPU backend numbers its devices from 0, and a cluster's have other ids",
    "Colocated functions fail when they are loaded, and say so", since="0.9.1")

# ----------------------------------------------------------------------------------------------------------------- callbacks
EMIT_CALLBACK = _seam(
    "EMIT_CALLBACK", "jax._src.callback", "emit_python_callback",
    "jax.pure_callback, io_callback, debug.callback, debug.print and checkify's checks in compiled functions",
    "jax.interpreters.mlir has the function, but jax's own lowerings call it in this module",
    "Such functions call into the memory of another process, and the cluster refuses them")

SET_SHARDING = _seam(
    "SET_SHARDING", "jax._src.interpreters.mlir", "set_sharding",
    "callbacks on one device of several",
    "jax.ffi lowers custom calls without a sharding",
    "In a computation of several devices each of them may call")

CONSTRAIN_SHARDING = _seam(
    "CONSTRAIN_SHARDING", "jax._src.interpreters.mlir", "wrap_with_sharding_op",
    "replicated results of callbacks in computations of several devices",
    "jax.lax.with_sharding_constraint wants a mesh, and a lowering rule has none",
    "Do not return a callback's result from a computation of several devices as it is")

SHARDY_DIMENSION = _seam(
    "SHARDY_DIMENSION", "jax._src.named_sharding", "SdyDim",
    "replicated results of callbacks in computations of several devices",
    "as CONSTRAIN_SHARDING: what it takes is made of these",
    "Do not return a callback's result from a computation of several devices as it is")

HANDLE_TOKENS = _seam(
    "HANDLE_TOKENS", "jax._src.interpreters.pxla", "ExecuteReplicated._handle_token_bufs",
    "prints before the end of the call, of functions that do nothing else,",
    "jax has no hook on the execution of a compiled function; this one runs for functions with effects only",
    "Call jax.effects_barrier() before you read what such a function has printed")

BUFFER_CALLBACK = _seam(
    "BUFFER_CALLBACK", "jax._src.buffer_callback", "buffer_callback_p",
    "jax.experimental.buffer_callback",
    "jax.interpreters.mlir.register_lowering wants the primitive, which has no public name",
    "Such functions call into the memory of another process, and the cluster refuses them")

BUFFER_CALLBACK_LOWERING = _seam(
    "BUFFER_CALLBACK_LOWERING", "jax._src.buffer_callback", "_buffer_callback_lowering",
    "jax.experimental.buffer_callback",
    "jax's own lowering, for jax's other backends: rules can be registered, and not read",
    "Such functions call into the memory of another process, and the cluster refuses them")

# --------------------------------------------------------------------------------------------------------------- arrays
ARRAY = _seam(
    "ARRAY", "jax._src.array", "ArrayImpl",
    "resharding on the servers, DLPack, reads through shared memory, and telling errors of callbacks once",
    "jax.Array is an abstract class; the class of arrays themselves has no public name, and jax's tables are by class",
    "Arrays are moved and read in jax's own way")

ARRAY_VALUE = _seam(
    "ARRAY_VALUE", "jax._src.array", "ArrayImpl._value",
    "errors of callbacks told once where a value is read",
    "as ARRAY: numpy.asarray, float() and print() all read it",
    "An error that a read has raised is raised by the next barrier too")

WAIT_FOR_MANY = _seam(
    "WAIT_FOR_MANY", "jax._src.lib", "xla_client.batched_block_until_ready",
    "errors of callbacks told once by jax.block_until_ready",
    "scripts hold jax.block_until_ready itself, which calls this",
    "An error that it has raised is raised by the next barrier too")

PUT_MANY = _seam(
    "PUT_MANY", "jax._src.lib", "xla_client.batched_device_put",
    "numpy arrays with negative or zero strides",
    "device_put and the arguments of jit have no public hook",
    "The client library refuses such arrays: pass numpy.ascontiguousarray(x)")

READ_ARRAY = _seam(
    "READ_ARRAY", "jax._src.array", "ArrayImpl._single_device_array_to_np_array_did_copy",
    "reads through shared memory",
    "the numpy value of an array has no public hook",
    "Arrays are read over the network")

START_READ = _seam(
    "START_READ", "jax._src.array", "ArrayImpl._copy_single_device_array_to_host_async",
    "reads through shared memory",
    "as READ_ARRAY, for copy_to_host_async",
    "Arrays are read over the network")

READ_WHOLE = _seam(
    "READ_WHOLE", "jax._src.array", "ArrayImpl._to_np_array_did_copy",
    "reads through shared memory",
    "as READ_ARRAY, for all shards of an array at once",
    "Arrays are read over the network",
    since="0.12.0")

START_MANY = _seam(
    "START_MANY", "jaxlib._jax", "batched_copy_to_host_async",
    "reads through shared memory",
    "as START_READ, for many arrays at once",
    "Arrays are read over the network",
    since="0.12.0")

HLO_SHARDING = _seam(
    "HLO_SHARDING", "jax.sharding", "Sharding._to_xla_hlo_sharding",
    "programs as one message, and resharding on the servers,",
    "the public methods tell the indices of the parts, and not which parts are to be summed",
    "Programs run call by call, and arrays are resharded through this process")

DEVICE_LIST = _seam(
    "DEVICE_LIST", "jax.sharding", "Sharding._internal_device_list",
    "programs over arrays of other shardings than NamedSharding and SingleDeviceSharding",
    "Sharding.device_set has no order, and only a NamedSharding has a mesh",
    "Calls with such arrays raise an error that says so")

SHARD_ARG = _seam(
    "SHARD_ARG", "jax._src.interpreters.pxla", "shard_arg_handlers",
    "resharding on the servers",
    "device_put and the arguments of jit have no public hook",
    "Arrays are resharded through this process")

OTHER_ORDER = _seam(
    "OTHER_ORDER", "jax._src.dispatch", "_different_device_order_reshard",
    "moves between two orders of the same devices on the servers",
    "as SHARD_ARG: device_put treats this case apart",
    "jax compiles a program over all of the devices for them")

TRANSFER_TO_SHARDINGS = _seam(
    "TRANSFER_TO_SHARDINGS", "jaxlib._pathways", "_transfer_to_shardings",
    "reshards in one request",
    "jax calls it for its own Pathways backend only",
    "Arrays are resharded by a program of one transfer, for which the cluster is asked once for each pair of shardings",
    since="0.9.0")

TRANSFER_GUARD = _seam(
    "TRANSFER_GUARD", "jax._src.lib", "guard_lib.thread_local_state",
    "jax.transfer_guard_device_to_device for copies that the servers make",
    "jax.config tells the level, but not whether jax.device_put has asked for the copy",
    "Such copies are neither logged nor refused")

MESHES = _seam(
    "MESHES", "jax._src.sharding_impls", "",
    "jax.make_mesh's meshes over several islands",
    "make_mesh has no option to take devices of different slice_index",
    "Make such meshes with jax.sharding.Mesh")

# ------------------------------------------------------------------------------------------------------ effects and programs
RUNTIME_TOKENS = _seam(
    "RUNTIME_TOKENS", "jax._src.dispatch", "runtime_tokens",
    "errors of callbacks told once, and the order of effects between programs and jit calls,",
    "jax.effects_barrier waits for the tokens, and gives no access to them",
    "A failed callback fails later barriers too, and jax.effects_barrier does not wait for programs")

ORDERED_EFFECTS = _seam(
    "ORDERED_EFFECTS", "jax._src.effects", "ordered_effects",
    "programs with effects",
    "jax.make_jaxpr tells the effects of a function, but not which of them have an order",
    "Programs with callbacks or prints run call by call, as functions that are not decorated")

LOWERING = _seam(
    "LOWERING", "jax.stages", "Lowered._lowering",
    "programs as one message",
    "jax.stages.Lowered shows the module, but not its constants, the arguments that it keeps, nor its callbacks",
    "Programs run call by call")

ALL_DEVICES = _seam(
    "ALL_DEVICES", "jaxlib._jax", "Client._get_all_devices",
    "virtual slices and empty seats",
    "jax.devices() lists the machines' own devices alone, where their hosts are there",
    "A request for a slice raises an error that says so; pw.seats() is jax.devices()")

CLIENT_CLASS = _seam(
    "CLIENT_CLASS", "jaxlib._jax", "Client",
    "virtual slices through the PJRT door",
    "jax.devices() asks jaxlib's client, and PJRT has no devices that a client does not list",
    "A request for a slice raises an error that says so")

RESULT_HANDLER = _seam(
    "RESULT_HANDLER", "jax._src.interpreters.pxla", "global_aval_to_result_handler",
    "fast results of programs",
    "jax.make_array_from_single_device_arrays takes several times as long, and its arrays are always committed",
    "Calls of programs take longer, and all of their results are committed to their devices")
