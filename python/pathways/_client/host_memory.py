"""Transfers large arrays between this process and the door of its cluster through shared memory instead of a socket. The door, an agent or a cluster of
one process, runs on this machine too.

Uploads: jax's client library can write a large array to a file in a directory and send only the file's number. Two environment variables control
this. The library reads the size threshold when it connects, and the directory when it sends the first large array; it then keeps the directory
for the life of the process. All doors of one user on one machine serve one folder in memory, and each connection has its own folder inside. We give
the library the path `/proc/self/fd/N`, so that each connection can make the descriptor refer to another folder, and a forked child has its own
descriptor.

Downloads: jax reads an array that one device holds whole through two methods of its arrays. For our large arrays we replace these methods. A
program that the door itself runs (plugin_programs/host_memory.h) returns the array's location, and numpy maps those pages.

Other cases (small arrays, no memory left) take jax's own path.
"""

import contextlib
import fcntl
import json
import mmap
import os
import pathlib
import secrets
import shutil
import weakref

import numpy as np

from pathways._jax import seams

OPTIMIZATION = "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION"
DIRECTORY, THRESHOLD = f"{OPTIMIZATION}_DIRECTORY", f"{OPTIMIZATION}_THRESHOLD_BYTES"
# Smaller arrays arrive faster over the network.
UPLOAD_BYTES = 1 << 20
DOWNLOAD_BYTES = 2 << 20
_DESCRIPTORS = "/proc/self/fd/"
_MEMORY = pathlib.Path("/dev/shm")


def wanted():
    """Whether to use shared memory: yes, unless PATHWAYS_SHARED_MEMORY is "off"."""
    return os.environ.get("PATHWAYS_SHARED_MEMORY", "on") != "off"


# --------------------------------------------------------------------------------------------------------- to the cluster
def named_by_user():
    """Returns the directory that the user's own setting names, or None."""
    directory = os.environ.get(DIRECTORY)
    return None if directory is None or directory.startswith(_DESCRIPTORS) else directory


def folder():
    """Returns the folder for files that this user's processes leave for their doors; makes it if it is missing. Returns None if /dev/shm is
    unusable, small, as in many containers, or nearly full: the client library does not survive a full one."""
    if not wanted():
        return None
    try:
        size = os.statvfs(_MEMORY)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size.f_blocks * size.f_frsize < memory // 4 or size.f_bavail * size.f_frsize < memory // 64:
            return None
        found = _MEMORY / f"pathways-{os.getuid()}"
        found.mkdir(mode=0o700, exist_ok=True)
        status = found.lstat()
        return found if status.st_uid == os.getuid() and status.st_mode & 0o77 == 0 and found.is_dir() and not found.is_symlink() else None
    except OSError:
        return None


class Uploads:
    """The folder for one connection's uploads. Each connection has its own, because the library numbers its files from 1 in each."""

    _number = None  # the descriptor whose path the library has; fixed for the life of the process

    def __init__(self, folder):
        self.pid = os.getpid()
        self.path = folder / f"client-{self.pid}-{secrets.token_hex(8)}"
        making = folder / f".{self.path.name}"
        making.mkdir(mode=0o700)
        self._locked = os.open(making, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        making.rename(self.path)  # other processes test the lock of folders with such names only
        _sweep(folder)
        if Uploads._number is None:
            Uploads._number = fcntl.fcntl(self._locked, fcntl.F_DUPFD_CLOEXEC, 100)
        else:
            os.dup2(self._locked, Uploads._number, inheritable=False)

    def initialization_data(self):
        return {"pathways_shared_subdirectory": self.path.name.encode()}

    @contextlib.contextmanager
    def told(self):
        """Sets the library's environment variables while it connects. Afterwards only the directory stays set; without the threshold it has no effect
        on child processes."""
        os.environ.update({DIRECTORY: f"{_DESCRIPTORS}{Uploads._number}", THRESHOLD: str(UPLOAD_BYTES)})
        try:
            yield
        finally:
            del os.environ[THRESHOLD]

    def remove(self):
        if os.getpid() == self.pid:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._locked)


def uploads_into(folder):
    """Makes the folder for one connection within `folder`, which its door serves. Returns None if files cannot be used, or the user has set the
    variables."""
    if THRESHOLD in os.environ or named_by_user():
        return None
    if folder is not None:
        return Uploads(folder)
    if Uploads._number is None:
        return None
    raise RuntimeError(f"this process hands large arrays over as files in {_MEMORY}, and now that folder cannot be used: use a new process, or set "
                       "PATHWAYS_SHARED_MEMORY=off from the start")


def _sweep(folder):
    """Removes the folders of processes that were killed together with their doors: those whose lock is free. Process ids cannot tell: containers that
    share this memory have equal process ids, or do not see each other's processes."""
    for left in folder.glob("client-*"):
        with contextlib.suppress(OSError):  # gone, or locked: its process lives
            fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(fd)


# ------------------------------------------------------------------------------------------------------- from the cluster
def _open(pid, fd, device, inode):
    """Opens the file behind descriptor `fd` of process `pid`; returns (descriptor, size). Raises OSError if it is missing or another file."""
    path = f"/proc/{pid}/fd/{fd}"
    status = os.stat(path)  # check before opening: opening a device or a pipe has side effects
    if (status.st_dev, status.st_ino) == (device, inode):
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(opened)
        if (status.st_dev, status.st_ino) == (device, inode):
            return opened, status.st_size
        os.close(opened)
    raise FileNotFoundError(path)


def _machine():
    """Returns this machine's MachineIdentity as the door computes it (plugin_programs/host_memory.h); "" if unknown."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


class _Reader:
    """Reads one client's arrays through shared memory."""

    def __init__(self, client):
        self._client = client
        self._programs = {}  # by device; None: the door refuses such programs
        self._pending = {}  # answers in flight, by id of the array

    def start(self, array):
        """Requests the array; returns False if shared memory cannot serve it."""
        key = id(array)
        if key in self._pending:
            return True
        source = array if len(array.sharding.device_set) == 1 else array.addressable_data(0)
        (device,) = source.sharding.device_set
        if device not in self._programs:
            self._programs[device] = self._compile(device)
        if self._programs[device] is None:
            return False
        answer = self._run(device, source)
        answer.copy_to_host_async()

        def forget(_):
            if self._pending.pop(key, None) is not None:
                self._run(device, answer)

        self._pending[key] = weakref.ref(array, forget), device, answer
        return True

    def finish(self, array):
        """Returns a numpy array over the shared pages, or None."""
        if not self.start(array):
            return None
        _, device, answer = self._pending.pop(id(array))
        pid, fd, file_device, inode, offset, size = (int(n) for n in np.asarray(answer).view(np.uint64))
        if pid == 0:
            return None
        try:
            return _map(array, pid, fd, file_device, inode, offset, size)
        finally:
            self._run(device, answer)  # releases it

    def _run(self, device, argument):
        [[answer]] = self._programs[device].execute_sharded([argument]).disassemble_into_single_device_arrays()
        return answer

    def _compile(self, device):
        from jax.extend.ifrt_programs import ifrt_programs

        request = {"hostMemoryRequest": {"device_ids": [device.id], "machine": _machine()}}
        try:
            return self._client.compile_and_load_ifrt_program(
                ifrt_programs.make_plugin_program(json.dumps(request)), ifrt_programs.make_plugin_compile_options())
        except Exception:  # UNIMPLEMENTED: the door is in another container, or does not support the request
            return None


def _map(array, pid, fd, device, inode, offset, size):
    if size != array.size * array.dtype.itemsize:
        return None
    try:
        opened, file_size = _open(pid, fd, device, inode)
    except OSError:
        return None
    try:
        if offset + size > file_size:
            return None
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the mapping holds the lock, so the memory is not reused meanwhile
        pages = mmap.mmap(opened, offset + size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except OSError:
        return None
    finally:
        os.close(opened)
    return np.frombuffer(pages, array.dtype, array.size, offset).reshape(array.shape)


_readers = {}  # by id of the client; clients live as long as the process


def _reader_of(array):
    """Returns the reader for a large array, or None: small arrays are not shared."""
    aval = array.aval
    if aval.size * aval.dtype.itemsize < DOWNLOAD_BYTES:
        return None
    return _readers.get(id(next(iter(array.sharding.device_set)).client))


def serve(client):
    """Makes this client's arrays readable through shared memory, if that is wanted."""
    if wanted():
        _readers[id(client)] = _Reader(client)


def _pieces(array):
    """Returns [(index, single-device array)], which together make up the array."""
    return [(shard.index, shard.data) for shard in array.addressable_shards if shard.replica_id == 0]


def _start(array):
    """Requests the array; returns False if shared memory cannot serve all of it."""
    reader = _reader_of(array)
    if reader is None:  # small arrays included: their pieces are smaller still
        return False
    if array.is_fully_replicated:
        return reader.start(array)
    return all(_start(piece) for _, piece in _pieces(array))


def _finish(array):
    """Returns a numpy array, or None if shared memory cannot serve all of it."""
    if not _start(array):
        return None
    if array.is_fully_replicated:
        return _reader_of(array).finish(array)
    whole = np.empty(array.shape, array.dtype)
    for index, piece in _pieces(array):
        contents = _finish(piece)
        whole[index] = np.asarray(piece) if contents is None else contents
    whole.flags.writeable = False
    return whole


def install():
    """Replaces jax's methods that read arrays. Before 0.12 jax reads shard by shard; since 0.12 it reads whole arrays and starts many at once.
    Idempotent."""
    _install(seams.READ_ARRAY, seams.START_READ, lambda start: lambda array: None if _start(array) else start(array))
    _install(seams.READ_WHOLE, seams.START_MANY, lambda start: lambda arrays: _start_many(arrays, start))


def _install(read_seam, start_seam, starting):
    """Replaces one pair of methods. starting(jax's function that starts reads) returns ours."""
    found = seams.find_all(read_seam, start_seam)
    if found is None or getattr(found[0], "_pathways", False):
        return
    read, start = found

    def to_np_array_did_copy(array):
        value = _finish(array)
        return read(array) if value is None else (value, True)

    ours = starting(start)
    to_np_array_did_copy._pathways = ours._pathways = True
    read_seam.replace(to_np_array_did_copy)
    start_seam.replace(ours)


def _start_many(arrays, start):
    if others := [array for array in arrays if not _start(array)]:
        start(others)
