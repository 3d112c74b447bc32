# SPDX-License-Identifier: Apache-2.0
"""The report of a simulation: one HTML file that needs nothing beside it."""

from __future__ import annotations

import json
import math
from html import escape
from typing import TYPE_CHECKING

from koord.simulator import html_page
from koord.simulator.colocation.report import charts, findings, summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from koord.simulator.colocation.results.result import ComparisonResult, DayResult

TITLE = "a day with and without co-location"


def write_report(outcome: ComparisonResult, directory: Path, command: str) -> Path:
    """Writes ``DIRECTORY/report.html`` and returns its path.

    Args:
        outcome: both runs.
        directory: made if missing.
        command: what reproduces the page, shown at its top.

    Raises:
        OSError: the directory or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    return html_page.write(directory, TITLE, _parts(outcome, command))


def _parts(outcome: ComparisonResult, command: str) -> Iterator[str]:
    scenario, with_ = outcome.scenario, outcome.with_
    machines = sum(pool.count for pool in scenario.nodes)
    cores = float(sum(pool.count * pool.cpu for pool in scenario.nodes))
    sides = list(zip(charts.SIDES, (outcome.without, with_), strict=True))
    both = {side: run.series for side, run in sides}
    shares = {side: run.machines.cpu_share for side, run in sides}
    yield from _introduction(outcome, machines, cores, command)
    yield "<h2>In short</h2>"
    yield html_page.table(summary.HEADS, summary.rows(outcome))
    yield html_page.figure(
        "How busy the cluster is",
        findings.utilisation(both, cores),
        "CPU in use by class; the dashed line is the mean over the time shown.",
        charts.utilisation(both, cores),
    )
    yield html_page.figure(
        "Do services notice?",
        findings.shortage(outcome),
        f"A latency-sensitive pod is short of CPU in a minute in which it was granted less than "
        f"{100 * scenario.report.short.granted_below:g} % of the smaller of its demand and its "
        "limit. Left: how many at a time. Middle: how much they got. Right: how long it lasted.",
        charts.shortage(outcome),
    )
    yield _services(outcome)
    yield _worst(with_)
    yield html_page.figure(
        "What batch is offered, asks for and uses",
        findings.offers(with_.series),
        "With co-location. The offer follows the idle capacity that agents report; running tasks "
        "keep what they asked for when it shrinks, and are held down instead.",
        charts.offers(with_.series),
    )
    yield html_page.figure(
        "Who runs and who waits",
        findings.waiting(outcome),
        "Batch tasks on both sides.",
        charts.waiting(outcome),
    )
    yield _batch(outcome)
    yield html_page.figure(
        "What agents do to protect services",
        findings.protection(with_.series, machines),
        "With co-location. Suppressed: batch pods got less CPU than they wanted. Evicted tasks "
        "begin again elsewhere; their work is lost.",
        charts.protection(with_.series),
    )
    yield html_page.figure(
        "Machine by machine",
        findings.machines(shares),
        "The same sample of machines on both sides.",
        charts.machines(
            shares,
            with_.series.hours,
            [f"machine {row}" for row in with_.machines.machines.tolist()],
        ),
    )
    yield from _settings(outcome)


def _introduction(
    outcome: ComparisonResult, machines: int, cores: float, command: str
) -> Iterator[str]:
    scenario = outcome.scenario
    yield "<h1>A day with and without co-location</h1>"
    yield (
        f"<p>Scenario <b>{escape(scenario.metadata.name)}</b>: {machines:,} machines with "
        f"{cores:,.0f} CPUs, {scenario.hours:g} hours in steps of {escape(scenario.step)}, seed "
        f"{outcome.seed}. Both runs have the same services and the same arrivals of batch jobs. "
        "Without co-location batch tasks ask for what the requests of services leave free; with "
        "it, for what the manager finds idle.</p>"
    )
    if outcome.partial:
        yield (
            f"<p><b>Partial result:</b> interrupted after {scenario.hours:.3g} of "
            f"{outcome.requested_hours:g} hours.</p>"
        )
    yield f"<p><code>{escape(command)}</code></p>"


def _settings(outcome: ComparisonResult) -> Iterator[str]:
    with_ = outcome.with_
    yield "<h2>Settings in force</h2>"
    yield "<p>Sections of slo-controller-config, defaults included.</p>"
    yield f"<pre>{escape(json.dumps(outcome.settings, indent=2, default=str))}</pre>"
    yield (
        f"<p>{with_.decisions:,} attempts of the scheduler, {with_.node_updates:,} changes of a "
        f"machine's offer; {outcome.seconds:.0f} s for both runs.</p>"
    )


def _services(outcome: ComparisonResult) -> str:
    heads = ("service", "QoS", "pods", "pod-minutes", "short without", "short with",
             "least granted without", "least granted with", "restarts")  # fmt: skip
    pairs = zip(outcome.without.shortage.services, outcome.with_.shortage.services, strict=True)
    rows = [
        (
            after.name, after.qos, f"{after.pods:,}", f"{after.pod_minutes:,}",
            f"{before.short_pod_minutes:,}", f"{after.short_pod_minutes:,}",
            _granted(before.worst_grant), _granted(after.worst_grant),
            f"{after.restarts:,}",
        )
        for before, after in pairs
    ]  # fmt: skip
    return html_page.table(heads, rows)


def _worst(run: DayResult) -> str:
    if not run.shortage.worst:
        return "<p>No latency-sensitive pod was short of CPU with co-location.</p>"
    rows = [
        (f"{pod.service}-{pod.number}", f"machine {pod.machine}", f"{pod.short_minutes}",
         _granted(pod.worst_grant))
        for pod in run.shortage.worst[:10]
    ]  # fmt: skip
    heads = ("pods that were short most, with co-location", "on", "minutes", "least granted")
    return html_page.table(heads, rows, words=2)


def _batch(outcome: ComparisonResult) -> str:
    heads: tuple[str, ...] = ("job", "side", "tasks", "started", "finished", "evicted",
             "wait, mean", "wait, p90", "stretched by", "core-hours")  # fmt: skip
    runs = (outcome.without, outcome.with_)
    with_gpus = any(pool.gpus is not None for pool in outcome.scenario.nodes)
    rows = []
    for side, run in zip(charts.SIDES, runs, strict=True):
        rows += [
            (
                kind.name, side, f"{kind.tasks:,}", f"{kind.started:,}", f"{kind.finished:,}",
                f"{kind.evicted:,}", _minutes(kind.wait_seconds_mean),
                _minutes(kind.wait_seconds_p90), f"{kind.stretch_mean:.2f}x",
                f"{kind.core_hours:,.0f}", *([f"{kind.gpu_hours:,.0f}"] if with_gpus else []),
            )
            for kind in run.batch
        ]  # fmt: skip
    heads += ("GPU-hours",) if with_gpus else ()
    return html_page.table(heads, sorted(rows, key=lambda row: row[0]))


def _granted(share: float) -> str:
    """Rounded down, for a pod that got less than 95 % did not get 95 %."""
    return f"{math.floor(100 * share + 1e-6)} %"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
