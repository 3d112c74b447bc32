# SPDX-License-Identifier: Apache-2.0
"""The guest's two disks: Python with what koord needs (kept), and koord itself (made each time)."""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from tests.scenes import program
from tests.vm import initramfs
from tests.vm.packages import MissingVmError, Programs, cache_folder

ROOT = Path(__file__).resolve().parents[2]
# What runs in the guest, beside koord.
TESTS = (
    "tests/__init__.py", "tests/ci.py", "tests/agent/hooks/build.py", "tests/contract/api.py",
    "tests/models", "tests/node", "tests/real", "tests/scenes", "tests/standins", "tests/vm",
    "deploy/priorityclasses.yaml",
)  # fmt: skip
EXTRAS = ("kube", "agent", "sim")
_LEFT_OUT = ("koord", "matplotlib")
_LAYOUT = 1
# What Python writes beside this, and gives its name at the end.
_UNFINISHED = shutil.ignore_patterns("*.pyc.*")
_STDLIB_LEFT_OUT = (
    "site-packages", "test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "config-*",
)  # fmt: skip
_START = """export PYTHONPATH=/opt/koord/src:/opt/koord:/opt/site PYTHONDONTWRITEBYTECODE=1
export HOME=/tmp PATH=/bin
cd /tmp
{python} -m tests.vm.guest </dev/ttyS1 >/dev/ttyS1
busybox poweroff -f
"""


def base(programs: Programs) -> Path:
    """The disk with Python, made where it is missing; named after all that goes into it."""
    packages = needed_packages()
    path = cache_folder() / f"python-{_digest(packages, programs)}.ext4"
    if not path.is_file():
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".making-") as scratch:
            tree = Path(scratch) / "tree"
            _lay_base(tree, packages, programs)
            make(programs, tree, Path(scratch) / "image")
            (Path(scratch) / "image").rename(path)
    return path


def small(programs: Programs) -> Path:
    """The initramfs, made where it is missing."""
    source = Path(initramfs.__file__).read_bytes() + programs.kernel.name.encode()
    path = cache_folder() / f"initramfs-{hashlib.sha256(source).hexdigest()[:12]}.cpio"
    if not path.is_file():
        scratch = path.with_suffix(f".{os.getpid()}")
        initramfs.write(programs, scratch)
        scratch.rename(path)
    return path


def source(programs: Programs, folder: Path) -> Path:
    """A disk with koord and its tests as they are now, in `folder`."""
    tree = folder / "source"
    package = importlib.util.find_spec("koord")
    assert package
    assert package.origin
    shutil.copytree(Path(package.origin).parent, tree / "src/koord", ignore=_UNFINISHED)
    for name in ("core", "wire"):
        # An editable install keeps the extension modules elsewhere than the sources.
        native = importlib.util.find_spec(f"koord._native.{name}")
        assert native
        assert native.origin
        shutil.copy2(native.origin, tree / "src/koord/_native")
    for name in TESTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=_UNFINISHED)
        elif (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for part in ("src", "tests"):
        compileall.compile_dir(tree / part, quiet=2)
    shutil.copy2(program.build(), tree / "load")
    (tree / "start").write_text(_START.format(python=_interpreter()), encoding="utf-8")
    image = folder / "source.ext4"
    make(programs, tree, image)
    shutil.rmtree(tree)
    return image


def needed_packages() -> list[Distribution]:
    """The installed packages that the agent and an API server need at run time, by name; those
    that are missing are left out, as they are on this machine.
    """
    found: dict[str, Distribution] = {}
    waiting = _declared()
    while waiting:
        matched = re.match(r"[\w.-]+", waiting.pop())
        assert matched
        name = re.sub(r"[-_.]+", "-", matched[0]).lower()
        if name in found or name in _LEFT_OUT:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        waiting += [line for line in found[name].requires or () if "extra ==" not in line]
    return [found[name] for name in sorted(found)]


def _declared() -> list[str]:
    # Not from the installed metadata: an old editable install does not know what is new here.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]


def _interpreter() -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path(sys.base_prefix).resolve() / "bin" / version


def _digest(packages: list[Distribution], programs: Programs) -> str:
    digest = hashlib.sha256(repr((_LAYOUT, sys.version, str(_interpreter()))).encode())
    digest.update(str(_interpreter().stat().st_mtime_ns).encode())
    digest.update(programs.root.parent.name.encode())
    for package in packages:
        # RECORD has the hash of every file of a package.
        digest.update((package.read_text("RECORD") or package.version).encode())
    return digest.hexdigest()[:12]


def _lay_base(tree: Path, packages: list[Distribution], programs: Programs) -> None:
    for name in ("dev", "proc", "sys", "tmp", "run", "var", "root", "etc", "bin", "opt/koord"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n", encoding="utf-8")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
    shutil.copy2(programs.busybox, tree / "bin/busybox")
    for link in ("sh", "mount", "umount", "ls", "cat", "nsenter", "getconf", "kill", "ps"):
        (tree / "bin" / link).symlink_to("busybox")
    interpreter = _interpreter()
    library = interpreter.parent.parent / "lib" / interpreter.name
    inside = tree / interpreter.relative_to("/")
    inside.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(interpreter, inside)
    left_out = shutil.ignore_patterns(*_STDLIB_LEFT_OUT)
    shutil.copytree(library, tree / library.relative_to("/"), ignore=left_out)
    (tree / library.relative_to("/") / "site-packages").mkdir()
    for package in packages:
        copy_package(package, tree / "opt/site")
    _copy_libraries(tree)


def copy_package(package: Distribution, site: Path) -> None:
    """Copies what an installed package imports."""
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        # Not the scripts, which lie outside.
        if ".." not in file.parts and path.is_file():
            target = site.joinpath(*file.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def _copy_libraries(tree: Path) -> None:
    """All shared libraries that what lies in the tree asks for, at the paths they have here."""
    modules = [p for p in tree.rglob("*.so*") if p.is_file()]
    interpreter = tree / _interpreter().relative_to("/")
    done = subprocess.run(
        ["ldd", str(interpreter), *map(str, modules)], capture_output=True, text=True, check=False
    )
    found = set(re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout))
    if not found:
        raise MissingVmError(f"ldd: {done.stderr.strip()}")
    for name in sorted(found):
        target = tree / name.lstrip("/")
        if not name.startswith(str(tree)) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, target)


def make(programs: Programs, tree: Path, image: Path, room_mib: int = 16) -> None:
    """Writes a file system with what lies in a tree, and room for more."""
    used = sum(p.lstat().st_size for p in tree.rglob("*"))
    files = sum(1 for _ in tree.rglob("*"))
    # A block for the end of each file, and tables.
    size_mib = (used + files * 4608) // 2**20 + room_mib
    command = [
        *programs.command("sbin/mke2fs"), "-q", "-t", "ext4", "-d", str(tree), "-O", "^has_journal",
        "-N", str(files + files // 8 + 16 * room_mib), "-m", "0", str(image), f"{size_mib}M",
    ]  # fmt: skip
    environment = {**os.environ, "MKE2FS_CONFIG": str(programs.root / "etc/mke2fs.conf")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise MissingVmError(f"mke2fs: {done.stderr.strip().splitlines()[-1:]}")
