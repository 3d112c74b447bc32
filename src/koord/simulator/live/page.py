# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one HTML file that needs nothing beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from koord.simulator import html_page
from koord.simulator.colocation.report import charts, findings
from koord.simulator.live import notable_events, run_record, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from koord.simulator.live.run_record import RunRecord

TITLE = "a cluster with co-location"
SIDES = ("services alone", "with batch")
_MOST_ROWS = 200
_OTHER_DAY = (
    "The default day of koord simulate colocation evicts nobody: its agents are not allowed to, as "
    "by koordlet's defaults, and its services vary by 10 to 20 %, these by up to 40 %. With the "
    "services, jobs and settings of this page its outcome is the same."
)


def write_report(kept: RunRecord, figures: dict[str, Any], directory: Path, command: str) -> Path:
    """Writes ``DIRECTORY/report.html`` and returns its path.

    Args:
        kept: the run; at least one sample.
        figures: :func:`koord.simulator.live.summary.document` of it.
        directory: made if missing.
        command: what was run, shown at the page's top.

    Raises:
        OSError: the directory or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    return html_page.write(directory, TITLE, _parts(kept, figures, command))


def _parts(kept: RunRecord, figures: dict[str, Any], command: str) -> Iterator[str]:
    series, machines = kept.series(), kept.machines()
    start, end = (_time(kept.samples[at].seconds) for at in (0, -1))
    both = dict(zip(SIDES, (run_record.alone(series), series), strict=True))
    used = (machines.cpu_share - machines.batch_share, machines.cpu_share)
    shares = dict(zip(SIDES, used, strict=True))
    yield "<h1>A cluster with co-location</h1>"
    yield (
        f"<p>{len(kept.names):,} simulated machines with {kept.capacity_cores:,.0f} CPUs from "
        f"{start} to {end} UTC, run by koord-scheduler, koord-manager and the node agents' own "
        f"strategies against an API server; {figures['speed']:.0f} simulated seconds a second. A "
        "value a minute.</p>"
    )
    yield f"<p><code>{escape(command)}</code></p>"
    yield "<h2>In short</h2>"
    yield html_page.table(("", ""), summary.rows(figures))
    yield html_page.figure(
        "How busy the cluster is",
        findings.utilisation(both, kept.capacity_cores),
        "CPU in use by class; the dashed line is the mean. On the left the same without its batch "
        "pods: a machine gives services what they want first.",
        charts.utilisation(both, kept.capacity_cores),
    )
    yield html_page.figure(
        "What batch is offered, asks for and uses",
        findings.offers(series),
        "The offer follows what agents report; running tasks keep what they asked for when it "
        "shrinks, and are held down instead.",
        charts.offers(series),
    )
    yield html_page.figure(
        "What agents do to protect services",
        findings.protection(series, len(kept.names)),
        f"Suppressed: batch pods of a machine get less than {100 * notable_events.HELD_BELOW:.0f} "
        "% of the CPU they want. An evicted task begins again, perhaps elsewhere.",
        charts.protection(series),
    )
    yield html_page.figure(
        "Machine by machine",
        findings.machines(shares),
        "CPU in use.",
        charts.machines(
            shares, series.hours, [kept.names[row] for row in machines.machines.tolist()]
        ),
    )
    yield from _evictions(kept)
    yield "<h2>What happened</h2>"
    told = [each for each in kept.happenings if each.what != "evicted"]
    yield _last(("when", "what"), [(_time(each.seconds), each.text) for each in told])
    yield "<h2>Settings</h2>"
    yield "<p>Sections of slo-controller-config; what they do not name is at its default.</p>"
    yield f"<pre>{escape(json.dumps(figures['settings'], indent=2))}</pre>"


def _evictions(kept: RunRecord) -> Iterator[str]:
    yield "<h2>Who was evicted, and why</h2>"
    rows = [
        (
            _time(each.seconds), each.pod, kept.names[each.row],
            notable_events.why(each.feature), each.feature,
        )
        for each in kept.evictions
    ]  # fmt: skip
    yield (
        _last(("when", "pod", "machine", "because", "feature"), rows) if rows else "<p>Nobody.</p>"
    )
    yield f"<p>{escape(_OTHER_DAY)}</p>"


def _last(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    left_out = len(rows) - _MOST_ROWS
    said = f"<p>The last {_MOST_ROWS} of {len(rows):,}.</p>" if left_out > 0 else ""
    return said + html_page.table(heads, rows[-_MOST_ROWS:], len(heads))


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
