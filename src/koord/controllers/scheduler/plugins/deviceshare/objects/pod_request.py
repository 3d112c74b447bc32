# SPDX-License-Identifier: Apache-2.0
"""All that a pod shape requests of devices, read once: amounts, hints, joint allocation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.protocol import keys, reservations, scheduling
from koord.base.errors import KoordError, value_text
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, RESOURCES, TYPES, WHOLE
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import amount_of
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import (
    Amounts,
    GPUSplit,
    InvalidRequestError,
    device_requests,
    split_gpus,
)
from koord.kernels.devices_assign import Demand, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.meta import LabelSelector
    from koord.api.kinds.pod import Pod
    from koord.api.protocol.scheduling import DeviceHint, GPUPartitionSpec

APPLY_FOR_ALL, REQUESTS_AS_COUNT = "ApplyForAll", "RequestsAsCount"
DEVICE_LEVEL, PCIE_LEVEL = "DeviceLevel", "PCIeLevel"
_SAME_PCIE = "SamePCIe"
RESTRICTED = "Restricted"

_SCOPES = {"Device": Scope.DEVICE, "PCIe": Scope.PCIE, "NUMANode": Scope.NUMA_NODE}
_MOST_CARDS = 64
_NO_HINT = scheduling.DeviceHint()


class InvalidDeviceRequestError(ValueError):
    """The pod asks for what no node can serve; the text is the reason."""


@dataclass(slots=True)
class DeviceRequest:
    """What a pod requests of devices.

    Attributes:
        requests: amounts by device type, types in their order.
        gpu: the GPU request by card; None without one.
        hints: by device type.
        joint: types to be allocated close to each other, the primary first.
        same_pcie: joint ones must come from the same PCIe roots.
        partition: the GPU partition that it requests; None without the annotation.
        isolation: GPU isolation provider that the node of a shared GPU must have; "" for any.
        reservation_required: nothing but a reservation will do.
        reservations_ignored: whatever reservations hold back is free to this pod.
        by_count: the number of devices that fit decides, type by type, about a whole node.
        counted: how many devices of each type are wanted, whatever the requests say; 0: as they
            say.
    """

    requests: dict[str, Amounts]
    gpu: GPUSplit | None = None
    hints: dict[str, DeviceHint] = field(default_factory=dict)
    joint: tuple[str, ...] = ()
    same_pcie: bool = False
    partition: GPUPartitionSpec | None = None
    isolation: str = ""
    reservation_required: bool = False
    reservations_ignored: bool = False
    by_count: bool = False
    counted: int = 0
    _demands: dict[tuple[str, int], Demand] = field(default_factory=dict)

    def hint(self, device_type: str) -> DeviceHint:
        """The hint for a type; an empty one without."""
        return self.hints.get(device_type, _NO_HINT)

    def wants_vf(self, device_type: str) -> bool:
        """Whether each device of a type must come with a virtual function."""
        return self.hint(device_type).vf_selector is not None

    def wants_all(self, device_type: str) -> bool:
        """Whether the pod wants every device of a type that its selector matches."""
        if device_type == GPU or self.hint(device_type).allocate_strategy != APPLY_FOR_ALL:
            return False
        return not _many_whole(self.requests[device_type][RESOURCES[device_type][0]])

    def only(self, device_type: str, count: int) -> DeviceRequest:
        """A request for so many devices of one type alone, each of the same amounts as here."""
        requests = {device_type: self.requests[device_type]}
        return replace(
            self, requests=requests, joint=(), same_pcie=False, counted=count, _demands={}
        )

    def counts(self) -> bool:
        """Whether the number of devices that fit decides; the value of :attr:`by_count`."""
        return not self.same_pcie and all(
            self.hint(kind).selector is None
            and not self.wants_vf(kind)
            and not self.wants_all(kind)
            for kind in self.requests
        )

    @property
    def shared(self) -> bool:
        """Whether the pod wants parts of GPUs."""
        return self.gpu is not None and self.gpu.shared

    @property
    def shares_exclusive_roots(self) -> bool:
        """Whether joint types must share PCIe roots, and one of them wants its roots alone."""
        return self.same_pcie and any(self._wants_free_roots(kind) for kind in self.joint)

    def secondary(self, device_type: str) -> bool:
        """Whether a type may be left for Reserve on nodes that are well planned.

        Rule: docs/reference/devices.md#joint-allocation.
        """
        whole = self.gpu is not None and not self.gpu.shared
        return whole and bool(self.joint) and device_type != self.joint[0]

    def demand(self, device_type: str, count: int = 0) -> Demand:
        """What the pod wants of a type on a node.

        Args:
            device_type: of the request.
            count: how many devices; 0 for as many as requested.
        """
        key = (device_type, count or self.counted)
        made = self._demands.get(key)
        if made is None:
            made = self._demands[key] = self._demand(*key)
        return made

    def single(self, device_type: str) -> Demand:
        """One card as the pod wants each of them, wherever it lies and whatever it is linked to."""
        demand = self.demand(device_type)
        return Demand(demand.each, whole_pcie=self._wants_free_roots(device_type))

    def _wants_free_roots(self, device_type: str) -> bool:
        return self.hint(device_type).exclusive_policy == PCIE_LEVEL

    def _demand(self, device_type: str, count: int) -> Demand:
        pcie = self._wants_free_roots(device_type)
        if device_type == GPU and self.gpu is not None:
            spec = self.partition
            return Demand(
                amounts_of(GPU, self.gpu.per_card), count or self.gpu.cards, grouped=True,
                shared=self.gpu.shared, scope=_scope(self.hint(GPU)), whole_pcie=pcie,
                honour_partition=spec is not None,
                best_partition_only=spec is not None and spec.allocate_policy == RESTRICTED,
                bandwidth_bps=_bandwidth(spec),
            )  # fmt: skip
        per_card, own_count = _split(
            device_type, self.requests[device_type], self.hint(device_type)
        )
        return Demand(amounts_of(device_type, per_card), count or own_count, whole_pcie=pcie)


def amounts_of(device_type: str, amounts: Mapping[str, int]) -> list[int]:
    """Amounts in the order of a type's resources; others are left out."""
    return [amounts.get(name, 0) for name in RESOURCES[device_type]]


def device_request_of(pod: Pod, amounts: Mapping[str, int]) -> DeviceRequest | None:
    """What a pod wants of devices; None for one that wants none.

    Args:
        pod: for its labels and annotations.
        amounts: what it requests, by resource.

    Raises:
        InvalidDeviceRequestError: an illegal request, or an annotation that cannot be read.
    """
    try:
        requests = device_requests(amounts)
    except InvalidRequestError as error:
        raise InvalidDeviceRequestError(str(error)) from None
    if not requests:
        return None
    hints = _hints(pod)
    request = DeviceRequest(
        requests, hints={kind: hint for kind, hint in hints.items() if kind in requests}
    )
    request.gpu = split_gpus(requests[GPU]) if GPU in requests else None
    request.joint, request.same_pcie = _joint(pod, request)
    request.partition = _partition(pod) if request.gpu else None
    request.isolation = (
        pod.metadata.labels.get(keys.GPU_ISOLATION_PROVIDER, "") if request.shared else ""
    )
    request.reservation_required = _needs_reservation(pod)
    request.reservations_ignored = reservations.ignores_reservations(pod)
    _check_counts(request)
    request.by_count = request.counts()
    return request


def _hints(pod: Pod) -> dict[str, DeviceHint]:
    try:
        hints = scheduling.device_hints(pod)
    except KoordError as error:
        raise _unreadable("DeviceAllocateHint annotation", error) from None
    for kind, hint in hints.items():
        _check_selector(pod, hint.selector, kind, "Selector")
        _check_selector(pod, hint.vf_selector, kind, "VFSelector")
    return hints


def _check_selector(pod: Pod, selector: LabelSelector | None, kind: str, word: str) -> None:
    if selector is None:
        return
    try:
        selectors.check(selector, pod.title, word[0].lower() + word[1:])
    except KoordError as error:
        raise _unreadable(f"{word} of DeviceHint, deviceType: {kind}", error) from None


def _joint(pod: Pod, request: DeviceRequest) -> tuple[tuple[str, ...], bool]:
    try:
        joint = scheduling.device_joint_allocate(pod)
    except KoordError as error:
        raise _unreadable("DeviceJointAllocate annotation", error) from None
    if joint is None:
        return (), False
    kinds = dict.fromkeys(kind for kind in joint.device_types if kind in request.requests)
    kept = tuple(kind for kind in kinds if request.hint(kind).allocate_strategy != APPLY_FOR_ALL)
    return kept, joint.required_scope == _SAME_PCIE and len(kept) > 1


def _partition(pod: Pod) -> GPUPartitionSpec | None:
    try:
        spec = scheduling.gpu_partition_spec(pod)
    except KoordError as error:
        raise _unreadable("GPUPartitionSpec annotation", error) from None
    if spec is not None and spec.ring_bus_bandwidth is not None:
        try:
            amount_of(spec.ring_bus_bandwidth)
        except ValueError:
            got = value_text(str(spec.ring_bus_bandwidth))
            text = f"ringBusBandwidth: got {got}, expected an amount from 0 to 2^50"
            raise InvalidDeviceRequestError(
                f"invalid GPUPartitionSpec annotation, err: {text}"
            ) from None
    return spec


def _bandwidth(spec: GPUPartitionSpec | None) -> int:
    if spec is None or spec.ring_bus_bandwidth is None:
        return 0
    return amount_of(spec.ring_bus_bandwidth)


def _needs_reservation(pod: Pod) -> bool:
    labels = pod.metadata.labels
    required = keys.RESERVATION_AFFINITY in pod.metadata.annotations
    return required or labels.get(keys.PRE_ALLOCATION_REQUIRED) == "true"


def _unreadable(what: str, error: KoordError) -> InvalidDeviceRequestError:
    # The object is the pod that the reason is told to; a shape has many.
    line = f"{error.field}: got {value_text(error.value)}, expected {error.expected}"
    return InvalidDeviceRequestError(f"invalid {what}, err: {line}")


def _check_counts(request: DeviceRequest) -> None:
    for kind in TYPES:
        if kind not in request.requests or request.wants_all(kind):
            continue
        if kind == GPU:
            count = request.gpu.cards if request.gpu else 0
        else:
            _, count = _split(kind, request.requests[kind], request.hint(kind))
        if count > _MOST_CARDS:
            raise InvalidDeviceRequestError(f"Insufficient {kind} devices")


def _split(device_type: str, requested: Amounts, hint: DeviceHint) -> tuple[Amounts, int]:
    """RDMA and FPGA by card: whole cards by hundreds, or by the hint's strategy."""
    name = RESOURCES[device_type][0]
    amount = requested[name]
    if _many_whole(amount):
        return {name: WHOLE}, amount // WHOLE
    if hint.allocate_strategy == REQUESTS_AS_COUNT:
        return {name: WHOLE if hint.exclusive_policy == DEVICE_LEVEL else 1}, amount
    return requested, 1


def _many_whole(amount: int) -> bool:
    return amount > WHOLE and amount % WHOLE == 0


def _scope(hint: DeviceHint) -> Scope:
    if not hint.required_topology_scope:
        return Scope.ANY
    return _SCOPES.get(hint.required_topology_scope, Scope.NODE)
