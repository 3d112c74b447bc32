# SPDX-License-Identifier: Apache-2.0
"""How dashboards are described: rows of panels, each with its queries."""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW = "$__rate_interval"
"""What Grafana puts in the place of a rate's window."""


@dataclass(frozen=True)
class Query:
    """What a panel asks Prometheus.

    Attributes:
        expression: in PromQL, with :data:`WINDOW` and the dashboard's variables as ``$NAME``.
        legend: names each series; ``{{label}}`` stands for a label's value.
        empty: why it may give nothing where simulated machines are scraped; empty: it may not.
    """

    expression: str
    legend: str
    empty: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        title: what it shows.
        unit: in Grafana's words: ``percentunit``, ``cores``, ``bytes``, ``s``, ``ops``, ``short``.
        queries: in order.
        text: what to make of it, a sentence or two.
        stacked: whether series are laid onto each other.
    """

    title: str
    unit: str
    queries: tuple[Query, ...]
    text: str
    stacked: bool = False


@dataclass(frozen=True)
class Row:
    """Panels beside each other under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A page of panels.

    Attributes:
        name: of its file, and its identity in Grafana.
        title: for people.
        text: who looks at it, and when.
        rows: from top to bottom.
        variables: names of labels that can be chosen, each with the series that has the values.
    """

    name: str
    title: str
    text: str
    rows: tuple[Row, ...]
    variables: dict[str, str] = field(default_factory=dict)

    def panels(self) -> list[Panel]:
        """All panels in order."""
        return [panel for row in self.rows for panel in row.panels]


def panel(
    title: str, unit: str, *queries: tuple[str, str] | Query, text: str, stacked: bool = False
) -> Panel:
    """A panel; a pair is a query's expression and legend."""
    made = tuple(each if isinstance(each, Query) else Query(*each) for each in queries)
    return Panel(title, unit, made, text, stacked)


def quantile(share: float, histogram: str, by: str = "", where: str = "") -> str:
    """The value below which a share of a histogram's samples lies."""
    labels = f"le, {by}" if by else "le"
    rates = f"rate({histogram}_bucket{where}[{WINDOW}])"
    return f"histogram_quantile({share:g}, sum by ({labels}) ({rates}))"


def rate(counter: str, by: str = "", where: str = "") -> str:
    """A counter's growth a second."""
    added = f"sum by ({by})" if by else "sum"
    return f"{added} (rate({counter}{where}[{WINDOW}]))"
