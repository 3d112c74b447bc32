# SPDX-License-Identifier: Apache-2.0
"""Puts the verbs together and turns errors into one line and an exit status.

Exit status: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from koord.cli.commands.bundle.command import support_bundle
from koord.cli.commands.check.command import check
from koord.cli.commands.migrate.command import migrate
from koord.cli.commands.up.background import down, status
from koord.cli.commands.up.command import up
from koord.cli.completion.command import completion
from koord.cli.help.typer_help import TyperApp, VersionOption
from koord.cli.process.typer_program import run_app

# Modules below koord.cli.commands; each holds one `app`.
_MODULES = {
    "topology": "topology.command",
    "quota": "quota",
    "resctrl": "resctrl.command",
    "simulate": "simulate.command",
    "explain": "explain.command",
    "crds": "crds",
    "node": "node.command",
    "admission": "admission.command",
    "deschedule": "deschedule.command",
}
_GROUPS = {
    "topology": "See a machine's CPUs and try the CPU picker.",
    "quota": "Work out elastic quotas from manifests.",
    "resctrl": "Plan cache and memory-bandwidth groups.",
    "simulate": "Replay traces and run days of a cluster, without one.",
    "explain": "Say why something is as it is, and what would change that.",
    "crds": "Install koord's CustomResourceDefinitions into a cluster, or check them.",
    "node": "See what the agent of this machine does, and put the machine back.",
    "admission": "See what admission would do, before it does it.",
    "deschedule": "See what the descheduler would do, before it does it.",
}
_EXAMPLES = {
    "topology": "koord topology show",
    "quota": "koord quota runtime quotas.yaml --total cpu=500,memory=500Gi",
    "resctrl": "koord resctrl plan --vendor intel --cbm-mask 3ff --l3-ids 0-1 --config cm.yaml",
    "simulate": "koord simulate colocation --nodes 100 --hours 6 --report out",
    "explain": "koord explain pod web-0 -n shop",
    "crds": "koord crds install --dry-run && koord crds install",
    "node": "koord node status --watch",
    "admission": "koord admission review -f job.yaml --profiles profiles.yaml",
    "deschedule": "koord deschedule plan --snapshot cluster.yaml",
}
_VERBS: dict[str, Callable[..., None]] = {
    "check": check,
    "migrate": migrate,
    "up": up,
    "status": status,
    "down": down,
    "support-bundle": support_bundle,
    "completion": completion,
}
_TEXT = """\
QoS-aware co-location for Kubernetes: see, plan, replay and explain.

Exit status:
  0    done
  1    failed
  2    wrong usage or input
  130  interrupted
  143  ended by SIGTERM

Example: koord up --nodes 100
"""


def build() -> TyperApp:
    """The program."""
    app = TyperApp(name="koord", help=_TEXT, no_args_is_help=True)
    for name, text in _GROUPS.items():
        module = import_module(f"koord.cli.commands.{_MODULES[name]}")
        whole = f"{text}\n\nExample: {_EXAMPLES[name]}"
        app.add_typer(module.app, name=name, help=whole, no_args_is_help=True)
    for name, verb in _VERBS.items():
        app.command(name)(verb)

    @app.callback()
    def root(show_version: VersionOption = False) -> None:
        pass

    return app


def main() -> None:
    """The console script ``koord``."""
    run_app(build(), "koord")
