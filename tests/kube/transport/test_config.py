# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files, plugins, token files and service accounts; and one line for what is wrong."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.base.clock import VirtualClock
from koord.base.errors import KoordError, MissingExtraError
from koord.kube.transport import credentials
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.credentials import load_cluster_config
from tests.kube.transport.tls import Authority

SERVER = "https://10.0.0.1:6443"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration but the test's own."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def written(path: Path, **parts: Any) -> Path:
    """A kubeconfig with one context ``a`` of cluster and user ``a``, changed as told."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "web"}}],
        "clusters": [{"name": "a", "cluster": {"server": SERVER, **parts.pop("cluster", {})}}],
        "users": [{"name": "a", "user": parts.pop("user", {"token": "t"})}],
        **parts,
    }
    path.write_text(yaml.safe_dump(document))
    return path


def script(folder: Path, text: str) -> str:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def plugin(folder: Path, text: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    command = script(folder, text)
    return {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never"}}


def credential(**status: str) -> str:
    document = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    return f"print('''{json.dumps(document)}''')"


def test_a_token(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "api.example.com", "proxy-url": "http://proxy:3128"}
    config = load_cluster_config(written(tmp_path / "k", cluster=cluster))
    assert config.server == SERVER
    assert config.authorization == "Bearer t"
    assert config.namespace == "web"
    assert config.tls_server_name == "api.example.com"
    assert config.proxy_url == "http://proxy:3128"
    assert config.verify
    assert not config.expired()


def test_a_password(tmp_path: Path) -> None:
    user = {"username": "u", "password": "p"}
    config = load_cluster_config(written(tmp_path / "k", user=user))
    assert config.authorization == "Basic " + base64.b64encode(b"u:p").decode()


def test_certificates_as_files_and_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    encoded = {
        name: base64.b64encode(path.read_bytes()).decode()
        for name, path in (
            ("ca", authority.ca),
            ("certificate", authority.client_certificate),
            ("key", authority.client_key),
        )
    }
    files = written(
        tmp_path / "files",
        # Paths are relative to the file that names them.
        cluster={"certificate-authority": "ca.pem"},
        user={"client-certificate": "client.pem", "client-key": "client.key"},
    )
    data = written(
        tmp_path / "data",
        cluster={"certificate-authority-data": encoded["ca"]},
        user={
            "client-certificate-data": encoded["certificate"],
            "client-key-data": encoded["key"],
        },
    )
    # Nothing is written anywhere meanwhile, keys least of all.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    for path, read in ((files, lambda name: Path(name).read_text()), (data, str)):
        config = load_cluster_config(path)
        assert read(config.ca) == authority.ca.read_text()
        assert read(config.client_key) == authority.client_key.read_text()
        assert authority.client_key.read_text() not in repr(config)
        assert config.authorization == ""
        (found,) = config.tls_context().get_ca_certs()
        assert found["subject"]


def test_verification_can_be_left_out(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True}
    config = load_cluster_config(written(tmp_path / "k", cluster=cluster))
    assert not config.verify
    assert not config.tls_context().check_hostname


def test_several_files_and_a_chosen_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "one")
    written(
        tmp_path / "two",
        contexts=[{"name": "b", "context": {"cluster": "b", "user": "a"}}],
        clusters=[{"name": "b", "cluster": {"server": "https://b:1"}}],
        users=[],
    )
    files = [tmp_path / "one", tmp_path / "missing", tmp_path / "two"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    assert load_cluster_config(context="a").server == SERVER
    chosen = load_cluster_config(context="b")
    assert (chosen.server, chosen.authorization, chosen.namespace) == (
        "https://b:1", "Bearer t", "default",
    )  # fmt: skip


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    config = load_cluster_config(written(tmp_path / "k", user={"tokenFile": "token"}))
    assert config.authorization == "Bearer first"
    clock = VirtualClock(config.expires_at_seconds - 61.0)
    config = replace(config, clock=clock)
    clock.advance(60.5)
    assert not config.expired()
    clock.advance(1.0)
    assert config.expired()
    (tmp_path / "token").write_text("second")
    assert config.renewed().authorization == "Bearer second"


def test_a_plugin_gives_a_token_that_expires(tmp_path: Path) -> None:
    counted = f"import pathlib\np = pathlib.Path({str(tmp_path / 'count')!r})\n"
    counted += "n = int(p.read_text()) if p.exists() else 0\np.write_text(str(n + 1))\n"
    status = credential(token="tN", expirationTimestamp="2030-01-01T00:00:00Z")
    user = plugin(tmp_path, counted + status.replace("''')", "'''.replace('tN', f't{n}'))"))
    path = written(tmp_path / "k", user=user)
    before = path.read_text()
    config = load_cluster_config(path)
    assert config.authorization == "Bearer t0"
    assert config.expires_at_seconds == 1893456000.0 - 10.0
    assert config.renewed().authorization == "Bearer t1"
    assert path.read_text() == before


def test_a_plugin_gives_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    status = credential(
        clientCertificateData=authority.client_certificate.read_text(),
        clientKeyData=authority.client_key.read_text(),
    ).replace("print('''", "print(r'''")
    config = load_cluster_config(written(tmp_path / "k", user=plugin(tmp_path, status)))
    assert config.client_certificate == authority.client_certificate.read_text()
    assert config.authorization == ""
    config.tls_context()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import sys; print('no\\nlogin', file=sys.stderr); sys.exit(3)", "returned 3. no"),
        ("print('{')", "failed to decode process output"),
        (credential(), "a plugin that gives a token, or a certificate and its key"),
        (credential(clientCertificateData="x"), "a plugin that gives a token, or a certificate"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(KoordError) as caught:
        load_cluster_config(written(tmp_path / "k", user=plugin(tmp_path, text)))
    assert line in str(caught.value)
    assert "users[a].exec" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    user = plugin(tmp_path, "")
    user["exec"]["command"] = str(tmp_path / "nothing")
    with pytest.raises(KoordError, match=r"users\[a\]\.exec: .*a plugin that works"):
        load_cluster_config(written(tmp_path / "k", user=user))


def garbled(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"contexts": []}, "expected object with name a in"),
        ({"clusters": []}, "expected object with name a in"),
        ({"users": []}, "expected object with name a in"),
        ({"current-context": ""}, "expected object with name  in"),
        ({"clusters": [{"name": "a", "cluster": {}}]}, "server"),
        ({"cluster": {"server": "10.0.0.1"}}, "https://host:port"),
        ({"cluster": {"certificate-authority": "nothing"}}, "File does not exist"),
        ({"cluster": {"certificate-authority-data": "bm9uZQ=="}}, "no PEM text in base64"),
        ({"cluster": {"certificate-authority-data": "?"}}, "a well-formed kubeconfig"),
        ({"cluster": {"certificate-authority-data": 5}}, "a well-formed kubeconfig"),
        ({"contexts": 5}, "a well-formed kubeconfig"),
        ({"contexts": [5]}, "a well-formed kubeconfig"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, parts: dict[str, Any], line: str) -> None:
    with pytest.raises(KoordError) as caught:
        load_cluster_config(written(tmp_path / "k", **parts))
    assert line in str(caught.value)
    assert str(tmp_path / "k") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a", "{", "a: 'b", "\x00", "5"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    with pytest.raises(KoordError) as caught:
        load_cluster_config(garbled(tmp_path / "k", text))
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    for path in (tmp_path / "k", None):
        with pytest.raises(KoordError, match="no such file"):
            load_cluster_config(path)


def test_the_home_file_comes_last(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube" / "config")
    assert load_cluster_config().server == SERVER


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files and the environment of a pod."""
    authority = Authority(tmp_path)
    (tmp_path / "ca.crt").write_bytes(Path(authority.ca).read_bytes())
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("koordinator-system")
    monkeypatch.setattr(credentials, "_SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def test_a_service_account(account: Path) -> None:
    config = load_cluster_config()
    assert config.server == "https://[fd00::1]:443"
    assert config.authorization == "Bearer first"
    assert config.namespace == "koordinator-system"
    config.tls_context()
    (account / "token").write_text("second")
    assert config.renewed().authorization == "Bearer second"


def test_a_service_account_without_the_package(account: Path) -> None:
    """What runs on every node must not load it."""
    code = (
        "import sys; from koord.kube.transport import credentials as c; "
        f"c._SERVICE_ACCOUNT = {str(account)!r}; c.load_cluster_config(); "
        "assert not any(name.startswith('kubernetes') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(("name", "text"), [("token", ""), ("ca.crt", " "), ("ca.crt", None)])
def test_a_damaged_service_account(account: Path, name: str, text: str | None) -> None:
    if text is None:
        (account / name).unlink()
    else:
        (account / name).write_text(text)
    with pytest.raises(KoordError, match=r"pod: service account: got .* a usable service account"):
        load_cluster_config()


def test_an_explicit_server() -> None:
    config = ClusterConfig("http://127.0.0.1:8080/", token="secret")
    assert config.server == "http://127.0.0.1:8080"
    assert config.authorization == "Bearer secret"
    assert "secret" not in repr(config)
    assert not config.expired()
    assert config.renewed() is config
    with pytest.raises(KoordError, match="https://host:port"):
        ClusterConfig("localhost:8080")


@pytest.mark.parametrize(
    "options",
    [
        {"ca": "nothing"}, {"ca": "-----BEGIN x"}, {"client_certificate": "nothing"},
        {"client_certificate": "-----BEGIN x", "client_key": "-----BEGIN y"},
    ],
)  # fmt: skip
def test_what_tls_cannot_read_is_one_line(options: dict[str, str]) -> None:
    with pytest.raises(KoordError, match="readable PEM"):
        ClusterConfig("https://127.0.0.1:1", **options).tls_context()  # type: ignore[arg-type]


def test_the_proxy_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    path = written(tmp_path / "k")
    assert load_cluster_config(path).proxy_url == "http://proxy:3128"
    monkeypatch.setenv("no_proxy", "10.0.0.1")
    assert load_cluster_config(path).proxy_url == ""


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.config.kube_config", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'koord\[kube\]'"):
        load_cluster_config(written(tmp_path / "k"))
