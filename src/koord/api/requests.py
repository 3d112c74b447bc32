# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of a node, and what a node offers, as integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import (
        Container,
        ContainerStatus,
        Pod,
        PodSpec,
        ResourceRequirements,
    )

Amounts = dict[str, int]
CPU, MEMORY, PODS = "cpu", "memory", "pods"
RESIZE_PENDING, INFEASIBLE = "PodResizePending", "Infeasible"
"""The condition of a pod whose resize the node has not done, and its reason where it never will."""
MOST = 2**53
"""What amounts beyond it count as: far above any machine, and so low that what the pods of a node
ask for adds up within 64 bits."""
_ZERO = Quantity()
# To look a member up in its class takes longer than to round.
_UP = Rounding.UP


def amount(resource: str, quantity: Quantity, rounding: Rounding = Rounding.UP) -> int:
    """CPU in milli, all else in units; from -:data:`MOST` to :data:`MOST`."""
    try:
        found = _exact(resource, quantity, rounding)
    except ValueError:  # beyond 64 bits
        found = MOST if quantity > _ZERO else -MOST
    return found if -MOST <= found <= MOST else min(max(found, -MOST), MOST)


class Wrong(NamedTuple):
    """An amount that cannot be meant.

    Attributes:
        field: where it stands in the pod.
        amount: as it is written.
        expected: what would be right.
    """

    field: str
    amount: str
    expected: str


def problem(pod: Pod) -> str | None:
    """What of a pod's requests cannot be meant, in one line; None if nothing."""
    wrong = wrong_amount(pod)
    return wrong and f"{wrong.field}: got {wrong.amount}, expected {wrong.expected}"


def wrong_amount(pod: Pod) -> Wrong | None:
    """The first of a pod's requests that cannot be meant; None if all can.

    Amounts below zero, and such that no 64-bit count of them exists. The API server refuses the
    first, but not in the templates of custom resources.
    """
    if _all_can_be_meant(pod.spec):
        return None
    for where, quantities in _requests(pod):
        for name, quantity in sorted(quantities.items()):
            if quantity < _ZERO:
                return Wrong(f"{where}[{name}]", str(quantity), "0 or more")
            try:
                _exact(name, quantity, Rounding.UP)
            except ValueError:
                unit = "thousandths" if name == CPU else "a number"
                return Wrong(f"{where}[{name}]", str(quantity), f"{unit} within 64 bits")
    return None


def _all_can_be_meant(spec: PodSpec) -> bool:
    """The same without a word: nearly all can."""
    each = [spec.overhead, spec.resources.requests] if spec.resources else [spec.overhead]
    for containers in (spec.containers, spec.init_containers):
        each += [container.resources.requests for container in containers]
    try:
        for quantities in each:
            for name, quantity in quantities.items():
                if _exact(name, quantity, _UP) < 0 or quantity < _ZERO:
                    return False
    except ValueError:
        return False
    return True


def problem_and_request(pod: Pod) -> tuple[str | None, Amounts]:
    """:func:`problem` and :func:`effective` of a pod, in one pass for most."""
    if is_of_one_container(pod.spec):
        found = _meant(pod.spec.containers[0].resources.requests)
        if found is not None:
            return None, found
    return problem(pod), effective(pod)


def _meant(quantities: Mapping[str, Quantity]) -> Amounts | None:
    """Quantities as amounts; None where one cannot be meant, see :func:`wrong_amount`."""
    found: Amounts = {}
    try:
        for name, quantity in quantities.items():
            value = quantity.milli(_UP) if name == CPU else quantity.value(_UP)
            # What is below zero may round up to it.
            if value <= 0 and quantity < _ZERO:
                return None
            found[name] = value if value <= MOST else MOST
    except ValueError:  # beyond 64 bits
        return None
    return found


def _exact(resource: str, quantity: Quantity, rounding: Rounding) -> int:
    return quantity.milli(rounding) if resource == CPU else quantity.value(rounding)


def _requests(pod: Pod) -> Iterator[tuple[str, Mapping[str, Quantity]]]:
    spec = pod.spec
    for field, containers in (
        ("containers", spec.containers), ("initContainers", spec.init_containers),
    ):  # fmt: skip
        for index, container in enumerate(containers):
            yield f"spec.{field}[{index}].resources.requests", container.resources.requests
    if spec.resources:
        yield "spec.resources.requests", spec.resources.requests
    yield "spec.overhead", spec.overhead


def requested(pod: Pod) -> Amounts:
    """What a pod asks for, one pod included (Kubernetes' effective request).

    Containers run together, init containers one after the other, each beside the sidecars started
    before it. Amounts for the whole pod take the place of the containers', overhead comes on top.
    Negative amounts count as 0; see :func:`problem`.
    """
    total = effective(pod)
    total[PODS] = 1
    return {resource: value for resource, value in total.items() if value}


def counted(pod: Pod) -> Amounts:
    """What a pod counts as on its node, one pod included.

    That is what it asks for, but while it is resized in place its containers may hold more: one
    with ``resources`` in its status counts, by resource, with the most of what its spec asks for,
    what the node has allocated and what is in force. What the spec asks for is left out where the
    node has called the resize infeasible. This is so for containers and sidecars; other init
    containers, amounts for the whole pod and overhead cannot be resized.

    As kube-scheduler 1.33 to 1.35 counts pods on nodes (``UseStatusResources``).
    """
    total = effective(pod, held=True)
    total[PODS] = 1
    return {resource: value for resource, value in total.items() if value}


def nonzero(pod: Pod, cpu_milli: int, memory_bytes: int, *, held: bool = False) -> tuple[int, int]:
    """CPU milli and memory bytes of a pod as scores count them.

    On a node, containers of a pod with amounts for the whole pod count as ``cpu_milli`` only if the
    pod asks for CPU nowhere, and the same of memory; of the pod that is to be placed all do that
    have no request. As kube-scheduler 1.33 to 1.35 counts both.

    Args:
        pod: whose requests.
        cpu_milli: what a container counts as that has no CPU request; an explicit 0 stays 0.
        memory_bytes: the same for memory.
        held: as it counts on its node, see :func:`counted`; else as it is to be placed.
    """
    least = {CPU: cpu_milli, MEMORY: memory_bytes}
    if held and pod.spec.resources and pod.spec.resources.requests:
        named = effective(pod, held=True)
        least = {name: value for name, value in least.items() if name not in named}
    total = _effective(pod, least, _asking(pod, held))
    return total.get(CPU, 0), total.get(MEMORY, 0)


def effective(pod: Pod, *, limits: bool = False, held: bool = False) -> Amounts:
    """What a pod asks for, or may use at most, by resource; see :func:`requested`.

    Overhead raises a limit only where there is one. With ``held`` what it counts as on its node;
    see :func:`counted`.
    """
    if limits:
        if is_of_one_container(pod.spec):
            return _amounts(pod.spec.containers[0].resources.limits)
        return _effective(pod, {}, lambda container: _of(container.resources, True), limits=True)
    return _effective(pod, {}, _asking(pod, held))


def is_of_one_container(spec: PodSpec) -> bool:
    """Whether a pod asks for what its one container asks for, and nothing else."""
    if len(spec.containers) != 1:
        return False
    return not (spec.init_containers or spec.overhead or spec.resources)


def resize_is_infeasible(pod: Pod) -> bool:
    """Whether the node will never do the resize that the spec asks for.

    The first condition ``PodResizePending`` decides by its reason, whatever its status is.
    """
    for condition in pod.status.conditions:
        if condition.type == RESIZE_PENDING:
            return condition.reason == INFEASIBLE
    return False


def holds_what_it_asks(pod: Pod) -> bool:
    """Whether it is plain that a pod counts on its node as what it asks for, as most do."""
    if not (pod.status.container_statuses or pod.status.init_container_statuses):
        return True
    states = _states(pod)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        state = states.get(container.name)
        if state is not None and state.resources is not None:
            asked = container.resources.requests
            if state.resources.requests != asked or state.allocated_resources != asked:
                return False
    return True


def _states(pod: Pod) -> dict[str, ContainerStatus]:
    """What a pod's node says of its containers, by name."""
    status = pod.status
    return {
        each.name: each for each in (*status.container_statuses, *status.init_container_statuses)
    }


def _asking(pod: Pod, held: bool) -> Callable[[Container], Amounts]:
    """What of each container counts, of those that run and of sidecars."""
    if not held:
        return _requests_of
    by_name = _states(pod)
    infeasible = resize_is_infeasible(pod)

    def amounts(container: Container) -> Amounts:
        found = by_name.get(container.name)
        if found is None or found.resources is None:
            return _requests_of(container)
        most = {} if infeasible else _requests_of(container)
        _raise(most, _amounts(found.resources.requests))
        _raise(most, _amounts(found.allocated_resources))
        return most

    return amounts


def _requests_of(container: Container) -> Amounts:
    return _of(container.resources, False)


def _effective(
    pod: Pod, least: Amounts, of: Callable[[Container], Amounts], *, limits: bool = False
) -> Amounts:
    spec = pod.spec
    if is_of_one_container(spec):
        return {**least, **of(spec.containers[0])}
    total: Amounts = {}
    most: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            _add(sidecars, {**least, **of(container)})
            _raise(most, sidecars)
        else:
            _raise(most, _sum((sidecars, least | _of(container.resources, limits))))
    for container in spec.containers:
        _add(total, {**least, **of(container)})
    _add(total, sidecars)
    _raise(total, most)
    if spec.resources:
        total.update(_of(spec.resources, limits))
    overhead = _amounts(spec.overhead)
    _add(total, {k: v for k, v in overhead.items() if not limits or total.get(k)})
    return {name: min(value, MOST) for name, value in total.items()}


def _of(resources: ResourceRequirements, limits: bool) -> Amounts:
    return _amounts(resources.limits if limits else resources.requests)


def offered(node: Node) -> Amounts:
    """What pods may ask of a node in all; less than :data:`MOST`, which thus fits nowhere."""
    return {
        name: min(amount(name, value, Rounding.DOWN), MOST - 1)
        for name, value in node.status.allocatable.items()
    }


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: max(0, amount(name, value)) for name, value in quantities.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        _add(total, part)
    return total


def _add(total: Amounts, part: Amounts) -> None:
    for name, value in part.items():
        total[name] = total.get(name, 0) + value


def _raise(most: Amounts, part: Amounts) -> None:
    for name, value in part.items():
        most[name] = max(most.get(name, 0), value)
