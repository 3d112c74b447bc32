# SPDX-License-Identifier: Apache-2.0
"""The whole comparison as one archive: ``python -m benchmarks.peer.bundle --out FILE.tar.xz``.

It runs on a machine without network, compiler or koord: unpack it and ``python3 run.py``. In it are
koord's wheel and what it needs, unpacked for each Python asked for, etcd, kube-apiserver and
kube-scheduler, and this driver. For a Python other than this one name its interpreter, which builds
the wheel (``--python /usr/bin/python3.12``).
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks.peer import run as runner
from tests.real.binaries import KUBERNETES, MODULES, find

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
# What of the extra `kube` the scheduler and the driver import.
NEEDS = (
    "msgspec", "numpy", "typer", "rich", "PyYAML", "kubernetes", "aiohttp", "cryptography",
    "prometheus-client", "uvloop",
)  # fmt: skip
DRIVER = (
    "benchmarks/__init__.py",
    "benchmarks/diverse_pods.py",
    "benchmarks/peer",
    "tests/__init__.py",
    "tests/real/__init__.py",
    "tests/real/binaries.py",
    "tests/real/certificates.py",
    "tests/real/plane.py",
)
MOST_BYTES = 60 << 20
# Programs in Go share much of what is in them: a dictionary that spans two of them finds it.
_DICTIONARY_BYTES = 192 << 20
# Neither run nor read by anything here.
_LEFT_OUT = ("__pycache__", "tests", "*.pyi", "*.h", "*.a", "f2py", "kubernetes/aio")

README = """\
koord-scheduler beside kube-scheduler, on this machine alone

    python3 run.py                 all rows at 1,000 nodes, about an hour on two cores
    python3 run.py --together --seconds 1700           the same rows in less than half an hour
    python3 run.py --sizes --together --seconds 600    small and large clusters on many cores
    python3 run.py --nodes 5000 --pods 5000 --pairs 3 --scenario different
    python3 run.py --original PROGRAM    with the original's koord-scheduler, built elsewhere
    python3 run.py --help

It needs Python {pythons} on Linux ({machine}), and nothing else: no network, no root, no
installation. Servers listen on loopback and end with it; all files are in temporary folders. The
table goes to stdout, with the cores and versions that it was made with; how far it is, to stderr.

bin/        etcd, kube-apiserver and kube-scheduler {kubernetes}
python-*/   koord and what it needs: {needs}
driver/     benchmarks/peer (the driver and all scenarios), benchmarks/diverse_pods.py (pods no two
            of which are alike), tests/real (how the control plane is started)
run.py      starts the driver
"""


def _install(python: str, folder: Path) -> str:
    """koord and what it needs for one interpreter; its version."""
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    target = folder / f"python-{version}"
    with tempfile.TemporaryDirectory() as wheels:
        own = ["--no-build-isolation"] if python == sys.executable else []
        subprocess.run(
            [python, "-m", "pip", "-q", "wheel", "--no-deps", *own, "-w", wheels, str(ROOT)],
            check=True,
        )
        where = ["--target", str(target), "--python-version", version]
        only = ["--only-binary", ":all:", "--no-compile"]
        built = [str(wheel) for wheel in Path(wheels).iterdir()]
        subprocess.run([*pip, "install", *where, *only, "--no-deps", *built], check=True)
        subprocess.run([*pip, "install", *where, *only, *NEEDS], check=True)
    return version


def _copy(folder: Path) -> None:
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        shutil.copy2(find(name), folder / "bin" / name)
    # Of which versions the programs are is read from these.
    versions = [f"tests/real/{module.folder}/go.mod" for module in MODULES]
    for name in (*DRIVER, *versions):
        to = folder / "driver" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        else:
            shutil.copy2(ROOT / name, to)
    shutil.copy2(runner.__file__, folder / "run.py")


def make(out: Path, pythons: list[str], preset: int) -> None:
    """Writes the archive.

    Args:
        out: where; replaced.
        pythons: interpreters that it is to run with.
        preset: of xz, 0 to 9.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / runner.NAME
        folder.mkdir()
        versions = [_install(python, folder) for python in pythons]
        _copy(folder)
        text = README.format(
            pythons=" or ".join(versions), machine=runner.MACHINE, kubernetes=KUBERNETES,
            needs=", ".join(NEEDS),
        )  # fmt: skip
        (folder / "README").write_text(text, encoding="utf-8")
        _archive(folder, out, preset)


def _archive(folder: Path, out: Path, preset: int) -> None:
    chain = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": _DICTIONARY_BYTES}]

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if any(Path(entry.name).match(pattern) for pattern in _LEFT_OUT[:1]):
            return None
        if "/python-" in entry.name and any(Path(entry.name).match(p) for p in _LEFT_OUT):
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        lzma.open(out, "wb", filters=chain) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        archive.add(folder, runner.NAME, filter=kept)


def main() -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/koord-peer.tar.xz"))
    parser.add_argument("--python", action="append", help="an interpreter; may be repeated")
    parser.add_argument("--preset", type=int, default=6, help="of xz, 0 to 9")
    wish = parser.parse_args()
    make(wish.out, wish.python or [sys.executable], wish.preset)
    size = wish.out.stat().st_size
    print(f"{wish.out}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"error: {wish.out}: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
