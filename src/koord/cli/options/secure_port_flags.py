# SPDX-License-Identifier: Apache-2.0
"""The flags of a secure port for typer, with the texts of the options that they are."""

from __future__ import annotations

from typing import Annotated, get_args, get_type_hints

import typer

from koord.base import log
from koord.cli.help.typer_help import DURATION
from koord.cli.options.values import seconds, whole_number
from koord.kube.daemon.secure_port_options import BESIDE_SECURE_PORT, SecurePortOptions

_TEXTS = {
    name: get_args(hint)[1]
    for name, hint in get_type_hints(SecurePortOptions, include_extras=True).items()
}


def _text(name: str, metavar: str) -> typer.models.OptionInfo:
    flag = _flag(name)
    made: typer.models.OptionInfo = typer.Option(flag, metavar=metavar, help=_TEXTS[name])
    return made


def _duration(name: str) -> typer.models.OptionInfo:
    flag = _flag(name)
    made: typer.models.OptionInfo = typer.Option(
        flag, metavar=DURATION, parser=seconds(flag), help=_TEXTS[name]
    )
    return made


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


SecurePortNumber = Annotated[
    int,
    typer.Option(
        "--secure-port",
        metavar="P",
        parser=whole_number("--secure-port", 0, 65_535),
        help=_TEXTS["secure_port"],
    ),
]
TLSCertificate = Annotated[str, _text("tls_cert_file", "FILE")]
TLSKey = Annotated[str, _text("tls_private_key_file", "FILE")]
ClientCA = Annotated[str, _text("client_ca_file", "FILE")]
AuthenticationKubeconfig = Annotated[str, _text("authentication_kubeconfig", "FILE")]
AuthorizationKubeconfig = Annotated[str, _text("authorization_kubeconfig", "FILE")]
OpenPaths = Annotated[str, _text("authorization_always_allow_paths", "PATH,...")]
TokenCache = Annotated[float, _duration("authentication_token_webhook_cache_ttl")]
AccessCacheYes = Annotated[float, _duration("authorization_webhook_cache_authorized_ttl")]
AccessCacheNo = Annotated[float, _duration("authorization_webhook_cache_unauthorized_ttl")]


def effective_secure_port(options: SecurePortOptions) -> SecurePortOptions:
    """The options without what has no effect, which a warning tells of.

    A manifest of kube-scheduler's may name a secure port and no certificate, since that makes one
    of its own; here it is not served.

    Raises:
        KoordError: a flag, its value and what would be right.
    """
    default = SecurePortOptions()
    if options.secure_port and not (options.tls_cert_file or options.tls_private_key_file):
        _warn("--secure-port", "--tls-cert-file")
        return default
    given = [each for each in BESIDE_SECURE_PORT if vars(options)[each] != vars(default)[each]]
    if given and not options.secure_port:
        _warn(" ".join(map(_flag, given)), "--secure-port")
        return default
    options.check_secure_port()
    return options


def _warn(flags: str, missing: str) -> None:
    said = log.fields(flags=flags, without=missing)
    log.get("scheduler").warning("flags without effect", extra=said)
