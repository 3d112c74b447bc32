// SPDX-License-Identifier: Apache-2.0
// Which names mean which policy. Three vocabularies meet: Koordinator's labels, the kubelet's
// configuration and the NodeResourceTopology API.
#include <algorithm>
#include <array>

#include "numa_internal.hpp"

namespace koord::numa {
namespace {

struct Name {
  std::string_view text;
  Policy policy;
  bool compatible;  // what Koordinator's scheduler recognises on a NodeResourceTopology
};

// The scheduler aligns whole pods, so a container-level policy is honoured at pod level: what fits
// the pod fits each of its containers.
constexpr std::array<Name, 15> kReported = {{
    {"", Policy::kNone, true},
    {"None", Policy::kNone, true},
    {"BestEffort", Policy::kBestEffort, true},
    {"BestEffortPodLevel", Policy::kBestEffort, false},
    {"BestEffortContainerLevel", Policy::kBestEffort, false},
    {"Restricted", Policy::kRestricted, true},
    {"RestrictedPodLevel", Policy::kRestricted, false},
    {"RestrictedContainerLevel", Policy::kRestricted, false},
    {"SingleNUMANode", Policy::kSingleNumaNode, false},
    {"SingleNUMANodePodLevel", Policy::kSingleNumaNode, true},
    {"SingleNUMANodeContainerLevel", Policy::kSingleNumaNode, false},
    {"none", Policy::kNone, false},
    {"best-effort", Policy::kBestEffort, false},
    {"restricted", Policy::kRestricted, false},
    {"single-numa-node", Policy::kSingleNumaNode, false},
}};

}  // namespace

Result<Policy> parse_policy(std::string_view name) {
  if (name.empty()) return Policy::kNone;
  if (name == "BestEffort") return Policy::kBestEffort;
  if (name == "Restricted") return Policy::kRestricted;
  if (name == "SingleNUMANode") return Policy::kSingleNumaNode;
  return invalid("numa topology policy", name, "BestEffort, Restricted, SingleNUMANode or nothing");
}

Result<Policy> reported_policy(std::span<const std::string> names, Naming naming) {
  for (const std::string& name : names) {
    const auto* known = std::find_if(kReported.begin(), kReported.end(),
                                     [&](const Name& entry) { return entry.text == name; });
    const bool compatible = naming == Naming::kCompatible;
    if (known == kReported.end()) {
      if (compatible) continue;
      return invalid("numa topology policy", name,
                     "a topology policy of the kubelet or of NodeResourceTopology");
    }
    if (known->policy == Policy::kNone || (compatible && !known->compatible)) continue;
    return known->policy;
  }
  return Policy::kNone;
}

Status zone_status(std::size_t single_pods, std::size_t shared_pods) noexcept {
  if (shared_pods > 0) return Status::kShared;
  return single_pods > 0 ? Status::kSingle : Status::kIdle;
}

Effective effective_policy(Policy node, Policy pod, Exclusive pod_exclusive) {
  const bool both = node != Policy::kNone && pod != Policy::kNone;
  if (both && node != pod) {
    return {Policy::kNone, pod_exclusive, "node(s) NUMA Topology policy not match"};
  }
  if (pod == Policy::kNone) return {node, pod_exclusive, {}};
  if (pod_exclusive == Exclusive::kNone) return {pod, Exclusive::kRequired, {}};
  return {pod, pod_exclusive, {}};
}

}  // namespace koord::numa
