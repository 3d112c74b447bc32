# SPDX-License-Identifier: Apache-2.0
"""koord-manager's command line: every flag of the original's, one line for what is wrong."""

from __future__ import annotations

import pytest

from koord.cli.daemons.manager import main, parse
from koord.cli.options.go_flags import without_effect
from koord.cli.process.program import reachable
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.manager.unused_flags import UNUSED
from tests.cli.pages import compatibility

# Manager spec, sections 1 and 10.2, as a Deployment of the original may name them.
ORIGINALS = [
    "--metrics-addr=:8081", "--health-probe-addr=:8001", "--enable-leader-election=false",
    "--leader-election-namespace=kube-system", "--leader-elect-resource-lock=leases",
    "--namespace=here", "--enable-pprof=true", "--pprof-addr=:8090", "--sync-period=0",
    "--rest-config-qps=30", "--rest-config-burst=50", "--slo-config-name=other",
    "--config-namespace=elsewhere", "--node-strategy-name-need-check=true", "--controllers=*",
    "--noderesource-plugins=*,-MidResource", "--feature-gates=NodeMutatingWebhook=true",
    "--disable-no-deepcopy", "--quota-update-max-retries=3", "--quota-update-retry-jitter=0",
    "--quota-update-max-total-jitter=1s", "--quota-update-conflict-fresh-get=false",
    "--pod-enhanced-validator-config-namespace=x", "--pod-enhanced-validator-config-name=x",
    "--pod-enhanced-validator-reconcile-interval=5m", "--binding-admission-user-name=x",
    "--binding-admission-dry-run", "--binding-admission-namespaces=x",
    "--binding-admission-exclude-namespaces=kube-system", "--binding-admission-bypass-labels=x",
    "--binding-admission-bypass-annotations=x", "--colocation-profile-reconcile-by-default",
    "--colocation-profile-reconcile-interval=30s", "--colocation-profile-update-pod-qps=10",
    "--colocation-profile-force-update-pod-duration=5m",
    "--colocation-profile-expire-pod-cache-duration=10m",
    "--colocation-profile-update-pod-qps-burst=100", "--logtostderr=true", "-v=4",
]  # fmt: skip


def test_help_says_that_a_dry_run_does_not_lead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["koord-manager", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "lead nobody and write nothing" in " ".join(capsys.readouterr().out.split())


def test_flags_have_the_originals_defaults() -> None:
    options, kubeconfig, verbosity = parse([])
    assert (options, kubeconfig, verbosity) == (ManagerOptions(), None, 2)
    assert options.metrics_listen() == ("127.0.0.1", 8080)
    assert options.health_listen() == ("127.0.0.1", 8000)
    told, _, _ = parse(["--metrics-addr=:8080", "--health-probe-addr=:8000"])
    assert told.metrics_listen() == ("0.0.0.0", 8080)
    assert told.health_listen() == ("0.0.0.0", 8000)


def test_the_originals_deployment_starts_as_it_is() -> None:
    options, _, verbosity = parse([*ORIGINALS, "--kubeconfig=/k"])
    assert verbosity == 4
    assert options.metrics_addr == ":8081"
    assert not options.enable_leader_election
    assert options.slo_config_name == "other"
    assert len(options.enabled_noderesource_plugins()) == 5
    assert options.gates().enabled("NodeMutatingWebhook")
    assert options.colocation_profile_reconcile_by_default
    assert options.colocation_profile_expire_pod_cache_duration == 600
    said = without_effect(ORIGINALS, UNUSED)
    assert said == ["disable-no-deepcopy", "enable-pprof", "logtostderr", "pprof-addr"]
    assert options.binding_admission_dry_run
    assert options.pod_enhanced_validator_reconcile_interval == 300
    assert "metrics-addr" not in said


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), ("10", 10), ("2.5e1", 25), ("0", 0)])
def test_pods_a_second_need_not_be_whole(text: str, value: float) -> None:
    options, _, _ = parse([f"--colocation-profile-update-pod-qps={text}"])
    assert options.colocation_profile_update_pod_qps == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--controllers=nodeslos"], "--controllers: got 'nodeslos'"),
        (["--rest-config-qps=-1"], "--rest-config-qps: got '-1', expected a whole number"),
        (
            ["--colocation-profile-update-pod-qps=-0.5"],
            "--colocation-profile-update-pod-qps: got '-0.5', "
            "expected a number such as 10 or 0.5, or 0",
        ),
        (["--enable-leader-election=maybe"], "expected true or false"),
        (["--feature-gates=Nonsense"], "NAME=true or NAME=false"),
        (
            ["--bogus"],
            "koord-manager: got '--bogus', expected a known flag, as koord-manager --help",
        ),
        (
            ["--metric-addr=:1"],
            "got '--metric-addr', expected a known flag, such as --metrics-addr",
        ),
        (
            ["here"],
            "koord-manager: got 'here', expected flags alone, as koord-manager --help lists",
        ),
        (["--metrics-addr"], "error: --metrics-addr: got '', expected a value"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["koord-manager", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert message in error
    assert error.count("\n") == 1


def test_the_lease_says_where_the_pod_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.0.0.7")
    assert reachable("http://0.0.0.0:8080") == "http://10.0.0.7:8080"
    assert reachable("http://127.0.0.1:8080") == "http://127.0.0.1:8080"
    monkeypatch.setenv("POD_IP", "fd00::7")
    assert reachable("http://[::]:8080") == "http://[fd00::7]:8080"
    monkeypatch.delenv("POD_IP")
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    assert reachable("http://0.0.0.0:1") == "http://host:1"


def test_the_page_on_compatibility_has_every_flag_and_gate() -> None:
    rows = compatibility("Manager: flags")
    flags = {f"--{name.replace('_', '-')}" for name in vars(ManagerOptions())}
    unused = {f"--{name}": f"no effect: {why}" for name, why in UNUSED.items()}
    gates = {gate.name: gate for gate in ManagerOptions().gates().known()}
    assert set(rows) == flags | set(unused) | set(gates)
    assert {name: rows[name] for name in unused} == unused
    for name, gate in gates.items():
        assert rows[name] == f"{'on' if gate.default else 'off'}: {gate.doc}", name
        assert gate.doc.startswith("no effect: ") is not gate.effect, name
