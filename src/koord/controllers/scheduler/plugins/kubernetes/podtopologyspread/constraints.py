# SPDX-License-Identifier: Apache-2.0
"""A pod's spread constraints with all defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.api.codec import to_json
from koord.api.kinds.constraints import TopologySpreadConstraint
from koord.api.kinds.meta import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)
"""For pods without constraints that something selects (Kubernetes: defaultingType System)."""


class SpreadConstraint(NamedTuple):
    """One constraint.

    Attributes:
        key: the node label whose values are the domains.
        max_skew: by how many pods a domain may be ahead of the emptiest.
        min_domains: with fewer domains the emptiest counts as having none.
        selector: which pods count; None matches none.
        honors_affinity: nodes that the pod's own node affinity rules out are no domains.
        honors_taints: nor are those with taints that it does not tolerate.
        selector_key: equal for equal selectors.
    """

    key: str
    max_skew: int
    min_domains: int
    selector: LabelSelector | None
    honors_affinity: bool
    honors_taints: bool
    selector_key: bytes

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels counts."""
        return selectors.matches(self.selector, labels)


def read(
    constraints: Sequence[TopologySpreadConstraint],
    action: str,
    labels: Mapping[str, str],
    where: str,
    selector: LabelSelector | None = None,
) -> tuple[SpreadConstraint, ...]:
    """Constraints of one action.

    Args:
        constraints: as they are written.
        action: :data:`HARD` or :data:`SOFT`.
        labels: the pod's, for matchLabelKeys.
        where: what errors name.
        selector: of default constraints, which have none of their own.

    Raises:
        KoordError: a selector that cannot be evaluated.
    """
    return tuple(
        _read(constraint, labels, f"{where}: topologySpreadConstraints[{index}]", selector)
        for index, constraint in enumerate(constraints)
        if constraint.when_unsatisfiable == action
    )


def _read(
    constraint: TopologySpreadConstraint,
    labels: Mapping[str, str],
    where: str,
    selector: LabelSelector | None,
) -> SpreadConstraint:
    own = constraint.label_selector
    if own is not None:
        selectors.check(own, where, "labelSelector")
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if same:
        # Keys of both must agree with both: a key in both stays an expression.
        own = own or LabelSelector()
        merged = {**own.match_labels, **same}
        clash = any(own.match_labels.get(key, value) != value for key, value in same.items())
        own = None if clash else LabelSelector(merged, own.match_expressions)
    if selector is not None:
        own = selector
    return SpreadConstraint(
        constraint.topology_key,
        constraint.max_skew,
        constraint.min_domains if constraint.min_domains is not None else 1,
        own,
        constraint.node_affinity_policy in ("", "Honor"),
        constraint.node_taints_policy == "Honor",
        to_json(own),
    )
