"""Compares our .proto files with the descriptors that installed jaxlib wheels embed. A failure names each field that differs.

Every jaxlib found in build/venv* is checked; PATHWAYS_JAXLIB may name more libjax_common.so files, separated by colons.
"""

import os
import pathlib

import descriptors
import pytest

ROOT = descriptors.ROOT
PROTOS = [*sorted((ROOT / "proto" / "ifrt_proxy").glob("*.proto")), *(ROOT / "proto" / "xla" / f for f in
          ("xla_data.proto", "compile_options.proto", "executable_metadata.proto", "xplane.proto", "profiler_options.proto"))]
# Names that only clients newer than the pinned one have.
NEWER = {
    ".xla.ifrt.DTypeProto.Kind.KIND_F6E2M3FN",
    ".xla.ifrt.DTypeProto.Kind.KIND_F6E3M2FN",
    ".xla.ifrt.XlaCompileOptionsProto.outputs_bundle_slice_sizes",
    ".xla.ifrt.XlaCompileOptionsProto.version_number",
}
PASSED_ON = "an unknown field to us, which goes to the device runtime as the client wrote it"
NO_MEANING = "where a sharding was written, for people: it is the same sharding without"
DEPRECATED = "no client that we serve sends it"
DEFAULT = "we write this message, and leave the field at its default"
# Fields of jaxlib's messages that ours do not declare, each with the reason why nothing is lost.
UNDECLARED = {
    ".xla.CompileOptionsProto": (PASSED_ON, ["argument_layouts", "serialized_multi_slice_config", "target_config",
                                             "allow_in_place_mlir_modification", "matrix_unit_operand_precision", "compiler_variant",
                                             "individually_defined_output_indices"]),
    ".xla.ExecutableBuildOptionsProto": (PASSED_ON, ["result_layout", "comp_envs", "use_auto_spmd_partitioning", "deduplicate_hlo",
                                                     "exec_time_optimization_effort", "memory_fitting_effort", "optimization_level",
                                                     "memory_fitting_level", "alias_passthrough_params", "run_backend_only", "fdo_profile",
                                                     "device_memory_size", "auto_spmd_partitioning_mesh_shape",
                                                     "auto_spmd_partitioning_mesh_ids", "process_index", "process_count", "slice_size",
                                                     "gpu_topology"]),
    ".xla.OpSharding": (NO_MEANING, ["metadata"]),
    # reduction_op: how to reduce partial values. Programs do that, the server does not. It returns the field to the client as the client
    # wrote it (buffers::Sharding::WithWireForm).
    ".xla.NamedShardingProto": (NO_MEANING, ["metadata", "reduction_op"]),
    ".xla.ifrt.proxy.InitResponse.Device": (DEPRECATED, ["deprecated_attributes"]),
    ".tensorflow.ProfileOptions": (DEFAULT, ["device_type", "start_timestamp_ns", "duration_ms", "repository_path", "trace_options", "advanced_configuration",
                                             "raise_error_on_start_failure", "session_id", "override_hostname", "enable_multipass"]),
    ".xla.ifrt.proxy.DestructArrayRequest": (DEPRECATED, ["array_handle_deprecated"]),
    ".xla.ifrt.proxy.DeleteArrayRequest": (DEPRECATED, ["array_handle_deprecated"]),
}
WHOLLY_PASSED_ON = {".xla.DebugOptions"}  # hundreds of flags, which differ between releases
# Messages that clients sent before jaxlib 0.12.
OLDER = {".xla.ifrt.ShardingParamProto", ".xla.ifrt.ShardingParamShardingProto", ".xla.DebugOptions.xla_gpu_strict_conv_algorithm_picker",
         ".xla.DebugOptions.xla_gpu_asm_extra_flags"}
# The newest client that we test with. A name that it lacks is an error of ours; older clients may lack names.
PINNED = "build/venv-newest/" if (ROOT / "build" / "venv-newest").exists() else "build/venv/"


def libraries():
    found = sorted(ROOT.glob("build/venv*/lib/python3*/site-packages/jaxlib/libjax_common.so"))
    found = [path for path in found if "venv-unpinned" not in str(path)]  # its versions are not pinned; `make newest` tests it
    return found + [pathlib.Path(p) for p in os.environ.get("PATHWAYS_JAXLIB", "").split(":") if p]


LIBRARIES = libraries()


def label(library):
    versions = list(library.parents[1].glob("jaxlib-*.dist-info"))
    return versions[0].name[:-10] if versions else str(library)


@pytest.fixture(scope="module", params=LIBRARIES, ids=label)
def wheel(request):
    files = descriptors.embedded(request.param)
    assert len(files) > 20, f"{request.param} embeds only {len(files)} descriptors: has the format of the embedding changed?"
    messages, enums, methods = {}, {}, {}
    for file in files.values():
        messages.update(file.messages)
        enums.update(file.enums)
        methods.update(file.methods)
    return messages, enums, methods, PINNED in str(request.param)


@pytest.fixture(scope="module")
def own():
    return descriptors.ours(PROTOS)


def compare_field(name, mine, theirs, pinned):
    # Whether a client distinguishes an absent field from 0 does not show on the wire. Older clients did not for some fields.
    for what in ("number", "label", "type", "type_name", "oneof") + (("optional",) if pinned else ()):
        a, b = getattr(mine, what), getattr(theirs, what)
        if a != b:
            yield f"{name}: {what} is {a!r} here and {b!r} in jaxlib"


def compare_message(name, mine, theirs, pinned):
    by_number = {field.number: field for field in theirs.values()}
    for field in mine.values():
        full = f"{name}.{field.name}"
        if field.name in theirs:
            yield from compare_field(full, field, theirs[field.name], pinned)
        elif field.number in by_number:
            yield f"{full}: number {field.number} is {by_number[field.number].name} in jaxlib"
        elif pinned and full not in NEWER | OLDER:
            yield f"{full}: jaxlib has no such field"


def test_a_jaxlib_is_there_to_compare_with():
    assert LIBRARIES, "no jaxlib under build/venv*: run tools/setup.sh"


def test_messages_agree(wheel, own):
    messages, _, _, pinned = wheel
    drift = []
    for file in own:
        for name, mine in file.messages.items():
            if name in messages:
                drift += compare_message(name, mine, messages[name], pinned)
            elif pinned and name not in OLDER:
                drift.append(f"{name}: jaxlib has no such message")
    assert not drift, "\n".join(drift)


def test_every_field_of_the_client_is_declared_or_left_out_on_purpose(wheel, own):
    """Otherwise a field that a newer client adds would be ignored silently."""
    messages, _, _, _ = wheel
    unknown = []
    for name, mine in ((name, mine) for file in own for name, mine in file.messages.items()):
        declared = {field.number for field in mine.values()}
        left_out = UNDECLARED.get(name, (None, []))[1]
        for field in messages.get(name, {}).values():
            if field.number not in declared and field.name not in left_out and name not in WHOLLY_PASSED_ON:
                unknown.append(f"{name}.{field.name} = {field.number}")
    assert not unknown, "jaxlib has fields of which we know nothing:\n" + "\n".join(unknown)


def test_enums_agree(wheel, own):
    _, enums, _, pinned = wheel
    drift = []
    for file in own:
        for name, mine in file.enums.items():
            theirs = enums.get(name, {})
            if not theirs and pinned:
                drift.append(f"{name}: jaxlib has no such enum")
            for value, number in mine.items():
                if theirs.get(value, number) != number:
                    drift.append(f"{name}.{value} is {number} here and {theirs[value]} in jaxlib")
                elif pinned and theirs and value not in theirs and f"{name}.{value}" not in NEWER:
                    drift.append(f"{name}.{value}: jaxlib has no such value")
    assert not drift, "\n".join(drift)


def test_every_element_type_of_the_client_is_known(wheel, own):
    """Otherwise a type that only a newer client has would fail at run time."""
    _, enums, _, _ = wheel
    mine = {value for file in own for value in file.enums.get(".xla.ifrt.DTypeProto.Kind", {})}
    assert set(enums[".xla.ifrt.DTypeProto.Kind"]) <= mine


def test_every_request_kind_of_the_client_is_known(wheel, own):
    messages, _, _, _ = wheel
    mine = {field for file in own for field in file.messages.get(".xla.ifrt.proxy.IfrtRequest", {})}
    assert set(messages[".xla.ifrt.proxy.IfrtRequest"]) <= mine


def test_methods_agree(wheel, own):
    _, _, methods, pinned = wheel
    drift = []
    for file in own:
        for name, mine in file.methods.items():
            if name in methods and methods[name] != mine:
                drift.append(f"{name}: {mine} here and {methods[name]} in jaxlib")
            elif pinned and name not in methods:
                drift.append(f"{name}: jaxlib has no such method")
    assert not drift, "\n".join(drift)
