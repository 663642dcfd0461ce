"""Encodes a program of many nodes as pathways/v1/program.proto specifies, without a protobuf library."""

# The element types of pathways/buffers/dtype.h.
DTYPES = {name: number for number, name in {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64", 10: "float16",
    11: "float32", 12: "float64", 15: "complex64", 16: "bfloat16", 18: "complex128", 19: "float8_e5m2", 20: "float8_e4m3fn",
    21: "int4", 22: "uint4", 23: "float8_e4m3b11fnuz", 24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 28: "float8_e4m3",
    29: "float8_e3m4", 32: "float4_e2m1fn", 33: "float8_e8m0fnu"}.items()}


def _varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _int(field, number):
    return _varint(field << 3) + _varint(number) if number else b""


def bytes_field(field, data, keep_empty=False):
    if isinstance(data, str):
        data = data.encode()
    return _varint(field << 3 | 2) + _varint(len(data)) + data if data or keep_empty else b""


def _ints(field, numbers):
    return bytes_field(field, packed(numbers))


MAGIC = b"pathways.v1.Program\n"


def packed(numbers):
    """Encodes device ids for `executable` and `sharding`. Encode once and reuse: a mesh may have thousands of devices, and many of both use it."""
    return b"".join(map(_varint, numbers))


def executable(module, options, devices, count):
    return bytes_field(1, "mlir") + bytes_field(2, module) + bytes_field(3, options) + _int(4, 1) + _int(5, count) + bytes_field(6, devices)


def host_function(text, devices, count):
    return bytes_field(1, "pathways.v1.HostFunction") + bytes_field(2, text) + _int(4, 1) + _int(5, count) + bytes_field(6, devices)


def sharding(devices, op_sharding, memory_kind):
    return bytes_field(1, devices) + bytes_field(2, op_sharding) + bytes_field(3, memory_kind)


def _node(location, field, body):
    return bytes_field(1, location) + bytes_field(field, body, keep_empty=True)


def type_(dtype, dims, sharding):
    return _int(1, dtype) + _ints(2, dims) + _int(3, sharding)


def arg(location, type, donated, apart):
    return _node(location, 2, type_(*type) + _int(4, donated) + _int(5, apart))


def compute(location, executable, inputs, outputs):
    return _node(location, 3, _int(1, executable) + _ints(2, inputs) + _int(3, outputs))


def transfer(location, value, sharding):
    return _node(location, 4, _int(1, value) + _int(2, sharding))


def result(location, value):
    return _node(location, 5, _int(1, value))


def _messages(field, items):
    return b"".join(bytes_field(field, item, True) for item in items)


def host_call(location, callback, inputs, types, function):
    return _node(location, 6, _int(1, callback) + _ints(2, inputs) + _messages(3, types) + bytes_field(4, function))


def select(location, index, inputs, types, branches):
    return _node(location, 7, _int(1, index) + _ints(2, inputs) + _messages(3, types) + _ints(4, branches))


def host_compute(location, executable, inputs, takes, types, function):
    return _node(location, 8, _int(1, executable) + _ints(2, inputs) + _messages(3, takes) + _messages(4, types) + bytes_field(5, function))


def while_loop(location, predicate, inputs, types, turn):
    return _node(location, 40, _int(1, predicate) + _ints(2, inputs) + _messages(3, types) + _int(4, turn))


def route(location, back, inputs, takes, types, groups):
    return _node(location, 60, _int(1, back) + _ints(2, inputs) + _messages(3, takes) + _messages(4, types) + _int(5, groups))


def branch(name, nodes):
    return bytes_field(1, name) + _messages(2, nodes)


def publication(name, shardings, read, part, parts, note, arrays):
    """`arrays`: (number, type) of each."""
    body = bytes_field(1, name) + _int(2, read) + _int(3, part) + _int(4, parts) + bytes_field(5, note)
    body += _messages(6, [_int(1, number) + bytes_field(2, type_(*type), True) for number, type in arrays])
    return bytes_field(1, name) + _messages(3, shardings) + bytes_field(7, body, True)


def program(name, executables, shardings, nodes, branches=(), effects=False):
    fields = [(2, executables), (3, shardings), (4, nodes), (5, branches)]
    return bytes_field(1, name) + b"".join(bytes_field(number, item, True) for number, items in fields for item in items) + _int(6, effects)
