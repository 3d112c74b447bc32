# SPDX-License-Identifier: Apache-2.0
"""Mounts a model of a file system, by the kernel's FUSE protocol and nothing else.

The server is a process of its own: a caller in native code may hold the interpreter's lock while it
waits for an answer. Protocol: include/uapi/linux/fuse.h, version 7.31.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import stat
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.standins.model import Directory, File

_IN = struct.Struct("<IIQQIIII")
_OUT = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<6Q10I")
_ENTRY = struct.Struct("<4Q2I")
_ATTR = struct.Struct("<Q2I")
_OPEN = struct.Struct("<QIi")
_READ = struct.Struct("<QQI")
_WRITE = struct.Struct("<QQII")
_ENTRY_HEAD = struct.Struct("<QQII")
_INIT = struct.Struct("<4I2H2I2H8I")
_DIRECT_IO = 1
_BUFFER = 1 << 17
_DETACH = 2
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _MKDIR, _RMDIR = 1, 2, 3, 4, 9, 11
_OPEN_FILE, _READ_FILE, _WRITE_FILE, _STATFS, _RELEASE, _FLUSH, _INIT_SESSION = (
    14, 15, 16, 17, 18, 25, 26,
)  # fmt: skip
_OPENDIR, _READDIR, _RELEASEDIR, _ACCESS, _INTERRUPT, _BATCH_FORGET = 27, 28, 29, 34, 36, 42
_SILENT = (_FORGET, _INTERRUPT, _BATCH_FORGET)


class MissingFuseError(Exception):
    """Nothing can be mounted here; one line says why."""


@contextlib.contextmanager
def mounted(make: Callable[[], Directory], point: Path) -> Iterator[Path]:
    """Mounts what `make` gives, at a directory, until left.

    Raises:
        MissingFuseError: no ``/dev/fuse``, or no right to mount.
    """
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MissingFuseError(f"/dev/fuse: {error.strerror}") from None
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    try:
        if libc.mount(b"stand-in", os.fsencode(point), b"fuse", 0, options.encode()) != 0:
            raise MissingFuseError(f"mount: {os.strerror(ctypes.get_errno())}")
        server = _fork()
        if server == 0:
            _serve(device, make)
    finally:
        os.close(device)
    try:
        yield point
    finally:
        libc.umount2(os.fsencode(point), _DETACH)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def _fork() -> int:
    with warnings.catch_warnings():
        # Of threads in this process, which the server has nothing to do with.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(device: int, make: Callable[[], Directory]) -> None:
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        Session(device, make()).run()
    except BaseException as error:
        print(f"stand-in: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


class Session:
    """Answers the kernel's requests, one at a time.

    Args:
        device: an open ``/dev/fuse`` that was mounted.
        root: what is served.
    """

    def __init__(self, device: int, root: Directory) -> None:
        self._device = device
        self._root = root
        # Paths by node id; a path keeps its id, so that the kernel's cache of names holds.
        self._paths: list[tuple[str, ...]] = [(), ()]
        self._numbers: dict[tuple[str, ...], int] = {(): 1}
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            _INIT_SESSION: self._init,
            _LOOKUP: lambda node, body: self._entry((*self._paths[node], _name(body))),
            _GETATTR: self._attributes,
            _SETATTR: self._attributes,
            _MKDIR: self._mkdir,
            _RMDIR: self._rmdir,
            _OPEN_FILE: self._open,
            _OPENDIR: lambda *_: _OPEN.pack(0, 0, 0),
            _READ_FILE: self._read,
            _READDIR: self._readdir,
            _WRITE_FILE: self._write,
            _STATFS: lambda *_: struct.pack("<5Q10I", *([0] * 5), 0, 255, *([0] * 8)),
        }
        for operation in (_RELEASE, _FLUSH, _RELEASEDIR, _ACCESS):
            self._answers[operation] = lambda *_: b""

    def run(self) -> None:
        """Until it is unmounted."""
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                raise
            _, operation, unique, node, *_ = _IN.unpack_from(request)
            if operation in _SILENT:
                continue
            number, answer = self._one(operation, node, request[_IN.size :])
            head = _OUT.pack(_OUT.size + len(answer), -number, unique)
            with contextlib.suppress(FileNotFoundError):
                os.write(self._device, head + answer)

    def _one(self, operation: int, node: int, body: bytes) -> tuple[int, bytes]:
        if operation not in self._answers:
            return errno.ENOSYS, b""
        try:
            return 0, self._answers[operation](node, body)
        except OSError as error:
            return error.errno or errno.EIO, b""

    def _find(self, path: tuple[str, ...]) -> Directory | File:
        found: Directory | File = self._root
        for name in path:
            if not isinstance(found, Directory) or name not in found.entries():
                raise OSError(errno.ENOENT, "")
            found = found.entries()[name]
        return found

    def _init(self, _: int, body: bytes) -> bytes:
        ahead = struct.unpack_from("<4I", body)[2]
        return _INIT.pack(7, 31, ahead, 0, 16, 12, 1 << 16, 1, 16, 0, *([0] * 8))

    def _entry(self, path: tuple[str, ...]) -> bytes:
        # Valid for no time: names come and go as the model says.
        return _ENTRY.pack(self._number(path), 0, 0, 0, 0, 0) + self._packed(path)

    def _attributes(self, node: int, _: bytes) -> bytes:
        return _ATTR.pack(0, 0, 0) + self._packed(self._paths[node])

    def _number(self, path: tuple[str, ...]) -> int:
        if path not in self._numbers:
            self._numbers[path] = len(self._paths)
            self._paths.append(path)
        return self._numbers[path]

    def _packed(self, path: tuple[str, ...]) -> bytes:
        found = self._find(path)
        if isinstance(found, Directory):
            mode = stat.S_IFDIR | 0o755
        else:
            mode = stat.S_IFREG | (0o644 if found.writable else 0o444)
        size = 0 if stat.S_ISDIR(mode) else 4096
        number = self._number(path)
        return _ATTRIBUTES.pack(
            number, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )  # fmt: skip

    def _directory(self, node: int) -> Directory:
        found = self._find(self._paths[node])
        if not isinstance(found, Directory):
            raise OSError(errno.ENOTDIR, "")
        return found

    def _file(self, node: int) -> File:
        found = self._find(self._paths[node])
        if isinstance(found, Directory):
            raise OSError(errno.EISDIR, "")
        return found

    def _mkdir(self, node: int, body: bytes) -> bytes:
        name = _name(body[8:])
        self._directory(node).mkdir(name)
        return self._entry((*self._paths[node], name))

    def _rmdir(self, node: int, body: bytes) -> bytes:
        self._directory(node).rmdir(_name(body))
        return b""

    def _open(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("<I", body)[0]
        if flags & os.O_ACCMODE != os.O_RDONLY and not self._file(node).writable:
            raise OSError(errno.EACCES, "")
        return _OPEN.pack(0, _DIRECT_IO, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size = _READ.unpack_from(body)
        return self._file(node).read().encode()[offset : offset + size]

    def _write(self, node: int, body: bytes) -> bytes:
        _, _, size, _ = _WRITE.unpack_from(body)
        # The head of a write has 40 bytes.
        self._file(node).write(body[40 : 40 + size].decode("utf-8", "replace"))
        return struct.pack("<II", size, 0)

    def _readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size = _READ.unpack_from(body)
        path = self._paths[node]
        answer = b""
        for at, (name, found) in enumerate(sorted(self._directory(node).entries().items())):
            if at < offset:
                continue
            kind = stat.S_IFDIR if isinstance(found, Directory) else stat.S_IFREG
            encoded = name.encode()
            head = _ENTRY_HEAD.pack(self._number((*path, name)), at + 1, len(encoded), kind >> 12)
            entry = head + encoded + b"\0" * (-len(encoded) % 8)
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer


def _name(body: bytes) -> str:
    return body.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
