"""Checks that a folder includes only folders above it, in the order of pathways/CMakeLists.txt."""

import re

import source

ORDER = ["base", "json", "trace", "net", "http", "identity", "usage", "lanes", "resource", "buffers", "storage", "dataflow", "gang", "program", "ir", "dispatch", "session", "callbacks", "device",
         "worker", "controller", "client", "frontend", "sim", "bin"]
# The order of the rooms within a folder, or within a room; "" is the folder itself. Tests, and doubles for tests, may include every room.
ROOMS = {
    "base": ["", "memory", "process", "threads"],
    "net": ["", "sockets", "tls", "asio", "shared", "in_memory", "resumable"],
    "dataflow": ["graph", "progress", ""],
    "worker": ["store", "lanes", "transfer", "route", "files", "python", "execute", "housekeeping", ""],
    "controller": ["", "names", "scheduling", "hosts", "housekeeping", "arrays", "programs", "session", "slices", "cluster"],
    "controller/cluster": ["context", "observation", "clients", "links", "worlds", "members", "status", ""],
    "controller/session": ["context", "arrays", "executables", "publications", "runs", "moves", ""],
}
FOR_TESTS = re.compile(r"_test\.cc$|/testing")
# Folders that must not include each other, although one stands above the other.
STRANGERS = {
    "controller": {"worker", "device", "storage"},  # they meet in proto/ and net/; the controller knows no files
    "client": {"worker", "controller", "device"},  # a client and the controller meet in session/
    "frontend": {"worker", "device"},
}
# The folders that plugins/pathways_pjrt, the door in the client's process, may include. One file there includes a whole cluster.
OF_THE_DOOR = {"base", "buffers", "program", "session", "callbacks", "client"}
OWN_CLUSTER = ("plugins/pathways_pjrt/own_cluster.cc", "pathways/bin/local_cluster.h")
# (header, the folders that may include it). Headers are matched as they are written in the #include.
RESERVED = [
    (re.compile(r"(^|/)pjrt_c_api"), ("pathways/device/pjrt/", "plugins/")),
    (re.compile(r"ifrt"), ("pathways/frontend/", "pathways/sim/")),
    (re.compile(r"^mlir/|^llvm/"), ("pathways/ir/", "plugins/")),
    (re.compile(r"^xla/(pjrt/c|ffi/api)/"), ("pathways/device/pjrt/", "plugins/")),  # the C interfaces
    (re.compile(r"^(xla|tsl|tensorflow)/(?!.*\.pb\.h|pjrt/c/|ffi/api/)"), ("plugins/",)),
    (re.compile(r"^asio"), ("pathways/net/", "pathways/callbacks/")),
    (re.compile(r"^sqlite3"), ("pathways/usage/",)),
    (re.compile(r"^grpc"), ("pathways/frontend/",)),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def check_layer(path, header):
    if not header.startswith("pathways/"):
        return None
    if header.endswith(".pb.h"):
        return None  # generated from proto/, which stands above every folder
    if path.startswith("plugins/pathways_pjrt/"):
        if (path, header) == OWN_CLUSTER:
            return None
        return None if header.split("/")[1] in OF_THE_DOOR else "the PJRT door sees the session, and nothing of a cluster or of another door"
    if path.startswith("plugins/"):
        return "a plugin is a separate library and includes nothing of pathways/"
    if not path.startswith("pathways/"):
        return None
    ours, theirs = path.split("/")[1], header.split("/")[1]
    if theirs not in ORDER or ours not in ORDER:
        return f"'{theirs if theirs not in ORDER else ours}' is not a folder of the layout (tools/lint/layering.py ORDER)"
    if ORDER.index(theirs) > ORDER.index(ours):
        return f"{ours}/ stands above {theirs}/ and must not include it"
    if theirs in STRANGERS.get(ours, ()):
        return f"{ours}/ must not know {theirs}/"
    return None


def room(path, folder):
    """Returns "store" for pathways/worker/store/shard.h in worker, "" for pathways/worker/worker.h."""
    parts = path.removeprefix(f"pathways/{folder}/").split("/")
    return parts[0] if len(parts) > 1 else ""


def check_room(path, header):
    if FOR_TESTS.search(path):
        return None
    for folder, order in ROOMS.items():
        if not (path.startswith(f"pathways/{folder}/") and header.startswith(f"pathways/{folder}/")):
            continue
        ours, theirs = room(path, folder), room(header, folder)
        for one in (ours, theirs):
            if one not in order:
                return f"'{one}' is not a room of {folder}/ (tools/lint/layering.py ROOMS)"
        if order.index(theirs) > order.index(ours):
            name = folder.split("/")[-1]
            return f"{ours or name}/ stands above {theirs or name}/ and must not include it"
    return None


def check_reserved(path, header):
    if header.startswith("pathways/") and not header.endswith(".pb.h"):
        return None
    for pattern, folders in RESERVED:
        if pattern.search(header) and path.startswith("pathways/") and not path.startswith(folders):
            return f"only {', '.join(folders)} may include it"
    return None


def check_own_header_first(path, headers):
    """Checks that thing.cc includes thing.h first, which proves that thing.h compiles alone."""
    own = path[:-3] + ".h"
    if path.startswith("pathways/") and path.endswith(".cc") and (source.ROOT / own).exists() and headers[:1] != [own]:
        return f'the first #include must be "{own}", which proves that it compiles alone'
    return None


def check():
    problems = []
    for path in source.cpp_files():
        headers = INCLUDE.findall(source.read(path))
        problem = check_own_header_first(path, headers)
        if problem:
            problems.append(f"{path}: {problem}")
        for header in headers:
            problem = check_layer(path, header) or check_room(path, header) or check_reserved(path, header)
            if problem:
                problems.append(f"{path}: #include \"{header}\": {problem}")
    return problems
