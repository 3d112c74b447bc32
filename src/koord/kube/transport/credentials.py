# SPDX-License-Identifier: Apache-2.0
"""Cluster configuration: a pod's service account, or kubeconfig files by ``kubernetes``.

That package knows the formats and plugins: the merge of files, the choice of a context, auth
providers and their refresh, exec plugins. What it leaves out is here: plugins that fail say why in
one line, and every credential has a time at which it is read again.
"""

from __future__ import annotations

import base64
import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from koord.base.clock import SystemClock
from koord.base.errors import Code, KoordError, MissingExtraError, one_line
from koord.kube.transport.config import ClusterConfig

# Tokens in files are rotated long before they expire; client-go looks once a minute too.
_LOOK_AGAIN_SECONDS = 60.0
# Used up before the server says so.
_EXPIRY_MARGIN_SECONDS = 10.0
_HOME_FILE = "~/.kube/config"
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def load_cluster_config(
    path: str | Path | None = None, context: str | None = None
) -> ClusterConfig:
    """The cluster that the surroundings name.

    In order: the given file, the files of ``KUBECONFIG``, the service account of the pod,
    ``~/.kube/config``.

    Args:
        path: a kubeconfig file; None to look around.
        context: of the kubeconfig; None for its current one.

    Raises:
        KoordError: nothing there, or something wrong in it.
        MissingExtraError: the ``kubernetes`` package is not installed.
    """
    if path is not None:
        return _from_files(str(path), context)
    if files := os.environ.get("KUBECONFIG"):
        return _from_files(files, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and Path(_SERVICE_ACCOUNT, "token").exists():
        return _from_pod()
    return _from_files(_HOME_FILE, context)


def _package(name: str) -> Any:
    try:
        return import_module(f"kubernetes.{name}")
    except ModuleNotFoundError as error:
        raise MissingExtraError("kubernetes", "kube", error.name) from error


def _from_pod() -> ClusterConfig:
    """The service account's two files and the environment.

    Not by the package: it takes 35 MiB, and this is what runs on every node.
    """
    folder = Path(_SERVICE_ACCOUNT)
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    try:
        token = (folder / "token").read_text(encoding="ascii").strip()
        authority = (folder / "ca.crt").read_text(encoding="ascii")
        namespace = folder / "namespace"
        where = namespace.read_text().strip() if namespace.exists() else "default"
    except (OSError, ValueError) as error:
        expected = f"a usable service account ({_first_line(error)})"
        raise KoordError("pod", "service account", folder, expected) from None
    if not token or not authority.strip():
        expected = "a usable service account (its token or its ca.crt is empty)"
        raise KoordError("pod", "service account", folder, expected)
    return ClusterConfig(
        server=f"https://{host}:{port}",
        ca=str(folder / "ca.crt"),
        token=token,
        namespace=where,
        source="service account",
        expires_at_seconds=_now_seconds() + _LOOK_AGAIN_SECONDS,
        reload=_from_pod,
    )


def _from_files(files: str, context: str | None) -> ClusterConfig:
    source = f"kubeconfig {files}"
    if not any(Path(name).expanduser().is_file() for name in files.split(os.pathsep) if name):
        raise KoordError(source, "", "no such file", "a kubeconfig file", Code.NOT_FOUND)
    kube_config = _package("config.kube_config")
    try:
        return _loaded(kube_config, files, context, source)
    except _package("config").ConfigException as error:
        raise _misfit(source, context, error) from None
    except (KeyError, TypeError, AttributeError, ValueError, OSError, _yaml_error()) as error:
        # The package trusts that each part has the right shape.
        raise KoordError(
            source, "", _first_line(error), "a well-formed kubeconfig", Code.UNREADABLE
        ) from None


def _loaded(kube_config: Any, files: str, context: str | None, source: str) -> ClusterConfig:
    merger = kube_config.KubeConfigMerger(files)
    config = merger.config
    chosen = config["contexts"].get_with_name(context or config["current-context"])["context"]
    user = _user_of(config, chosen)
    expires_at = math.inf
    persister = merger.save_changes
    if user is not None and "exec" in user:
        # What a plugin gives must never be written to the file.
        persister = None
        expires_at = _run_plugin(kube_config, config, chosen, user, source)
    elif user is not None and ("tokenFile" in user or "auth-provider" in user):
        expires_at = _now_seconds() + _LOOK_AGAIN_SECONDS
    pem = {} if user is not None and "auth-provider" in user else _inline_pem(config, chosen, user)
    loader = kube_config.KubeConfigLoader(
        config_dict=config, active_context=context, config_base_path=None,
        config_persister=persister,
    )  # fmt: skip
    settings = _package("client").Configuration()
    loader.load_and_set(settings)
    return ClusterConfig(
        server=settings.host,
        ca=pem.get("certificate-authority") or settings.ssl_ca_cert or "",
        authorization=settings.get_api_key_with_prefix("BearerToken") or "",
        client_certificate=pem.get("client-certificate") or settings.cert_file or "",
        client_key=pem.get("client-key") or settings.key_file or "",
        verify=bool(settings.verify_ssl),
        tls_server_name=settings.tls_server_name or "",
        proxy_url=_proxy(settings),
        namespace=chosen.safe_get("namespace") or "default",
        source=source,
        expires_at_seconds=expires_at,
        reload=lambda: _from_files(files, context),
    )


def _user_of(config: Any, context: Any) -> Any:
    name = context.safe_get("user")
    # A context without a user is legal: nobody asks. One whose user is missing is a mistake.
    return config["users"].get_with_name(name)["user"] if name else None


def _inline_pem(config: Any, context: Any, user: Any) -> dict[str, str]:
    """Takes certificates and keys that stand in the configuration itself out of it, as PEM text.

    The package would keep each in a file of the temporary folder for as long as the program runs.
    Configurations with an auth provider are left whole: it writes back what it refreshes.

    Raises:
        ValueError: what stands there is something else.
    """
    found = {}
    cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
    for part, name in (
        (cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")
    ):  # fmt: skip
        data = part.value.pop(f"{name}-data", None) if part is not None else None
        if data is None:
            continue
        part.value.pop(name, None)  # data counts before a file
        found[name] = base64.b64decode(data).decode("ascii", "ignore")
        if data and "-----BEGIN" not in found[name]:
            raise ValueError(f"{name}-data is no PEM text in base64")
    return found


def _run_plugin(kube_config: Any, config: Any, context: Any, user: Any, source: str) -> float:
    """Runs an exec plugin and puts what it gives in its place.

    Returns:
        The wall time at which that expires.
    """
    cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
    folder = str(Path(user.path).resolve().parent) if user.path else None
    field = f"users[{context['user']}].exec"
    command = user["exec"].safe_get("command")
    try:
        status = kube_config.ExecProvider(user["exec"], folder, cluster).run()
    except (_package("config").ConfigException, OSError) as error:
        expected = f"a plugin that works ({_first_line(error)})"
        raise KoordError(source, field, command, expected) from None
    token, certificate = status.get("token"), status.get("clientCertificateData")
    key = status.get("clientKeyData")
    if not token and not (certificate and key):
        expected = "a plugin that gives a token, or a certificate and its key"
        raise KoordError(source, field, command, expected)
    del user.value["exec"]
    if token:
        user.value["token"] = token
    if certificate and key:
        user.value["client-certificate-data"] = base64.b64encode(certificate.encode()).decode()
        user.value["client-key-data"] = base64.b64encode(key.encode()).decode()
    expiry = status.get("expirationTimestamp")
    if not expiry:
        return math.inf
    expires_at: float = kube_config.parse_rfc3339(expiry).timestamp()
    return expires_at - _EXPIRY_MARGIN_SECONDS


def _proxy(settings: Any) -> str:
    """The kubeconfig's proxy, or the environment's unless it exempts the host."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    proxy = settings.proxy or ""
    host = urlsplit(settings.host)
    from_environment = proxy in getproxies().values()
    if from_environment and proxy_bypass(host.netloc):
        return ""
    return str(proxy)


def _misfit(source: str, context: str | None, error: Exception) -> KoordError:
    text = _first_line(error).removeprefix("Invalid kube-config file. ")
    what = text.removeprefix("Expected ")
    if what != text:
        asked = f"context {context}" if context else "the current context"
        return KoordError(source, asked, "something else", what)
    return KoordError(source, "", text, "a well-formed kubeconfig", Code.UNREADABLE)


def _first_line(error: Exception) -> str:
    return one_line(next(iter(str(error).splitlines()), type(error).__name__))


def _yaml_error() -> type[Exception]:
    import yaml

    return yaml.YAMLError


def _now_seconds() -> float:
    return SystemClock().wall_seconds()
