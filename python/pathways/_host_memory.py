"""Large arrays between this process and a cluster on the same machine go through memory that both can open, not over the network.

To the cluster: jax's client library can leave a large array as a file in a directory, and only say so. Two environment variables tell it: the
size, which it reads when it connects, and the directory, read when the first such array is sent, for the life of the process. The controllers
of one user on one machine all serve one folder in memory, and each connection has a folder of its own in it. The library is told
`/proc/self/fd/N`: what that descriptor is can change with each connection, and a forked child has one of its own. Where the controller is on another
machine, our relay on this one takes the files and sends what they hold (relay/file_upload.h): jax's own way is one more hop over a socket.

From the cluster: jax reads arrays that one device holds whole by two methods of its arrays. For large ones of ours they are replaced: a program that the
controller carries out itself (plugin_programs/host_memory.h) answers where the array lies, and numpy gets those very pages. Where the controller
is on another machine, our relay on this one fetches the array into such memory (relay/download.h): the library's own way costs three times that.

What cannot be done so (small arrays, no memory left) takes jax's own path.
"""

import contextlib
import fcntl
import functools
import json
import mmap
import os
import pathlib
import secrets
import shutil
import weakref

import numpy as np

from pathways import _host_calls
from pathways._jax import seams

OPTIMIZATION = "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION"
DIRECTORY, THRESHOLD = f"{OPTIMIZATION}_DIRECTORY", f"{OPTIMIZATION}_THRESHOLD_BYTES"
# Smaller arrays are sooner there over the network.
UPLOAD_BYTES = 1 << 20
DOWNLOAD_BYTES = 2 << 20
_DESCRIPTORS = "/proc/self/fd/"
_MEMORY = pathlib.Path("/dev/shm")


def wanted():
    """PATHWAYS_SHARED_MEMORY: on; off; or relay: as if the controller were on another machine."""
    return os.environ.get("PATHWAYS_SHARED_MEMORY", "on") != "off"


def wanted_with_controller():
    return os.environ.get("PATHWAYS_SHARED_MEMORY", "on") not in ("off", "relay")


# --------------------------------------------------------------------------------------------------------- to the cluster
def named_by_user():
    """The directory that the user's own setting names, or None."""
    directory = os.environ.get(DIRECTORY)
    return None if directory is None or directory.startswith(_DESCRIPTORS) else directory


def server_folder():
    """The folder that controllers of this user serve, or None."""
    return relay_folder() if wanted_with_controller() else None


def relay_folder():
    """The folder for files that this user's processes leave for others, made if need be; None where there is none worth having: in many
    containers /dev/shm is tiny, and the client library does not survive a full one."""
    if not wanted():
        return None
    try:
        size = os.statvfs(_MEMORY)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size.f_blocks * size.f_frsize < memory // 4:
            return None
        folder = _MEMORY / f"pathways-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        return folder if status.st_uid == os.getuid() and status.st_mode & 0o77 == 0 and folder.is_dir() and not folder.is_symlink() else None
    except OSError:
        return None


def announce(folder, address, pid):
    """Lets clients on this machine know that the controller at `address` serves `folder`. The file counts while the process lives."""
    for other in folder.glob("port-*"):
        if _announced(other) is None:
            other.unlink(missing_ok=True)
    (folder / f"port-{address.rpartition(':')[2]}").write_text(json.dumps([pid, _start_time(pid)]))


def _announced(file):
    """The process that the file tells of, if it lives."""
    try:
        pid, started = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return pid if started is not None and _start_time(pid) == started else None


def served(folder, address):
    """Whether the controller at `address` is one of this machine that serves `folder`."""
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        return False
    return _announced(folder / f"port-{port}") is not None


def _start_time(pid):
    from pathways import _state

    return _state.start_time(pid)


class Uploads:
    """This process's folder for files on their way to a controller. One for each connection: the library numbers its files from 1 in each."""

    _number = None  # of the descriptor that the library was told; for the life of the process

    def __init__(self, folder, taker):
        self.taker = taker  # "shared", the controller, or "relay"
        self.pid = os.getpid()
        self.path = folder / f"client-{self.pid}-{_start_time(self.pid)}-{secrets.token_hex(8)}"
        self.path.mkdir(mode=0o700)
        _sweep(folder)
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if Uploads._number is None:
            Uploads._number = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
        else:
            os.dup2(fd, Uploads._number, inheritable=False)
        os.close(fd)

    def initialization_data(self):
        return {f"pathways_{self.taker}_subdirectory": self.path.name.encode()}

    @contextlib.contextmanager
    def told(self):
        """While the library connects. The directory alone stays in the environment: without the size, those who inherit it do nothing."""
        os.environ.update({DIRECTORY: f"{_DESCRIPTORS}{Uploads._number}", THRESHOLD: str(UPLOAD_BYTES)})
        try:
            yield
        finally:
            del os.environ[THRESHOLD]

    def remove(self):
        if os.getpid() == self.pid:
            shutil.rmtree(self.path, ignore_errors=True)


def uploads_to(address, relay_takes_files):
    """The folder for a connection to the controller at `address`, or None. The user's own settings stay."""
    if THRESHOLD in os.environ or named_by_user():
        return None
    folder = server_folder()
    if folder is not None and served(folder, address):
        return Uploads(folder, "shared")
    if relay_takes_files and (folder := relay_folder()) is not None:
        return Uploads(folder, "relay")
    if Uploads._number is None:
        return None
    raise RuntimeError(f"this process hands large arrays to a controller on this machine as files, and cannot go on to the one at {address}, "
                       "which does not take them: use a new process, or set PATHWAYS_SHARED_MEMORY=off from the start")


def _sweep(folder):
    """Removes what processes left that were killed, and whose controller was killed too."""
    for left in folder.glob("client-*"):
        try:
            _, pid, started, _ = left.name.split("-")
            if _start_time(int(pid)) != int(started):
                shutil.rmtree(left, ignore_errors=True)
        except ValueError:
            continue


# ------------------------------------------------------------------------------------------------------- from the cluster
def _open(pid, fd, device, inode):
    """The file that descriptor `fd` of process `pid` is; OSError if it is not there, or another one."""
    path = f"/proc/{pid}/fd/{fd}"
    status = os.stat(path)  # before it is opened: opening a device or a pipe does things
    if (status.st_dev, status.st_ino) == (device, inode):
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(opened)
        if (status.st_dev, status.st_ino) == (device, inode):
            return opened, status.st_size
        os.close(opened)
    raise FileNotFoundError(path)


def _machine():
    """What the controller calls MachineIdentity (plugin_programs/host_memory.h)."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


_HOST_BUFFER = 2**64 - 1  # instead of a process: the array waits at the controller


def _download(relay_socket, array, handle, session, size):
    """Has the relay fetch the array from a controller of another machine into memory of this one. None if that fails."""
    try:
        connection = _host_calls.Connection(relay_socket)
    except OSError:
        return None
    try:
        connection.send({"download": str(handle), "session": str(session), "bytes": str(size)}, [])
        answer = json.loads(connection.receive_message())
        return _map(array, *answer["memory"]) if "memory" in answer else None
    except (OSError, EOFError, ValueError):
        return None
    finally:
        connection.close()  # the relay gives its hold of the memory up


class _Reader:
    """Reads arrays of one client."""

    def __init__(self, client, relay_socket):
        self._client = client
        self._relay_socket = relay_socket  # None: there is no relay
        self._programs = {}  # by device; None: the controller does not know such programs
        self._pending = {}  # answers that are on their way, by id of the array

    def start(self, array):
        """Asks for the array; False if it is not to be had so."""
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
        """A numpy array over the shared pages, or None."""
        if not self.start(array):
            return None
        _, device, answer = self._pending.pop(id(array))
        pid, fd, file_device, inode, offset, size = (int(n) for n in np.asarray(answer).view(np.uint64))
        if pid == 0:
            return None
        try:
            if pid == _HOST_BUFFER:
                return _download(self._relay_socket, array, fd, file_device, size)
            return _map(array, pid, fd, file_device, inode, offset, size)
        finally:
            self._run(device, answer)  # releases it

    def _run(self, device, argument):
        [[answer]] = self._programs[device].execute_sharded([argument]).disassemble_into_single_device_arrays()
        return answer

    def _compile(self, device):
        from jax.extend.ifrt_programs import ifrt_programs

        requests = [{"hostMemoryRequest": {"device_ids": [device.id], "machine": _machine()}}] if wanted_with_controller() else []
        if self._relay_socket is not None:
            requests.append({"hostBufferRequest": {"device_ids": [device.id]}})
        for request in requests:
            try:
                return self._client.compile_and_load_ifrt_program(
                    ifrt_programs.make_plugin_program(json.dumps(request)), ifrt_programs.make_plugin_compile_options())
            except Exception:  # UNIMPLEMENTED: another machine, or a controller that does not know the request
                continue
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
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)  # held by the mapping: nobody fills the memory anew meanwhile
        pages = mmap.mmap(opened, offset + size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except OSError:
        return None
    finally:
        os.close(opened)
    return np.frombuffer(pages, array.dtype, array.size, offset).reshape(array.shape)


_readers = {}  # by id of the client, which lives as long as the process


def _reader_of(array):
    """Who reads the array through shared memory, or None."""
    aval = array.aval
    if aval.size * aval.dtype.itemsize < DOWNLOAD_BYTES:
        return None
    return _readers.get(id(next(iter(array.sharding.device_set)).client))


def serve(client, relay_socket):
    """Arrays of this client are read through shared memory where that can be."""
    if wanted():
        _readers[id(client)] = _Reader(client, relay_socket)


def _pieces(array):
    """Arrays of one device each that together are the array, with their places: [(index, array)]."""
    return [(shard.index, shard.data) for shard in array.addressable_shards if shard.replica_id == 0]


def _start(array):
    """Asks for the array; False if not all of it is to be had through shared memory."""
    reader = _reader_of(array)
    if reader is None:  # also of small arrays, whose pieces are smaller
        return False
    if array.is_fully_replicated:
        return reader.start(array)
    return all(_start(piece) for _, piece in _pieces(array))


def _finish(array):
    """A numpy array, or None if not all of it is to be had through shared memory."""
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
    """Idempotent. jax reads the shards of an array one by one; from 0.12 on it reads arrays as a whole, and starts many at once."""
    _install(seams.READ_ARRAY, seams.START_READ, lambda start: lambda array: None if _start(array) else start(array))
    _install(seams.READ_WHOLE, seams.START_MANY, lambda start: lambda arrays: _start_many(arrays, start))


def _install(read_seam, start_seam, starting):
    """starting(jax's own way to start reads) -> ours."""
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
