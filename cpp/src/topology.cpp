// SPDX-License-Identifier: Apache-2.0
#include "koord/topology.hpp"

#include <algorithm>
#include <set>

#include "topology_layout.hpp"

namespace koord {
namespace {

// Distinct known values of one field over the online CPUs, or kUnknown when there is none.
int distinct(std::span<const CpuInfo> cpus, int CpuInfo::* field) {
  std::set<int> seen;
  for (const CpuInfo& info : cpus) {
    if (info.online && info.*field != kUnknown) seen.insert(info.*field);
  }
  return seen.empty() ? kUnknown : static_cast<int>(seen.size());
}

int most_threads(std::span<const CpuInfo> cpus) {
  std::vector<int> threads(cpus.size(), 0);
  int most = kUnknown;
  for (const CpuInfo& info : cpus) {
    if (!info.online || info.core == kUnknown) continue;
    most = std::max(most, ++threads[static_cast<std::size_t>(info.core)]);
  }
  return most;
}

}  // namespace

Result<Topology> Topology::from_cpus(std::vector<CpuInfo> cpus) {
  auto layout = detail::make_layout(std::move(cpus));
  if (!layout) return layout.error();
  return Topology(std::make_shared<const detail::CpuLayout>(std::move(layout).value()));
}

std::span<const CpuInfo> Topology::cpus() const& noexcept { return layout_->cpus; }

const CpuSet& Topology::online() const& noexcept { return layout_->online; }

TopologySummary Topology::summary() const {
  const auto all = cpus();
  return {.cpus = online().count(),
          .cores = distinct(all, &CpuInfo::core),
          .sockets = distinct(all, &CpuInfo::socket),
          .nodes = distinct(all, &CpuInfo::node),
          .l3 = distinct(all, &CpuInfo::l3),
          .threads_per_core = most_threads(all)};
}

}  // namespace koord
