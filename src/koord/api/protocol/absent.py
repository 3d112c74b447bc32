# SPDX-License-Identifier: Apache-2.0
"""Labels and annotations that count as absent because nobody can read them.

Readers take what they cannot read for the default, as Koordinator does. Whoever wrote it should
know: here is told what it would have to say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.api.kinds.meta import ResourceList
from koord.api.protocol import annotation, gang, keys
from koord.api.protocol.priority import preemption_policy, raw_class, sub_priority
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.reservations import operating_mode
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import ElasticQuota, PodGroup

POD_LABELS = frozenset((
    keys.QOS_CLASS, keys.PRIORITY_CLASS, keys.PRIORITY, keys.PREEMPTION_POLICY,
    keys.OPERATING_MODE, keys.DISABLE_PREEMPTIBLE, keys.QUOTA_PREEMPTIBLE,
))  # fmt: skip
"""Labels of pods that :func:`pod_labels` looks at."""

_QUOTA_SWITCHES = (keys.QUOTA_IS_PARENT, keys.QUOTA_IS_ROOT, keys.QUOTA_IGNORE_DEFAULT_TREE,
                   keys.QUOTA_ALLOW_LENT_RESOURCE, keys.QUOTA_ALLOW_FORCE_UPDATE)  # fmt: skip
_CLASSES = frozenset(QoSClass)
# What a namespace may be called, and what a PodGroup, or a label's value.
_GANG_ID = re.compile(
    r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?"
)


def pod_labels(pod: Pod) -> Iterator[KoordError]:
    """What is wrong with the labels of a pod that scheduling reads."""
    labels = pod.metadata.labels
    qos = labels.get(keys.QOS_CLASS, "")
    if qos not in _CLASSES:
        yield _label(pod, keys.QOS_CLASS, "LSE, LSR, LS, BE or SYSTEM")
    if labels.get(keys.PRIORITY_CLASS) and not raw_class(labels, None):
        yield _label(pod, keys.PRIORITY_CLASS, "koord-prod, koord-mid, koord-batch or koord-free")
    try:
        sub_priority(pod)
    except KoordError as error:
        yield error
    if labels.get(keys.PREEMPTION_POLICY) and not preemption_policy(pod):
        yield _label(pod, keys.PREEMPTION_POLICY, "Never or PreemptLowerPriority")
    mode = labels.get(keys.OPERATING_MODE, "")
    if mode and operating_mode(pod) != mode:
        yield _label(pod, keys.OPERATING_MODE, "Runnable or Reservation")
    yield from _switches(pod, (keys.DISABLE_PREEMPTIBLE, keys.QUOTA_PREEMPTIBLE))


def gang_annotations(item: Object) -> Iterator[KoordError]:
    """What is wrong with the annotations of a gang, on a pod or a PodGroup."""
    said = item.metadata.annotations
    for key, kept, expected in (
        (keys.GANG_MODE, gang.mode(item), "Strict or NonStrict"),
        (keys.GANG_MATCH_POLICY, gang.match_policy(item, ""),
         "only-waiting, waiting-and-running or once-satisfied"),
    ):  # fmt: skip
        if said.get(key) and kept != said[key]:
            yield _annotation(item, key, expected)
    yield from _strategies(item)
    number = said.get(keys.GANG_TOTAL_NUMBER)
    if number and not gang.total_number(item) and number != "0":
        yield _annotation(item, keys.GANG_TOTAL_NUMBER, "a whole number of pods")
    wait = said.get(keys.GANG_WAITING_TIME)
    if wait and gang.waiting_time(item).seconds <= 0 and wait.strip("0s"):
        yield _annotation(item, keys.GANG_WAITING_TIME, "a duration such as 30s")


def _strategies(item: Object) -> Iterator[KoordError]:
    key = keys.GANG_NETWORK_TOPOLOGY_SPEC
    try:
        spec = gang.network_topology_spec(item)
    except KoordError:
        return
    for number, rule in enumerate(spec.gather_strategy if spec is not None else ()):
        if rule.strategy not in ("", "MustGather", "PreferGather"):
            field = f"{annotation.field_of(key)}.gatherStrategy[{number}].strategy"
            yield KoordError(item.title, field, rule.strategy, "MustGather or PreferGather")


def pod_group(group: PodGroup) -> Iterator[KoordError]:
    """What is wrong with a PodGroup that declares a gang all the same."""
    timeout = group.spec.schedule_timeout_seconds
    if timeout is not None and timeout < 0:
        expected = "a number of seconds of 0 or more"
        yield KoordError(group.title, "spec.scheduleTimeoutSeconds", timeout, expected)
    yield from gang_annotations(group)


def gang_groups(item: Object) -> Iterator[KoordError]:
    """Whether the list of gangs that are satisfied together can be read."""
    try:
        annotation.read(item, keys.GANG_GROUPS, list[str])
    except KoordError as error:
        yield error


def gang_ids(item: Object) -> Iterator[KoordError]:
    """Names in that list that are no gang's: they count, and the group waits for them."""
    for number, name in enumerate(gang.groups(item)):
        if not _GANG_ID.fullmatch(name):
            field = f"{annotation.field_of(keys.GANG_GROUPS)}[{number}]"
            expected = "NAMESPACE/NAME of one gang: the group waits for a gang that is called so"
            yield KoordError(item.title, field, name, expected)


def quota(item: ElasticQuota) -> Iterator[KoordError]:
    """What is wrong with the labels of a quota, and with weights that can be read."""
    yield from _switches(item, _QUOTA_SWITCHES)
    try:
        weights = annotation.read(item, keys.QUOTA_SHARED_WEIGHT, ResourceList) or {}
    except KoordError:
        return
    for name, amount in weights.items():
        if amount < Quantity.from_value(0):
            field = f"{annotation.field_of(keys.QUOTA_SHARED_WEIGHT)}[{name}]"
            yield KoordError(item.title, field, str(amount), "a weight of 0 or more")


def quota_documents(item: ElasticQuota) -> Iterator[KoordError]:
    """Annotations of a quota that cannot be read."""
    for key, kind in (
        (keys.QUOTA_SHARED_WEIGHT, ResourceList), (keys.QUOTA_NAMESPACES, list[str]),
    ):  # fmt: skip
        try:
            annotation.read(item, key, kind)
        except KoordError as error:
            yield error


def _switches(item: Object, labels: tuple[str, ...]) -> Iterator[KoordError]:
    for key in labels:
        if item.metadata.labels.get(key, "") not in ("", "true", "false"):
            yield _label(item, key, "true or false")


def _label(item: Object, key: str, expected: str) -> KoordError:
    return KoordError(item.title, f"labels[{key}]", item.metadata.labels[key], expected)


def _annotation(item: Object, key: str, expected: str) -> KoordError:
    value = item.metadata.annotations[key]
    return KoordError(item.title, annotation.field_of(key), value, expected)
