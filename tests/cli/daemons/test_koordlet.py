# SPDX-License-Identifier: Apache-2.0
"""koordlet's command line: every flag of the original's, one line for what is wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from koord.agent.host.roots import IN_CONTAINER, HostRoots, default_roots
from koord.agent.options import AgentOptions
from koord.agent.unused_flags import OWN, UNUSED
from koord.base.errors import KoordError
from koord.cli.daemons.koordlet import _parser, main, parse, without_effect
from koord.cli.options.go_flags import two_dashes
from tests.cli.pages import compatibility

HERE = ["--node-name", "n1"]
KUBECONFIG = """{apiVersion: v1, kind: Config, current-context: a,
contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: a, user: {}}]}
"""


def test_flags_have_the_originals_defaults() -> None:
    options, kubeconfig, verbosity = parse(HERE)
    assert (kubeconfig, verbosity) == (None, 2)
    assert options == AgentOptions(node_name="n1")
    assert options.roots(HostRoots()) == HostRoots()
    assert options.listen() == ("127.0.0.1", 9316)
    assert parse([*HERE, "--addr=:9316"])[0].listen() == ("0.0.0.0", 9316)


def test_every_kind_of_flag_is_read() -> None:
    words = [
        "--cgroup-root-dir=/cg/", "--collect-res-used-interval", "2s", "--only-evict-by-api",
        "--enable-node-metric-report=false", "--cpu-evict-cool-time-seconds=30", "-v", "5",
        "--feature-gates=CPUEvict=true,CPUBurst=false", "--addr=[::1]:9", "--kubeconfig", "/k",
    ]  # fmt: skip
    options, kubeconfig, verbosity = parse([*HERE, *words])
    assert (kubeconfig, verbosity) == (Path("/k"), 5)
    assert options.roots(IN_CONTAINER).cgroup == "/cg"
    assert options.roots(IN_CONTAINER).proc == "/proc"
    assert (options.collect_res_used_interval, options.only_evict_by_api) == (2.0, True)
    assert not options.enable_node_metric_report
    assert options.cpu_evict_cool_time_seconds == 30
    assert options.gates().enabled("CPUEvict")
    assert not options.gates().enabled("CPUBurst")
    assert options.listen() == ("::1", 9)


def test_the_name_of_the_node_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "n2")
    assert parse([])[0].node_name == "n2"
    monkeypatch.delenv("NODE_NAME")
    with pytest.raises(KoordError, match="--node-name: got ''"):
        parse([])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--collect-res-used-interval", "soon"], "--collect-res-used-interval: got 'soon'"),
        (["--collect-res-used-interval=-1s"], "--collect-res-used-interval: got '-1s'"),
        (["--cpu-evict-cool-time-seconds", "-3"], "got '-3', expected a whole number from 0"),
        (["--audit-verbose", "x"], "--audit-verbose: got 'x', expected a whole number"),
        (["--dry-run=maybe"], "--dry-run: got 'maybe', expected true or false"),
        (["--feature-gates", "CPUBurts=true"], "a known gate, such as CPUBurst"),
        (["--pods-from", "here"], "--pods-from: got 'here', expected kubelet or apiserver"),
        (["--cgroup-driver", "x"], "--cgroup-driver: got 'x', expected systemd or cgroupfs"),
        (["--addr", "nine"], "--addr: got 'nine', expected HOST:PORT or :PORT"),
        (["--addr", ":99999"], "--addr: got ':99999'"),
        (["--bogus"], "koordlet: got '--bogus', expected a known flag, as koordlet --help lists"),
        (["--dry"], "koordlet: got '--dry', expected a known flag, such as --dry-run"),
        (["-v"], "error: --v: got '', expected a value"),
        (
            ["--node-name", "Bad Name!"],
            "error: --node-name: got 'Bad Name!', expected a node's name as kubectl get nodes lists"
            " it: a-z, 0-9, - and .",
        ),
        (["--node-name", "Node1"], "--node-name: got 'Node1', expected a node's name"),
        (["--node-name", "n1."], "--node-name: got 'n1.', expected a node's name"),
        (
            ["--runtime-hooks-nri-plugin-index", "7"],
            "--runtime-hooks-nri-plugin-index: got '7', expected two digits",
        ),
        (
            ["--runtime-hooks-nri-plugin-name", "a b"],
            "--runtime-hooks-nri-plugin-name: got 'a b', expected letters, digits, and any of",
        ),
        (
            ["--runtime-hooks-network", "tcp"],
            "--runtime-hooks-network: got 'tcp', expected unix",
        ),
        (
            ["--runtime-hooks-failure-policy", "fail"],
            "--runtime-hooks-failure-policy: got 'fail', expected Fail or Ignore",
        ),
        (
            ["--runtime-hooks-plugin-failure-policy="],
            "--runtime-hooks-plugin-failure-policy: got '', expected Fail or Ignore",
        ),
        (
            ["--runtime-hooks-disable-stages", "PreCreateContainer,PreRunPodSandbx"],
            "--runtime-hooks-disable-stages: got 'PreRunPodSandbx', expected stages such as "
            "PreRunPodSandbox",
        ),
        (
            ["--runtime-hooks-addr", "/" + "x" * 107],
            "expected a path of at most 107 bytes",
        ),
        (
            ["--state-dir", "/etc/passwd"],
            "--state-dir: got '/etc/passwd', expected a directory, which koordlet makes",
        ),
        (["--audit-log-dir", "/etc/passwd"], "--audit-log-dir: got '/etc/passwd', expected a dir"),
        (
            ["--prediction-checkpoint-filepath", "/etc/passwd"],
            "--prediction-checkpoint-filepath: got '/etc/passwd', expected a directory",
        ),
        (
            ["--kubelet-ca", "/no/such.pem"],
            "--kubelet-ca: got '/no/such.pem', expected a file of PEM certificates",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["koordlet", *HERE, *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert message in error
    assert error.count("\n") == 1


def test_help_has_every_flag_and_an_example() -> None:
    text = _parser().format_help()
    for name in vars(AgentOptions()):
        assert f"--{name.replace('_', '-')}" in text
    assert "Example:\n  agent_mode=hostMode koordlet" in text


def test_the_originals_daemonset_starts_as_it_is() -> None:
    words = [
        "-addr=:9317", "-cgroup-root-dir=/host-cgroup/", "--logtostderr=true", "-v=4",
        "-feature-gates=CPUEvict=true", "-tsdb-path", "/metric-data/", "-report-interval=60s",
        "-enable-nri-runtime-hook", "--collect-res-used-interval=2s", "-only-evict-by-api",
        "-runtime-hooks-nri-backoff-factor=2.5", "-runtime-hooks-network=unix",
        "-runtime-hooks-addr=/host-var-run-koordlet/koordlet.sock",
        "-runtime-hooks-host-endpoint=/var/run/koordlet//koordlet.sock",
        "-runtime-hooks-disable-stages=PreRunPodSandbox,PostStopContainer",
    ]  # fmt: skip
    options, _, verbosity = parse([*HERE, *words])
    assert (options.addr, options.cgroup_root_dir, verbosity) == (":9317", "/host-cgroup/", 4)
    assert options.gates().enabled("CPUEvict")
    assert (options.collect_res_used_interval, options.only_evict_by_api) == (2.0, True)
    assert options.runtime_hooks_nri_backoff_factor == 2.5
    assert options.disabled_stages() == {"PreRunPodSandbox", "PostStopContainer"}
    roots = options.roots(default_roots({}))
    assert roots.hook_socket == "/host-var-run-koordlet/koordlet.sock"
    assert roots.hook_config == "/host-etc-hookserver"
    assert without_effect(words) == ["logtostderr", "report-interval", "tsdb-path"]
    assert without_effect(HERE) == []
    assert parse([*HERE, "--v=3"])[2] == parse([*HERE, "-v3"])[2] == parse([*HERE, "-v", "3"])[2]


def test_one_dash_is_two_but_for_single_letters() -> None:
    words = ["-v", "3", "-v=3", "-v3", "-h", "-vmodule=a=1", "-addr=:1", "--addr", "-1"]
    assert two_dashes(words) == [*words[:5], "--vmodule=a=1", "--addr=:1", "--addr", "-1"]


def test_what_has_no_effect_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("koord.cli.daemons.koordlet.log.setup", lambda verbosity: None)
    monkeypatch.setattr("koord.cli.daemons.koordlet._run", _nothing)
    monkeypatch.setattr("sys.argv", ["koordlet", *HERE, "-tsdb-path=/x", "--report-interval=1s"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (0, None)
    assert [r.getMessage() for r in caplog.records] == ["flags without effect here"]


async def _nothing(*_: object) -> int:
    return 0


def test_the_page_on_compatibility_has_every_flag_and_gate() -> None:
    rows = compatibility("Node agent: flags")
    flags = {f"--{name.replace('_', '-')}" for name in vars(AgentOptions())}
    unused = {f"--{name}": f"no effect: {why}" for name, why in UNUSED.items()}
    own = {f"--{name}" for name in OWN}
    assert own <= flags
    gates = {gate.name: gate for gate in AgentOptions().gates().known()}
    assert set(rows) == flags | set(unused) | set(gates)
    assert {name: rows[name] for name in unused} == unused
    assert {name for name, says in rows.items() if says.startswith("ours")} == own
    for name, gate in gates.items():
        assert rows[name] == f"{'on' if gate.default else 'off'}: {gate.doc}", name
        assert gate.doc.startswith("no effect: ") is not gate.effect, name


_MODULES = """
import pkgutil, sys
from importlib import import_module
import koord.agent, koord.cli.daemons.koordlet
for found in pkgutil.walk_packages(koord.agent.__path__, "koord.agent."):
    import_module(found.name)
print("koord._native.core" in sys.modules, "koord._native.cluster" in sys.modules)
"""


def test_an_agent_loads_no_kernel_of_a_cluster() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _MODULES], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["True", "False"]


_CONTEXTS = """
import os, ssl, sys
from koord.cli.daemons.koordlet import _without_authorities
made = []
ssl.SSLContext.set_default_verify_paths = ssl.SSLContext.load_default_certs = (
    lambda self, *_: made.append(os.environ.get("SSL_CERT_FILE"))
)
_without_authorities()
assert "aiohttp" in sys.modules
print(set(made) <= {os.devnull}, os.environ.get("SSL_CERT_FILE"))
"""


@pytest.mark.parametrize("told", [None, "/etc/some/authorities.pem"])
def test_the_systems_authorities_are_only_left_out_of_contexts_that_nobody_uses(
    told: str | None,
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "SSL_CERT_FILE"}
    if told is not None:
        environment["SSL_CERT_FILE"] = told
    ran = subprocess.run(
        [sys.executable, "-c", _CONTEXTS], env=environment, check=True, capture_output=True
    )
    assert ran.stdout.decode().split() == ["True", str(told)]


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(KUBECONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "koord.cli.daemons.koordlet",
                *HERE,
                "--dry-run",
                "--addr",
                address,
            ],
            env={**os.environ, "agent_mode": "hostMode", "KUBECONFIG": str(config)},
            capture_output=True,
            text=True,
        )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        f"error: --addr: got '{address}', expected an address of this machine that nobody listens"
        " on (Address already in use)"
    )
