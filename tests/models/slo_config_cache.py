# SPDX-License-Identifier: Apache-2.0
"""The plain model of the manager's configuration: each section by itself, its last good text."""

from __future__ import annotations

from functools import cache

from koord.api.sloconfig import sections
from koord.api.sloconfig.config import load

GOOD = {
    sections.COLOCATION: ('{"enable":true}', '{"enable":true,"degradeTimeMinutes":7}', "{}"),
    sections.THRESHOLD: ('{"clusterStrategy":{"enable":true}}', "{}"),
    sections.BURST: ('{"clusterStrategy":{"policy":"auto"}}', "{}"),
    sections.QOS: ('{"clusterStrategy":{"beClass":{"memoryQOS":{"throttlingPercent":80}}}}', "{}"),
    sections.SYSTEM: ('{"clusterStrategy":{"watermarkScaleFactor":400}}', "{}"),
    sections.NORMALIZATION: ('{"enable":true,"defaultRatio":1.2}', "{}"),
    sections.AMPLIFICATION: ('{"enable":true,"resourceAmplificationRatio":{"cpu":1.5}}', "{}"),
    sections.HOST_APPLICATION: ('{"applications":[{"name":"a"}]}', "{}"),
}
BAD = {
    sections.COLOCATION: (
        "{", '{"degradeTimeMinutes":0}', '{"enable":"perhaps"}',
        '{"metricMemoryCollectPolicy":"nonsense"}',
    ),
    sections.THRESHOLD: (
        "{", '{"clusterStrategy":{"enable":3}}', "",
        '{"clusterStrategy":{"cpuSuppressThresholdPercent":700}}',
        '{"clusterStrategy":{"cpuSuppressPolicy":"nonsense"}}',
        '{"nodeStrategies":[{"nodeSelector":{},"memoryEvictLowerPercent":70}]}',
    ),
    sections.BURST: (
        "[]", '{"nodeStrategies":{}}', '{"clusterStrategy":{"cpuBurstPercent":20000}}',
        '{"nodeStrategies":[{"nodeSelector":{},"policy":"nonsense"}]}',
        '{"clusterStrategy":{"cfsQuotaBurstPercent":9223372036854775808}}',
    ),
    sections.QOS: ("{", '{"clusterStrategy":{"beClass":{"memoryQOS":{"wmarkRatio":5000}}}}'),
    sections.SYSTEM: ("{", '{"clusterStrategy":{"watermarkScaleFactor":40000}}'),
    sections.NORMALIZATION: ("{", '{"defaultRatio":"x"}', '{"defaultRatio":9}'),
    sections.AMPLIFICATION: ("{", '{"resourceAmplificationRatio":{"cpu":0.5}}'),
    sections.HOST_APPLICATION: ('{"applications":{}}',),
}  # fmt: skip
_SELECTOR = '"nodeSelector":{"matchLabels":{"a":"b"}}'
_NO_SELECTOR = '"nodeSelector":{"matchExpressions":[{"key":"a","operator":"Bad"}]}'
_SKIPPED = f'{{"nodeStrategies":[{{{_NO_SELECTOR},"enable":true}}]}}'
# In force but for a node strategy, and what each comes to.
PARTLY = {
    sections.COLOCATION: {
        f'{{"nodeConfigs":[{{{_SELECTOR},"degradeTimeMinutes":0}}]}}':
            f'{{"nodeConfigs":[{{{_SELECTOR}}}]}}',
    },
    sections.THRESHOLD: {_SKIPPED: _SKIPPED},
}  # fmt: skip
# In force, but not as they read: what each comes to, and how many sorts of mistake are told of.
BOUNDED = {
    sections.COLOCATION: {
        '{"enable":true,"memoryReclaimThresholdPercent":165}':
            ('{"enable":true,"memoryReclaimThresholdPercent":100}', 1),
        '{"enabled":true,"batchCPUThresholdPercent":101,"cpuReclaimThresholdPercnt":1}':
            ('{"batchCPUThresholdPercent":100}', 2),
    },
    sections.QOS: {
        '{"clusterStrategy":{"beClass":{"memoryQOS":{"throttlingPercent":150}}}}':
            ('{"clusterStrategy":{"beClass":{"memoryQOS":{"throttlingPercent":100}}}}', 1),
    },
    sections.BURST: {'{"clusterStrategies":{"policy":"auto"}}': ("{}", 1)},
}  # fmt: skip
MEANT = {
    key: {text: meaning for text, (meaning, _) in BOUNDED.get(key, {}).items()}
    | PARTLY.get(key, {})
    for key in GOOD
}
TEXTS = {key: (*GOOD[key], *BAD[key], *MEANT[key]) for key in GOOD}


class Model:
    """What is in force, and what has been told."""

    def __init__(self) -> None:
        self.texts: dict[str, str | None] = dict.fromkeys(GOOD)
        self.good: set[str] = set()
        self.error_status = False
        self.complaints: list[str] = []
        self._data: dict[str, str] | None = None
        self._told: dict[str, str] = {}
        self._bad: set[str] = set()

    def sync(self, data: dict[str, str] | None) -> set[str]:
        """Takes a ConfigMap's data; which sections changed."""
        changed = set()
        for key in GOOD:
            text = (data or {}).get(key)
            if text is None or text in GOOD[key]:
                self._told.pop(key, None)
            elif self._told.get(key) != text:
                _, sorts = BOUNDED.get(key, {}).get(text, ("", 1))
                self.complaints += [key] * sorts
                self._told[key] = text
            if text is not None and text in BAD[key]:
                self._bad.add(key)
                continue
            self._bad.discard(key)
            if key not in self.good or _value(key, text) != _value(key, self.texts[key]):
                changed.add(key)
            self.good.add(key)
            self.texts[key] = text
        was_wrong = self.error_status
        self.error_status = data is None or sections.COLOCATION in self._bad
        if was_wrong and not self.error_status:
            changed.add(sections.COLOCATION)
        return changed

    def value(self, key: str) -> object:
        """The merged section in force."""
        return _value(key, self.texts[key])


@cache
def _value(key: str, text: str | None) -> object:
    meaning = MEANT[key].get(text or "", text)
    return load({} if meaning is None else {key: meaning}).sections[key]
