"""The bytes of a program of many nodes: pathways/v1/program.proto, which says what everything means, written without a library."""


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


def _bytes(field, data, keep_empty=False):
    if isinstance(data, str):
        data = data.encode()
    return _varint(field << 3 | 2) + _varint(len(data)) + data if data or keep_empty else b""


def _ints(field, numbers):
    return _bytes(field, b"".join(map(_varint, numbers)))


MAGIC = b"pathways.v1.Program\n"


def executable(module, options, devices):
    return (_bytes(1, "mlir") + _bytes(2, module) + _bytes(3, options) + _int(4, 1) + _int(5, len(devices)) +
            _ints(6, devices))


def sharding(devices, op_sharding, memory_kind):
    return _ints(1, devices) + _bytes(2, op_sharding) + _bytes(3, memory_kind)


def _node(location, field, body):
    return _bytes(1, location) + _bytes(field, body, keep_empty=True)


def arg(location, dtype, dims, sharding, donated, apart):
    return _node(location, 2, _int(1, dtype) + _ints(2, dims) + _int(3, sharding) + _int(4, donated) + _int(5, apart))


def compute(location, executable, inputs, outputs):
    return _node(location, 3, _int(1, executable) + _ints(2, inputs) + _int(3, outputs))


def transfer(location, value, sharding):
    return _node(location, 4, _int(1, value) + _int(2, sharding))


def result(location, value):
    return _node(location, 5, _int(1, value))


def program(name, executables, shardings, nodes):
    fields = [(2, executables), (3, shardings), (4, nodes)]
    return _bytes(1, name) + b"".join(_bytes(number, item, True) for number, items in fields for item in items)
