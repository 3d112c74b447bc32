// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "numa_internal.hpp"

namespace koord::numa {
namespace {

using Lists = std::vector<std::span<const Hint>>;

// Stand-ins for resources without a preference and for resources that fit nowhere.
constexpr std::array<Hint, 1> kAnywhere = {Hint{std::nullopt, true, false, 0}};
constexpr std::array<Hint, 1> kNowhere = {Hint{std::nullopt, false, true, 0}};

struct Flattened {
  Lists lists;
  std::vector<const ResourceHints*> shown;  // resources with hints, for the summary
  std::vector<std::string> reasons;
};

std::vector<const ResourceHints*> by_name(const Provider& provider) {
  std::vector<const ResourceHints*> sorted;
  sorted.reserve(provider.resources.size());
  for (const ResourceHints& resource : provider.resources) sorted.push_back(&resource);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](auto* a, auto* b) { return a->resource < b->resource; });
  return sorted;
}

Flattened flatten(std::span<const Provider> providers) {
  Flattened flat;
  for (const Provider& provider : providers) {
    if (provider.resources.empty()) flat.lists.emplace_back(kAnywhere);
    for (const ResourceHints* resource : by_name(provider)) {
      if (resource->hints == nullptr) {
        flat.lists.emplace_back(kAnywhere);
      } else if (resource->hints->empty()) {
        flat.lists.emplace_back(kNowhere);
        flat.reasons.push_back("Unsatisfied NUMA " + resource->resource);
      } else {
        flat.lists.emplace_back(*resource->hints);
        flat.shown.push_back(resource);
      }
    }
  }
  return flat;
}

std::string summary(const ZoneSet& zones, const ResourceHints& resource) {
  std::string preferred;
  std::string possible;
  for (const Hint& hint : *resource.hints) {
    if (hint.unsatisfied) continue;
    const std::string mask = hint.affinity ? zones.text(*hint.affinity) : "<nil>";
    possible += (possible.empty() ? "" : " ") + mask;
    if (hint.preferred) preferred += (preferred.empty() ? "" : " ") + mask;
  }
  return resource.resource + " prefer [" + preferred + "] among [" + possible + "]";
}

// Only written for a pod that is turned away: it costs more than the merge.
std::string unaligned(const ZoneSet& zones, const Flattened& flat, std::string_view separator) {
  std::vector<std::string> lines;
  lines.reserve(flat.shown.size());
  for (const ResourceHints* resource : flat.shown) lines.push_back(summary(zones, *resource));
  std::sort(lines.begin(), lines.end());
  std::string text = "Unaligned NUMA Hint cause ";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += separator;
    text += lines[i];
  }
  return text;
}

Decision judged(Hint hint, const ZoneSet& zones, const Flattened& flat,
                std::string_view separator) {
  if (hint.preferred) return {hint, true, {}};
  return {hint, false, {unaligned(zones, flat, separator)}};
}

Result<Decision> best_effort(const Machine& machine, const Flattened& flat) {
  auto best = merge(machine, flat.lists);
  if (!best) return best.error();
  // Zones that do not serve every resource are no better than no alignment.
  if (best.value().unsatisfied) return Decision{Hint{machine.zones.all()}, true, {}};
  return Decision{best.value(), true, {}};
}

Result<Decision> restricted(const Machine& machine, const Flattened& flat) {
  if (!flat.reasons.empty()) return Decision{Hint{machine.zones.all()}, false, flat.reasons};
  auto best = merge(machine, flat.lists);
  if (!best) return best.error();
  return judged(best.value(), machine.zones, flat, " & ");
}

Result<Decision> single_numa_node(const Machine& machine, const Flattened& flat) {
  if (!flat.reasons.empty()) return Decision{Hint{}, false, flat.reasons};
  std::vector<HintList> kept(flat.lists.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (const Hint& hint : flat.lists[i]) {
      const bool narrow = !hint.affinity || width(*hint.affinity) == 1;
      if (hint.preferred && narrow) kept[i].push_back(hint);
    }
  }
  auto best = merge(machine, Lists(kept.begin(), kept.end()));
  if (!best) return best.error();
  Hint hint = best.value();
  // All zones is no affinity, also on a machine of one: nothing is assigned per zone there.
  if (hint.affinity == machine.zones.all()) hint = Hint{std::nullopt, hint.preferred};
  return judged(hint, machine.zones, flat, ",");
}

}  // namespace

Result<Decision> admit(Policy policy, const Machine& machine, std::span<const Provider> providers) {
  Decision failed;
  for (const Provider& provider : providers) {
    if (!provider.failure.empty()) failed.reasons.push_back(provider.failure);
  }
  if (!failed.reasons.empty()) return failed;
  switch (policy) {
    case Policy::kBestEffort:
      return best_effort(machine, flatten(providers));
    case Policy::kRestricted:
      return restricted(machine, flatten(providers));
    case Policy::kSingleNumaNode:
      return single_numa_node(machine, flatten(providers));
    case Policy::kNone:
      break;
  }
  return Decision{Hint{}, true, {}};
}

}  // namespace koord::numa
