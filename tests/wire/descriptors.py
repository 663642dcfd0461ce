"""Reads the descriptors that a jaxlib wheel embeds, and those of our own .proto files, without a protobuf library.

A FileDescriptorProto starts with its own name (field 1). So embedded ones are found by 0x0a, a length, and a path that ends in .proto.
"""

import dataclasses
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not a varint")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Yields the (number, value) of each field of a message: ints for varints and fixed widths, else bytes. Raises ValueError if it is no message."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("field 0")
        if kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            if len(value) != size:
                raise ValueError("cut short")
        else:
            raise ValueError("group")
        yield number, value


@dataclasses.dataclass
class Field:
    name: str = ""
    number: int = 0
    label: int = 1  # 1 optional, 2 required, 3 repeated
    type: int = 0
    type_name: str = ""
    oneof: str = ""  # "" for the oneof that proto3 makes of an optional field
    optional: bool = False
    oneof_index: int = -1


@dataclasses.dataclass
class File:
    name: str
    messages: dict  # full name -> {field name: Field}
    enums: dict  # full name -> {value name: number}
    methods: dict  # full name -> (input, output, client streams, server streams)


def text(value):
    return value.decode("utf-8")


def parse_field(data):
    field = Field()
    for number, value in fields(data):
        if number == 1:
            field.name = text(value)
        elif number == 3:
            field.number = value
        elif number == 4:
            field.label = value
        elif number == 5:
            field.type = value
        elif number == 6:
            field.type_name = text(value)
        elif number == 9:
            field.oneof_index = value
        elif number == 17:
            field.optional = bool(value)
    return field


def parse_enum(data, prefix, file):
    name, values = "", {}
    for number, value in fields(data):
        if number == 1:
            name = text(value)
        elif number == 2:
            entry = dict(fields(value))
            signed = entry.get(2, 0)
            values[text(entry[1])] = signed - (1 << 64) if signed >> 63 else signed
    file.enums[f"{prefix}.{name}"] = values


def parse_message(data, prefix, file):
    parts = list(fields(data))
    full = f"{prefix}.{text(dict(parts)[1])}"
    oneofs = [text(dict(fields(value))[1]) for number, value in parts if number == 8]
    message = file.messages[full] = {}
    for number, value in parts:
        if number == 2:
            field = parse_field(value)
            if field.oneof_index >= 0 and not field.optional:
                field.oneof = oneofs[field.oneof_index]
            message[field.name] = field
        elif number == 3:
            parse_message(value, full, file)
        elif number == 4:
            parse_enum(value, full, file)


def parse_service(data, prefix, file):
    parts = list(fields(data))
    full = f"{prefix}.{text(dict(parts)[1])}"
    for number, value in parts:
        if number == 2:
            method = dict(fields(value))
            file.methods[f"{full}.{text(method[1])}"] = (text(method[2]), text(method[3]), bool(method.get(5)), bool(method.get(6)))


def parse_file(data):
    parts = list(fields(data))
    scalars = {number: value for number, value in parts if number in (1, 2)}
    file = File(text(scalars[1]), {}, {}, {})
    package = "." + text(scalars.get(2, b""))
    for number, value in parts:
        if number == 4:
            parse_message(value, package, file)
        elif number == 5:
            parse_enum(value, package, file)
        elif number == 6:
            parse_service(value, package, file)
    return file


def file_length(data):
    """Returns the length of the FileDescriptorProto at the start of `data`."""
    at, seen_name = 0, False
    while at < len(data):
        start = at
        try:
            tag, at = varint(data, at)
            number, kind = tag >> 3, tag & 7
            # A FileDescriptorProto has fields 1 to 14, and one name.
            if kind not in (0, 2) or not 1 <= number <= 14 or (number == 1 and seen_name):
                return start
            seen_name = seen_name or number == 1
            if kind == 0:
                _, at = varint(data, at)
            else:
                size, at = varint(data, at)
                if at + size > len(data):
                    return start
                at += size
        except ValueError:
            return start
    return at


def embedded(library):
    """Returns {file name: descriptor} of the files of XLA that a library embeds."""
    data = pathlib.Path(library).read_bytes()
    found = {}
    for match in re.finditer(rb"\x0a([\x05-\x7f])((?:xla|tsl|tensorflow)/[\w/.]{0,120}?\.proto)", data):
        if match.group(1)[0] != len(match.group(2)):
            continue
        window = data[match.start() : match.start() + (1 << 20)]
        try:
            file = parse_file(window[: file_length(window)])
        except (ValueError, KeyError, IndexError, UnicodeDecodeError):
            continue
        if file.messages or file.enums or file.methods:
            found.setdefault(file.name, file)
    return found


def ours(paths):
    """Returns the descriptors of our own .proto files, made by protoc."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        subprocess.run(["protoc", f"-I{ROOT}/proto", f"--descriptor_set_out={out}", *map(str, paths)], check=True)
        return [parse_file(value) for number, value in fields(out.read_bytes()) if number == 1]
