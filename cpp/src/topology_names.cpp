// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "koord/topology_pick.hpp"

namespace koord {
namespace {

constexpr std::array<std::string_view, 3> kBindPolicies = {"Default", "FullPCPUs", "SpreadByPCPUs"};
constexpr std::array<std::string_view, 3> kExclusivePolicies = {"None", "PCPULevel",
                                                                "NUMANodeLevel"};
constexpr std::array<std::string_view, 3> kStrategies = {"MostAllocated", "LeastAllocated",
                                                         "DistributeEvenly"};
constexpr std::array<std::string_view, 3> kStatuses = {"idle", "single", "shared"};

struct PassText {
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array<PassText, kPassCount> kPasses = {{
    {"full-cores-in-node", "one NUMA node has enough whole cores"},
    {"full-cores-in-node-ignoring-exclusivity",
     "one NUMA node has enough whole cores, on nodes that exclusive pods hold"},
    {"full-cores-in-socket", "no NUMA node has enough whole cores, but one socket has"},
    {"full-cores-across-sockets",
     "no socket has enough whole cores: the fullest sockets whole, then cores of the next"},
    {"one-per-core-in-node", "one NUMA node has a free CPU on enough different cores"},
    {"cpus-in-node",
     "one NUMA node has enough free CPUs, though they share cores or pass over exclusive pods"},
    {"one-per-core-in-socket", "one socket has a free CPU on enough different cores"},
    {"cpus-in-socket",
     "one socket has enough free CPUs, though they share cores or pass over exclusive pods"},
    {"fallback", "single CPUs, near those chosen already and on broken cores first"},
    {"fallback-ignoring-exclusivity",
     "single CPUs wherever they are free, on cores and nodes that exclusive pods hold too"},
}};

template <class Enum, std::size_t N>
Result<Enum> parse(std::string_view field, std::string_view text,
                   const std::array<std::string_view, N>& names) {
  std::string known;
  for (std::size_t i = 0; i < N; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
    known.append(i == 0 ? "" : i + 1 == N ? " or " : ", ").append(names[i]);
  }
  return invalid(field, text, known);
}

void append(std::string& out, std::string_view prefix, PassSet passes) {
  for (int i = 0; i < kPassCount; ++i) {
    const auto pass = static_cast<Pass>(i);
    if (!passes.contains(pass)) continue;
    if (!out.empty()) out += '+';
    out.append(prefix).append(name(pass));
  }
}

}  // namespace

std::string_view name(BindPolicy policy) noexcept {
  return kBindPolicies[static_cast<std::size_t>(policy)];
}

std::string_view name(ExclusivePolicy policy) noexcept {
  return kExclusivePolicies[static_cast<std::size_t>(policy)];
}

std::string_view name(NumaStrategy strategy) noexcept {
  return kStrategies[static_cast<std::size_t>(strategy)];
}

std::string_view name(NumaStatus status) noexcept {
  return kStatuses[static_cast<std::size_t>(status)];
}

std::string_view name(Pass pass) noexcept { return kPasses[static_cast<std::size_t>(pass)].name; }

std::string_view describe(Pass pass) noexcept {
  return kPasses[static_cast<std::size_t>(pass)].sentence;
}

Result<BindPolicy> parse_bind_policy(std::string_view text) {
  return parse<BindPolicy>("bind policy", text, kBindPolicies);
}

Result<ExclusivePolicy> parse_exclusive_policy(std::string_view text) {
  if (text.empty()) return ExclusivePolicy::kNone;
  return parse<ExclusivePolicy>("exclusive policy", text, kExclusivePolicies);
}

Result<NumaStrategy> parse_numa_strategy(std::string_view text) {
  return parse<NumaStrategy>("NUMA strategy", text, kStrategies);
}

std::string Pick::pass_name() const {
  std::string out;
  append(out, "preferred:", preferred_passes);
  append(out, "", passes);
  return out;
}

std::string reason(PickStatus status, BindPolicy bind) {
  switch (status) {
    case PickStatus::kOk:
      return "";
    case PickStatus::kNotEnoughCpus:
      return "not enough cpus available to satisfy request";
    case PickStatus::kRequiredPolicyUnmet:
      return "insufficient CPUs to satisfy required cpu bind policy " + std::string(name(bind));
  }
  return "";
}

}  // namespace koord
