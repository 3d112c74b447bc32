# SPDX-License-Identifier: Apache-2.0
"""koord-runtime-proxy's command line, and the program without any runtime."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from koord.cli.daemons.runtime_proxy import main, parse
from koord.delivery.cri.options import RuntimeProxyOptions
from tests.real.plane import free_port

_PATIENCE_SECONDS = 60.0


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
    monkeypatch.setattr("sys.argv", ["koord-runtime-proxy", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert message in error
    assert error.count("\n") == 1


def _answer(url: str) -> str:
    """Body of an answer, of a failed check too; waits until somebody listens."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


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
        assert _answer(f"{url}/healthz") == "ok"
        assert "[-]runtime failed" in _answer(f"{url}/readyz")
        assert json.loads(_answer(f"{url}/status"))["socket"] == str(socket)
        assert "koord_runtime_proxy_calls_total" in _answer(f"{url}/metrics")
        assert socket.is_socket()
        assert socket.stat().st_mode & 0o777 == 0o660
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=_PATIENCE_SECONDS)
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
    monkeypatch.setattr("sys.argv", ["koord-runtime-proxy", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "expected a path where nothing is but a socket" in capsys.readouterr().err
    assert file.read_text() == "kept"
