# SPDX-License-Identifier: Apache-2.0
"""What a pod wants over time, as shares of what it requests.

A demand is a function of the time alone: mean, daily swing and a noise made of three slow waves
whose phases come from the pod's UID and the seed. So a run is replayed by its seed, and how often
somebody looks changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.base.errors import KoordError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

# Periods of the noise, in seconds: about five minutes together, never in step.
NOISE_PERIODS_SECONDS = (97.0, 311.0, 1013.0)
_DAY_SECONDS = 86_400.0


class UsageDemand(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What pods of one class want.

    Attributes:
        cpu: mean share of the CPU request.
        amplitude: how far the daily swing goes to both sides, as a share of the mean.
        peak_hour: UTC hour of the day with the highest demand.
        noise: how far the noise goes at most, as a share.
        memory: share of the memory request.
    """

    cpu: float = 0.35
    amplitude: float = 0.0
    peak_hour: float = 12.0
    noise: float = 0.1
    memory: float = 0.6

    def check(self, source: str, at: str) -> None:
        """Refuses shares that cannot be.

        Raises:
            KoordError: names the field.
        """
        bounds = {"cpu": 100, "amplitude": 1, "peak_hour": 24, "noise": 1, "memory": 1}
        for field, most in bounds.items():
            value = getattr(self, field)
            if not 0 <= value <= most:
                name = "peakHour" if field == "peak_hour" else field
                raise KoordError(source, f"{at}.{name}", value, f"a number from 0 to {most}")

    @property
    def peak_cpu(self) -> float:
        """The highest share of the CPU request that is ever wanted."""
        return self.cpu * (1 + self.amplitude) * (1 + self.noise)


class DemandModel(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What pods want that say nothing themselves.

    Attributes:
        services: pods of class Prod, Mid and none.
        batch: pods of class Batch and Free.
        default_cpu_milli: taken as the request of a pod without one.
        default_memory: the same, in bytes.
        system: what the machine's own programs want, as shares of the machine.
        cold_start_seconds: how old a pod is before its peak is predicted; agents learn for a day.
    """

    services: UsageDemand = UsageDemand(amplitude=0.5, peak_hour=20.5, noise=0.15)
    batch: UsageDemand = UsageDemand(cpu=0.9, noise=0.05, memory=0.7)
    system: UsageDemand = UsageDemand(cpu=0.02, noise=0.1, memory=0.03)
    default_cpu_milli: int = 50
    default_memory: int = 64 << 20
    cold_start_seconds: int = 300

    def check(self, source: str, at: str) -> None:
        """Refuses shares that cannot be.

        Raises:
            KoordError: names the field.
        """
        for name in ("services", "batch", "system"):
            getattr(self, name).check(source, f"{at}.{name}")
        counts = {
            "defaultCpuMilli": self.default_cpu_milli,
            "defaultMemory": self.default_memory,
            "coldStartSeconds": self.cold_start_seconds,
        }
        for name, count in counts.items():
            if count < 0:
                raise KoordError(source, f"{at}.{name}", count, "a number of at least 0")


def wanted(
    mean: Column, amplitude: Column, peak_hour: Column, noise: Column, phases: Column, now: float
) -> Column:
    """The share wanted at a moment, one row a pod.

    Args:
        mean: shares.
        amplitude: of the daily swing.
        peak_hour: UTC hour.
        noise: how far the noise goes.
        phases: shape (rows, 3), each from 0 to 1.
        now: wall time in seconds.
    """
    import numpy as np

    day = (now / _DAY_SECONDS) % 1.0
    swing = np.cos(2 * np.pi * (day - peak_hour / 24.0))
    waves = np.zeros_like(mean)
    for index, period in enumerate(NOISE_PERIODS_SECONDS):
        waves += np.sin(2 * np.pi * ((now % (period * 1e6)) / period + phases[:, index]))
    share: Column = mean * (1 + amplitude * swing) * (1 + noise * waves / 3.0)
    return np.maximum(share, 0.0)
