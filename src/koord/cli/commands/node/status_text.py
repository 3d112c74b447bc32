# SPDX-License-Identifier: Apache-2.0
"""How ``koord node status`` looks: the machine, its use, who decided what, what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from koord.base.documents import Document
from koord.cli.terminal.output import plain_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType
    from rich.table import Table

_GIB = 2**30
_BAR_CELLS = 30
_WRITES, _FILES = 12, 25
_LONGEST_DECISION = 100


def page(status: Document) -> Group:
    """The whole page, from the document that ``/status`` gives or a look at the bare machine."""
    machine = status["machine"]
    parts: list[RenderableType] = [_headline(status), Text(_machine_line(machine))]
    parts += _section("usage", _usage(status.get("usage", {}), machine))
    parts += _section("kernel", _features(machine["features"]))
    parts += _section("pods", _pods(status.get("pods", [])))
    if status.get("agent") is not False:
        parts += _section("what is known", _states(status["states"]))
        parts += _section("measured", _collectors(status["collectors"]))
        parts += _section("strategies", _strategies(status["strategies"]))
        parts += _section("container runtime", _runtime(status.get("runtime", {})))
        parts += _section("files", _files(status["files"]))
        parts += _section("troubles", _troubles(status))
        parts += _section("last written", _writes(status["writes"]))
    return Group(*parts)


def _section(name: str, body: RenderableType | None) -> list[RenderableType]:
    return [] if body is None else [Text(f"\n{name}", style="bold"), body]


def _headline(status: Document) -> Text:
    if status.get("agent") is False:
        return Text("no koordlet answers here; the machine itself", style="yellow")
    line = Text(f"koordlet of {status['node']}", style="bold")
    line.append("  ready" if status["ready"] else "  starting", "green" if status["ready"] else "")
    if status["states"].get("node", {}).get("gone"):
        line.append("  no Node of that name is in the cluster any more", "red")
    if status.get("dryRun"):
        line.append("  dry run: nothing is written", "yellow")
    line.append(f"  {status['time']}", "dim")
    return line


def _machine_line(machine: Document) -> str:
    # A koordlet of another release may not tell.
    found = machine.get("kubepodsFound", True)
    missing = "" if found else ", which is not there: no kubelet has started a pod"
    return (
        f"{machine['cpus']} CPUs, {_value_text(machine['cores'])} cores, "
        f"{_value_text(machine['sockets'])} sockets, "
        f"{_value_text(machine['numaNodes'])} NUMA nodes, "
        f"{machine['memoryBytes'] / _GIB:.1f} GiB; "
        f"cgroup {machine['cgroups']}, {machine['driver']} ({machine['kubepods']}{missing})"
    )


def _usage(usage: Document, machine: Document) -> Table | None:
    cpus, memory = machine["cpus"], machine["memoryBytes"]
    rows = [
        ("CPU", usage.get("nodeCpuCores"), cpus, "cores"),
        ("  of it system", usage.get("systemCpuCores"), cpus, "cores"),
        ("memory", _gib(usage.get("nodeMemoryBytes")), memory / _GIB, "GiB"),
        ("  of it system", _gib(usage.get("systemMemoryBytes")), memory / _GIB, "GiB"),
    ]
    best_effort = usage.get("bestEffortMilli", {})
    if best_effort:
        limit = best_effort.get("real-limit", 0.0) / 1000
        rows.append(("best effort", best_effort.get("usage", 0.0) / 1000, limit, "cores"))
    table = _table()
    for name, value, whole, unit in rows:
        if value is not None:
            share = value / whole if whole else 0.0
            table.add_row(name, _bar(share), f"{value:.2f} of {whole:.1f} {unit}")
    return table if table.row_count else None


def _bar(share: float) -> Text:
    filled = round(min(max(share, 0.0), 1.0) * _BAR_CELLS)
    colour = "red" if share > 0.9 else "yellow" if share > 0.65 else "green"
    bar = Text("█" * filled, style=colour)
    bar.append("░" * (_BAR_CELLS - filled), style="dim")
    bar.append(f" {100 * share:3.0f} %")
    return bar


def _features(features: Document) -> Table:
    table = _table()
    for name, found in features.items():
        mark = Text("yes", style="green") if found["there"] else Text("no", style="dim")
        table.add_row(name, mark, Text(found["why"], style="dim"))
    return table


def _pods(pods: list[Document]) -> Table | None:
    if not pods:
        return None
    table = _table("POD", "QOS", "CPU", "MEMORY", "CGROUP")
    for pod in sorted(pods, key=lambda each: -(each["cpuCores"] or 0.0)):
        cpu, memory = pod["cpuCores"], _gib(pod["memoryBytes"])
        table.add_row(
            pod["pod"],
            pod["qos"],
            "-" if cpu is None else f"{cpu:.3f}",
            "-" if memory is None else f"{memory:.3f} GiB",
            Text(pod["cgroup"], style="dim"),
        )
    return table


def _states(states: Document) -> Table:
    table = _table()
    for name, found in states.items():
        age = f"{found['ageSeconds']} s ago" if found["seen"] else "not seen"
        if found.get("gone"):
            age = "gone from the cluster; what it said last stays in force"
        plain = found["seen"] and not found.get("gone")
        table.add_row(name, Text(age, style="" if plain else "yellow"))
    return table


def _collectors(collectors: list[Document]) -> Table:
    table = _table("COLLECTOR", "EVERY", "LAST", "ERROR")
    for each in collectors:
        last = each["lastGoodSeconds"]
        table.add_row(
            each["name"],
            f"{each['intervalSeconds']:g} s",
            "-" if last is None else f"{last} s ago",
            Text(each["error"], style="red"),
        )
    return table


def _strategies(strategies: list[Document]) -> Table | None:
    if not strategies:
        return None
    table = _table("STRATEGY", "DECIDED")
    for each in strategies:
        decided = Text(_short(_pairs(each["decided"])))
        if each["error"]:
            decided = Text(each["error"], style="yellow")
        table.add_row(each["name"], decided)
    return table


def _runtime(runtime: Document) -> Group | None:
    if not runtime:
        return None
    line = Text(f"hooks come by {runtime['way']}")
    if runtime.get("connected"):
        line.append(f"  {runtime['runtime']}", "green")
        line.append("" if runtime["synchronized"] else "  not synchronized yet", "yellow")
    elif runtime["error"]:
        why = f"{runtime['socket']}: {runtime['error']}"
        served = runtime["way"] == "hook server"
        line.append(*((f"  no NRI: {why}", "dim") if served else (f"  {why}", "yellow")))
    parts: list[RenderableType] = [line, *_calls(runtime)]
    # A koordlet of an earlier release has none.
    if server := runtime.get("hookServer"):
        parts += [_hook_server(server), *_calls(server)]
    if runtime.get("missingOnHost"):
        count, last = runtime["missingOnHost"], runtime["lastMissingOnHost"]
        parts.append(Text(f"left out, for the host lacks it: {count}, last {last}", "yellow"))
    return Group(*parts)


def _hook_server(server: Document) -> Text:
    line = Text(f"hook server {server['socket']}")
    if not server["serving"]:
        line.append(f"  not served: {server['error']}", "yellow")
    elif server["stepsAside"]:
        line.append("  answers change nothing: NRI serves", "yellow")
    elif server["calls"]:
        line.append("  serves a proxy", "green")
    else:
        line.append("  no proxy has called yet", "yellow")
    return line


def _calls(way: Document) -> list[RenderableType]:
    """Calls of one way, and what failed of them."""
    table = _table("CALL", "COUNT", "FAILED", "LAST", "TOOK")
    failures: list[RenderableType] = []
    for each in way.get("calls", []):
        failed = Text(str(each["failures"]), style="red" if each["failures"] else "")
        took = f"{each['tookMilliseconds']:g} ms"
        table.add_row(each["method"], str(each["count"]), failed, each["at"], took)
        if each["error"]:
            failures.append(Text(f"{each['method']} failed last: {each['error']}", style="red"))
    if way.get("unknownPods"):
        count, last = way["unknownPods"], way["lastUnknownPod"]
        failures.append(Text(f"pods not known in time: {count}, last {last}", style="yellow"))
    return [*([table] if table.row_count else []), *failures]


def _files(files: list[Document]) -> Table | None:
    if not files:
        return None
    table = _table("WHOSE", "FILE", "VALUE", "WANTED BY")
    for each in files[:_FILES]:
        wanted = _short("; ".join(each["claims"]))
        table.add_row(each["subject"], each["resource"], _short(each["value"]), wanted)
    if len(files) > _FILES:
        table.add_row(Text(f"and {len(files) - _FILES} more", style="dim"))
    return table


def _troubles(status: Document) -> Table | None:
    table = _table()
    for each in status["failures"]:
        name = f"{each['subject']}  {each['resource']}"
        table.add_row(Text(name, style="red"), each["error"])
    lacking = status["unsupported"]
    if lacking:
        table.add_row(Text("wanted, not in this kernel", style="yellow"), ", ".join(lacking))
    for each in status.get("parts", []):
        # What the others fail of stands in tables of their own, or comes with a scope.
        if each["error"] and not each["name"].startswith(("collector ", "hook ", "strategy ")):
            name = f"{each['name']} (failed {each['failures']} times)"
            table.add_row(Text(name, style="red"), each["error"])
    for each in status["hookProblems"]:
        table.add_row(Text(f"{each['hook']} ({each['scope']})", style="red"), each["error"])
    for each in status.get("ignoredAnnotations", []):
        # The error names the annotation.
        table.add_row(Text(f"pod {each['pod']}: annotation", style="yellow"), each["error"])
    return table if table.row_count else None


def _writes(writes: list[Document]) -> Table | None:
    if not writes:
        return None
    table = _table("WHEN", "WHAT", "WHOSE", "FILE", "VALUE", "WHY")
    for each in writes[:_WRITES]:
        table.add_row(
            each["at_seconds"], each["what"], each["subject"], each["resource"],
            _short(each["value"]),
            Text(_short(each["why"]), style="dim"),
        )  # fmt: skip
    return table


def _table(*columns: str) -> Table:
    return plain_table(*columns, header_style="dim")


def _pairs(decided: Document) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in decided.items())


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return f"({_pairs(value)})"
    return str(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_DECISION else f"{text[: _LONGEST_DECISION - 3]}..."


def _gib(value: float | None) -> float | None:
    return None if value is None else value / _GIB


def _value_text(value: Iterable[object] | object) -> object:
    return "?" if value is None else value
