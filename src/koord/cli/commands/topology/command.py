# SPDX-License-Identifier: Apache-2.0
"""``koord topology``: see a machine's CPUs, and which of them the picker would give a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from koord.base.errors import Code, KoordError, nearest
from koord.cli.help.typer_help import TyperApp
from koord.cli.terminal import output as shown
from koord.cli.terminal.output import Format, OutputOption, print_json

if TYPE_CHECKING:
    from koord.kernels.cpuset import CPUSet
    from koord.kernels.topology import CPUState, Pick, Topology

app = TyperApp()

RootOption = Annotated[
    str, typer.Option("--root", metavar="DIR", help="a directory that contains sys/")
]

_BIND_POLICIES = ["Default", "FullPCPUs", "SpreadByPCPUs"]
_EXCLUSIVE_POLICIES = ["None", "PCPULevel", "NUMANodeLevel"]
_OPTIONS = [
    "--root", "--bind-policy", "--exclusive-policy", "--numa-strategy", "--taken", "--output"
]  # fmt: skip
_STRATEGIES = ["MostAllocated", "LeastAllocated", "DistributeEvenly"]

_BindPolicy = Annotated[
    str, typer.Option(metavar="|".join(_BIND_POLICIES), help="Default is as SpreadByPCPUs")
]
_ExclusivePolicy = Annotated[
    str,
    typer.Option(metavar="|".join(_EXCLUSIVE_POLICIES), help="what the pod shares with no other"),
]
_Strategy = Annotated[
    str,
    typer.Option(
        metavar="|".join(_STRATEGIES),
        help="which NUMA node first; DistributeEvenly is as LeastAllocated",
    ),
]
_Taken = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CPULIST[:POLICY]",
        help="CPUs of a pod that runs already, with its exclusive policy; each CPU belongs to "
        "one pod",
    ),
]


class NotEnoughCPUsError(KoordError):
    """The machine cannot give so many; nothing is wrong with the words."""

    exit_status = 1


@app.command()
def show(root: RootOption = "/", output: OutputOption = Format.TEXT) -> None:
    """Show the CPUs of this machine, or of a dump of one.

    They stand in their sockets, NUMA nodes, L3 domains and cores.
    Each [..] is a core with the CPUs that are its threads.

    Example: koord topology show --root dumps/epyc
    """
    topology = _read(root)
    if output is Format.JSON:
        cpus = [cpu._asdict() for cpu in topology.cpus]
        print_json({"summary": topology.summary()._asdict(), "cpus": cpus})
        return
    from koord.cli.commands.topology.drawing import draw

    for line in draw(topology):
        shown.show(line)


# A count such as -1 must reach us rather than be taken for an option.
@app.command(context_settings={"ignore_unknown_options": True})
def pick(
    count: Annotated[str, typer.Argument(metavar="N", help="how many CPUs")],
    root: RootOption = "/",
    bind_policy: _BindPolicy = "FullPCPUs",
    exclusive_policy: _ExclusivePolicy = "None",
    numa_strategy: _Strategy = "LeastAllocated",
    taken: _Taken = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Pick N CPUs for a pod and say which pass of the rules chose them.

    Exit status:
      0  picked
      1  the machine cannot give so many
      2  wrong usage, or a machine that cannot be read

    Example: koord topology pick 4 --bind-policy FullPCPUs --taken 0-3 --taken 8-9:PCPULevel

    \b
    Passes, in the order in which they are tried:
      full-cores-in-node
      full-cores-in-node-ignoring-exclusivity
      full-cores-in-socket
      full-cores-across-sockets
      one-per-core-in-node
      cpus-in-node
      one-per-core-in-socket
      cpus-in-socket
      fallback
      fallback-ignoring-exclusivity
    Where several give CPUs, their names are joined:
      full-cores-across-sockets+fallback
      full-cores-across-sockets+fallback-ignoring-exclusivity
      full-cores-across-sockets+fallback+fallback-ignoring-exclusivity
      fallback+fallback-ignoring-exclusivity
    """
    wanted = _positive("N", count)
    _known("--bind-policy", bind_policy, _BIND_POLICIES)
    _known("--exclusive-policy", exclusive_policy, _EXCLUSIVE_POLICIES)
    _known("--numa-strategy", numa_strategy, _STRATEGIES)
    state = _state(_read(root), taken or [])
    picked = state.pick(
        wanted, bind=bind_policy, exclusive=exclusive_policy, strategy=numa_strategy
    )
    if not picked:
        free = len(state.available())
        raise NotEnoughCPUsError(
            "N", "", wanted, f"at most {free}: {picked.reason}", Code.NOT_FOUND
        )
    _print_pick(picked, output)


def _print_pick(picked: Pick, output: Format) -> None:
    from koord.kernels.topology import PASSES

    if output is Format.JSON:
        print_json({"cpus": picked.cpu_list, "pass": picked.pass_name})
        return
    print(picked.cpu_list)
    print("\n".join(f"{name}: {PASSES[name]}" for name in picked.passes))


def _read(root: str) -> Topology:
    from koord.kernels.topology import Topology

    try:
        return Topology.from_sysfs(root)
    except (ValueError, OSError) as error:
        if getattr(error, "koord_field", "") == "root":
            raise KoordError("--root", "", root, "a directory that contains sys/") from error
        raise KoordError.wrap("--root", "", error) from error


def _state(topology: Topology, taken: list[str]) -> CPUState:
    from koord.kernels.topology import CPUState

    state = CPUState(topology)
    for number, text in enumerate(taken):
        cpu_list, colon, policy = text.partition(":")
        cpus = _cpus(cpu_list, topology.online)
        if colon:
            _known("--taken", policy, _EXCLUSIVE_POLICIES)
        # The picker gives a CPU to one pod, so a second owner is a slip of the pen.
        if twice := cpus & state.allocated():
            raise KoordError("--taken", "", text, f"CPUs that no other --taken names, not {twice}")
        state.add(f"taken-{number}", cpus, policy or "None")
    return state


def _cpus(text: str, online: CPUSet) -> CPUSet:
    from koord.kernels.cpuset import CPUSet

    try:
        cpus = CPUSet.parse(text)
    except ValueError as error:
        raise KoordError.wrap("--taken", "", error) from error
    if cpus - online:
        raise KoordError("--taken", "", text, f"CPUs that are online: {online}")
    return cpus


def _known(option: str, word: str, known: list[str]) -> None:
    if word in known:
        return
    meant = nearest(word, known)
    hint = f"; did you mean {meant}?" if meant else ""
    raise KoordError(option, "", word, f"{', '.join(known[:-1])} or {known[-1]}{hint}")


def _positive(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31:
        return int(text)
    if text.startswith("--"):
        _known("option", text, _OPTIONS)
    raise KoordError(name, "", text, "a positive integer")
