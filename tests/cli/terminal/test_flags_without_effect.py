# SPDX-License-Identifier: Apache-2.0
"""A flag that has no effect beside the others, or without one of them, is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from koord.cli.daemons import koordlet, manager, scheduler
from koord.cli.process.typer_program import run_app
from koord.controllers.scheduler.unused_flags import SWITCHES, UNUSED
from tests.cli.conftest import Run
from tests.cli.pages import compatibility

PLAN = ("resctrl", "plan", "--cbm-mask", "3ff", "--l3-ids", "0-1", "--config", "x")
OPENB = ("simulate", "openb", "--nodes", "n", "--pods", "p", "--policy", "fgd")
HERE = "none beside {}, where it has no effect"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("up", "--speed", "9"), "--speed: got '9', expected --colocation beside it"),
        (("up", "--without", "nodes", "--nodes", "2"),
         "--nodes: got '2', expected " + HERE.format("--without nodes")),
        (("up", "--without", "nodes", "--seed", "2"),
         "--seed: got '2', expected " + HERE.format("--without nodes")),
        (("up", "--without", "binder"),
         "--without: got 'binder', expected scheduler beside it: the binder runs only where that "
         "is left out"),
        (("node", "status", "--every", "5s"), "--every: got '5s', expected --watch beside it"),
        (("node", "status", "--alone", "--server", "http://a"),
         "--server: got 'http://a', expected " + HERE.format("--alone")),
        (("node", "status", "--root", "/x", "--server", "http://a"),
         "--server: got 'http://a', expected " + HERE.format("--root")),
        (("explain", "pod", "p", "--server", "http://a", "--kubeconfig", "k"),
         "--kubeconfig: got 'k', expected " + HERE.format("--server")),
        (("explain", "node", "n", "--server", "http://a", "--manager", "http://b",
          "--kubeconfig", "k"),
         "--kubeconfig: got 'k', expected " + HERE.format("--server and --manager")),
        (("crds", "install", "--dry-run", "--timeout", "9"),
         "--timeout: got '9', expected " + HERE.format("--dry-run")),
        (("crds", "install", "reservations", "--guide"),
         "--guide: got 'beside a KIND', expected one of the two"),
        ((*PLAN, "--vendor", "intel", "--amd-full-scale", "80"),
         "--amd-full-scale: got '80', expected " + HERE.format("--vendor intel")),
        ((*OPENB, "--order", "o", "--load", "1.1"),
         "--load: got '1.1', expected " + HERE.format("--order")),
    ],
)  # fmt: skip
def test_it_is_refused(koord: Run, words: tuple[str, ...], error: str) -> None:
    assert koord(*words) == (2, "", f"error: {error}\n")


SCHEDULER = " level=warning component=scheduler message="


@pytest.mark.parametrize(
    ("words", "warnings"),
    [
        # As in Koordinator's own Deployment.
        (("--port=10251", "--authentication-skip-lookup=true", "--v=4", "--feature-gates=",
          "--enable-network-topology-manager=true"),
         ['"flags without effect here" flags="authentication-skip-lookup '
          'enable-network-topology-manager" why="see docs/compatibility.md"']),
        (("--secure-port", "10259", "--profiling", "--leader-elect=false"),
         ['"flags without effect here" flags=profiling why="see docs/compatibility.md"',
          '"flags without effect" flags=--secure-port without=--tls-cert-file']),
        (("--client-ca-file", "/x", "--authorization-kubeconfig=/y"),
         ['"flags without effect" flags="--client-ca-file --authorization-kubeconfig" '
          'without=--secure-port']),
        (("--dry-run", "--leader-elect=true"),
         ['"flags without effect" flags=--leader-elect beside=--dry-run']),
        (("--dry-run", "--no-leader-elect"), []),
    ],
)  # fmt: skip
def test_the_scheduler_takes_the_originals_flags(
    words: tuple[str, ...],
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["koord-scheduler", "--kubeconfig=/no/where", *words])
    with pytest.raises(SystemExit) as stop:
        run_app(scheduler.build(), scheduler.NAME)
    *said, last = capsys.readouterr().err.splitlines()
    assert (stop.value.code, "/no/where" in last) == (2, True)
    assert [line.partition(SCHEDULER)[2] for line in said] == warnings


def test_the_page_on_compatibility_has_the_schedulers_flags() -> None:
    rows = compatibility("Scheduler: flags")
    assert rows == {f"--{name}": f"no effect: {why}" for name, why in UNUSED.items()}
    assert set(UNUSED) >= SWITCHES


@pytest.mark.parametrize("flag", ["--master=http://a", "--leader-elect-resource-name=x"])
def test_the_scheduler_refuses_flags_that_it_would_have_to_follow(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["koord-scheduler", flag])
    with pytest.raises(SystemExit) as stop:
        run_app(scheduler.build(), scheduler.NAME)
    assert stop.value.code == 2
    said = f"error: koord-scheduler: got '{flag.partition('=')[0]}', expected a known flag, "
    assert capsys.readouterr().err.startswith(said)


NODE = ("koordlet", "--node-name", "n1")
# What is told before anything is opened; the program then ends of this.
NOWHERE = ("--cgroup-root-dir", "/no/where")


def daemon(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """Exit status and lines on standard error, without the time."""
    main = {"koordlet": koordlet.main, "koord-manager": manager.main}[words[0]]
    monkeypatch.setattr(sys, "argv", list(words))
    with pytest.raises(SystemExit) as stop:
        main()
    lines = capsys.readouterr().err.splitlines()
    return int(stop.value.code or 0), [line.partition(" level=")[2] or line for line in lines]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--dry-run", "--restore-on-exit"),
         "--restore-on-exit: got 'true', expected " + HERE.format("--dry-run")),
        (("--dry-run", "-restore-on-exit=false"),
         "--restore-on-exit: got 'false', expected " + HERE.format("--dry-run")),
        (("--kubelet-skip-verify", "--kubelet-ca", "-----BEGIN CERTIFICATE-----"),
         "--kubelet-ca: got '-----BEGIN CERTIFICATE-----', expected "
         + HERE.format("--kubelet-skip-verify")),
        (("--kubelet-skip-verify", "--kubelet-insecure-tls"),
         "--kubelet-skip-verify: got 'true', expected " + HERE.format("--kubelet-insecure-tls")),
        (("--pods-from=apiserver", "--disable-query-kubelet-config", "--kubelet-skip-verify"),
         "--kubelet-skip-verify: got 'true', expected "
         + HERE.format("--pods-from=apiserver and --disable-query-kubelet-config")),
        (("--report-class-summary", "--enable-node-metric-report=false"),
         "--report-class-summary: got 'true', expected "
         + HERE.format("--enable-node-metric-report=false")),
    ],
)  # fmt: skip
def test_koordlet_refuses_flags_of_koords_own(
    words: tuple[str, ...],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert daemon((*NODE, *words), monkeypatch, capsys) == (2, [f"error: {error}"])


WARNED = 'warning component={} message="flags without effect" flags={} {}'


@pytest.mark.parametrize(
    ("words", "warnings"),
    [
        (("--audit-log-dir=/x", "-audit-verbose=1", "--audit-log-dir=/y"),
         [('"--audit-log-dir --audit-verbose"', 'without="--feature-gates=AuditEvents=true"')]),
        (("--audit-max-events-limit=9", "--feature-gates=AuditEvents=true"),
         [("--audit-max-events-limit", 'without="--feature-gates=AuditEventsHTTPHandler=true"')]),
        (("--dry-run", "--audit-log-dir=/x", "--audit-verbose=1"),
         [("--audit-log-dir", "beside=--dry-run")]),
        (("--kubelet-read-only-port=1",),
         [("--kubelet-read-only-port", "without=--kubelet-insecure-tls")]),
        (("--pods-from=apiserver", "--kubelet-sync-interval=9s"),
         [("--kubelet-sync-interval", 'beside="--pods-from=apiserver"')]),
        (("--psi-collector-interval=9s", "--cpi-collector-interval=9s"),
         [("--cpi-collector-interval", 'without="--feature-gates=CPICollector=true"'),
          ("--psi-collector-interval", 'without="--feature-gates=PSICollector=true"')]),
        (("--resctrl-collector-interval=9s", "--feature-gates=ResctrlCollector=true"),
         [("--resctrl-collector-interval", "without=--enable-resctrl-collector")]),
        (("--cpu-evict-interval-seconds=9", "--only-evict-by-api"),
         [("--cpu-evict-interval-seconds",
           'without="--feature-gates=BECPUEvict=true (or CPUEvict, CPUAllocatableEvict)"'),
          ("--only-evict-by-api",
           'without="--feature-gates=BECPUEvict=true (or CPUEvict, CPUAllocatableEvict, '
           'BEMemoryEvict, MemoryEvict, MemoryAllocatableEvict)"')]),
        (("--cpu-evict-interval-seconds=9", "--collect-res-used-interval=0"),
         [("--cpu-evict-interval-seconds", 'beside="--collect-res-used-interval below 1s"')]),
        (("--only-evict-by-api=false", "--kubelet-insecure-tls=false", "--audit-verbose=1",
          "--cpu-evict-interval-seconds=9", "--feature-gates=AuditEvents=true,CPUEvict=true"), []),
    ],
)  # fmt: skip
def test_koordlet_warns_of_the_originals(
    words: tuple[str, ...],
    warnings: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, lines = daemon((*NODE, *NOWHERE, *words), monkeypatch, capsys)
    assert (status, "environment agent_mode" in lines[-1]) == (2, True)
    assert [line for line in lines if '"flags without effect"' in line] == [
        WARNED.format("agent", *warning) for warning in warnings
    ]


@pytest.mark.parametrize(
    ("words", "warnings"),
    [
        (("--enable-leader-election=false", "--leader-election-namespace=x"),
         [("--leader-election-namespace", 'beside="--enable-leader-election=false"')]),
        (("--dry-run", "--enable-leader-election", "--leader-elect-resource-lock=leases"),
         [("--enable-leader-election", "beside=--dry-run"),
          ("--leader-elect-resource-lock", "beside=--dry-run")]),
        (("--dry-run", "--enable-leader-election=false"), []),
        (("--controllers=nodeslo", "--noderesource-plugins=*", "--slo-config-name=x"),
         [("--noderesource-plugins", 'without="--controllers=noderesource"')]),
        # Admission reads it, and so do these controllers: it is in vain without both alone.
        (("--controllers=quotaprofile", "--slo-config-name=x"), []),
        (("--feature-gates=WebhookFramework=false", "--slo-config-name=x"), []),
        (("--controllers=quotaprofile", "--feature-gates=WebhookFramework=false",
          "--slo-config-name=x"),
         [("--slo-config-name", 'without="--controllers=nodemetric (or noderesource, nodeslo)"')]),
        (("--feature-gates=WebhookFramework=false", "--quota-scope=namespace"),
         [("--quota-scope", 'without="--feature-gates=WebhookFramework=true"')]),
        (("--colocation-profile-update-pod-qps=9",),
         [("--colocation-profile-update-pod-qps",
           'without="--feature-gates=ColocationProfileController=true"')]),
    ],
)  # fmt: skip
def test_the_manager_warns_of_the_originals(
    words: tuple[str, ...],
    warnings: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("koord-manager", "--kubeconfig=/no/where", *words)
    status, lines = daemon(words, monkeypatch, capsys)
    assert (status, "/no/where" in lines[-1]) == (2, True)
    assert lines[:-1] == [WARNED.format("manager", *warning) for warning in warnings]


def test_flags_that_go_together_are_taken(koord: Run, tmp_path: Path) -> None:
    order = tmp_path / "order.csv"
    status, _, err = koord(*OPENB, "--order", order)
    assert (status, err.count("\n")) == (2, 1)
    assert "--load" not in err
    assert koordlet.parse(["--node-name", "n", "--dry-run"])[0].dry_run
    assert manager.parse(["--dry-run"])[0].dry_run
