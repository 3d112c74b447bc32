# SPDX-License-Identifier: Apache-2.0
"""Use of accelerators that have no NVML: their own program writes a small file for each."""

from koord.agent.host import files
from koord.agent.metrics.collector import Collector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.base.errors import KoordError

DIRECTORY = "accelerators"  # below the host's /run; a file's name is the device's UUID
FORM = "MINOR PERCENT USED_BYTES TOTAL_BYTES"


class AcceleratorUse(Collector):
    """Percent of compute and bytes of each device, where GPUs of other makers are looked for."""

    name = "accelerator-use"
    gate = "Accelerators"

    def __init__(self, settings):
        self.interval_seconds = settings.used

    def collect(self, now):
        """One round; a KoordError gives it up: what was measured before stays and ages."""
        directory = f"{now.machine.roots.run}/{DIRECTORY}"
        uses = {uuid: parse(f"{directory}/{uuid}") for uuid in files.names(directory)}
        devices = tuple((str(use[0]), uuid) for uuid, use in uses.items())
        samples = Samples(now.now_ms)
        for column, kind in (
            (1, MetricKind.NODE_GPU_CORE_USAGE),
            (2, MetricKind.NODE_GPU_MEMORY_USAGE),
            (3, MetricKind.NODE_GPU_MEMORY_TOTAL),
        ):
            samples.add(kind, devices, [use[column] for use in uses.values()])
        return samples


def parse(path):
    """The four numbers of a device's file."""
    fields = files.read_bytes(path).split()
    if len(fields) != len(FORM.split()) or not all(map(files.is_count, fields)):
        raise KoordError(path, "", b" ".join(fields), FORM)
    return [int(field) for field in fields]
