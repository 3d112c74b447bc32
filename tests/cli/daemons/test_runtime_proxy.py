# SPDX-License-Identifier: Apache-2.0
"""koord-runtime-proxy's command line, and the program without any runtime."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from koord.cli.daemons.runtime_proxy import main, parse
from koord.delivery.cri.options import RuntimeProxyOptions
from tests.cli.daemons.program import PATIENCE_SECONDS, answer, usage_error
from tests.real.plane import free_port


def test_flags_have_the_originals_names_and_defaults() -> None:
    options, verbosity = parse([])
    assert (options, verbosity) == (RuntimeProxyOptions(), 2)
    assert options.koord_runtimeproxy_endpoint == "/var/run/koord-runtimeproxy/runtimeproxy.sock"
    assert options.remote_runtime_service_endpoint == "/var/run/containerd/containerd.sock"
    assert options.runtime_hook_server_key == "runtimeproxy.koordinator.sh/skip-hookserver"
    assert (options.backend_runtime_mode, options.runtime_hook_server_val) == ("Containerd", "true")
    given, _ = parse(
        [
            "-remote-runtime-service-endpoint=unix:///run/crio/crio.sock",
            "--logtostderr=true",
            "-v=4",
        ]
    )
    assert given.runtime_path() == "/run/crio/crio.sock"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backend-runtime-mode=Docker"], "got 'Docker', expected Containerd; Docker, which"),
        (["--koord-runtimeproxy-endpoint=x"], "got 'x', expected the path of a socket"),
        (["--koord-runtimeproxy-endpoint=/" + "x" * 200], "at most 107 bytes"),
        (
            ["--koord-runtimeproxy-endpoint=/s", "--remote-runtime-service-endpoint=/s"],
            "expected another socket than the runtime's",
        ),
        (["--runtime-hook-timeout=0s"], "--runtime-hook-timeout: got 0.0, expected more than 0"),
        (["--runtime-hook-timeout", "-3s"], "--runtime-hook-timeout: got '-3s', expected a dur"),
        (["--runtime-hook-timeout", "-v=4"], "--runtime-hook-timeout: got '', expected a value"),
        (["--state-dir=pods"], "--state-dir: got 'pods', expected an absolute path"),
        (["--addr=x"], "--addr: got 'x', expected HOST:PORT"),
        (["--koord-runtime-proxy-endpoint=/s"], "such as --koord-runtimeproxy-endpoint"),
        (["--kubeconfig=x"], "expected a known flag"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in usage_error(main, ["koord-runtime-proxy", *words], monkeypatch, capsys)


def test_without_a_runtime_it_listens_is_not_ready_and_ends_in_order(tmp_path: Path) -> None:
    port, socket = free_port(), tmp_path / "run" / "proxy.sock"
    words = [
        sys.executable, "-m", "koord.cli.daemons.runtime_proxy",
        f"--koord-runtimeproxy-endpoint={socket}", f"--addr=127.0.0.1:{port}",
        f"--remote-runtime-service-endpoint={tmp_path / 'nobody.sock'}",
        f"--state-dir={tmp_path / 'pods'}", f"--runtime-hook-config-dir={tmp_path / 'hooks'}",
    ]  # fmt: skip
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        assert answer(f"{url}/healthz") == "ok"
        assert "[-]runtime failed" in answer(f"{url}/readyz")
        assert json.loads(answer(f"{url}/status"))["socket"] == str(socket)
        assert "koord_runtime_proxy_calls_total" in answer(f"{url}/metrics")
        assert socket.is_socket()
        assert socket.stat().st_mode & 0o777 == 0o660
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, log
    assert "the runtime does not answer" in log
    assert "Traceback" not in log


def test_what_is_no_socket_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "important"
    file.write_text("kept")
    words = [f"--koord-runtimeproxy-endpoint={file}", "--addr=", f"--state-dir={tmp_path / 'p'}"]
    words.append(f"--runtime-hook-config-dir={tmp_path / 'h'}")
    error = usage_error(main, ["koord-runtime-proxy", *words], monkeypatch, capsys)
    assert "expected a path where nothing is but a socket" in error
    assert file.read_text() == "kept"
