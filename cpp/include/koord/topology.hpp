// SPDX-License-Identifier: Apache-2.0
// What a machine is made of: logical CPUs on cores, cores on NUMA nodes and sockets, L3 domains.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "koord/cpuset.hpp"
#include "koord/error.hpp"

namespace koord {

/// Stands for what the kernel does not tell.
inline constexpr int kUnknown = -1;

/// One logical CPU. All numbers are ids, 0 or more, or kUnknown.
struct CpuInfo {
  int cpu = 0;            ///< 0..CpuSet::kMaxId
  int core = kUnknown;    ///< unique on its socket when given, on the machine when read back
  int socket = kUnknown;  ///< physical package
  int node = kUnknown;    ///< NUMA node
  int l3 = kUnknown;      ///< L3 cache domain
  bool online = true;

  friend bool operator==(const CpuInfo&, const CpuInfo&) = default;
};

/// Counts over the online CPUs; kUnknown where the kernel tells of no CPU.
struct TopologySummary {
  int cpus = 0;
  int cores = kUnknown;
  int sockets = kUnknown;
  int nodes = kUnknown;  ///< those with online CPUs
  int l3 = kUnknown;
  int threads_per_core = kUnknown;  ///< the most that any core has online
};

namespace detail {
struct CpuLayout;
}

/// An immutable machine. Copies share it, so they cost little and may go to other threads.
class KOORD_API Topology {
 public:
  /// Builds a machine from its CPUs in any order. Cores are told apart by (socket, core) and get
  /// dense numbers in that order, so that they are unique on the machine.
  /// Errors: an id out of range or given twice, CPUs of one core on two NUMA nodes, more than 64
  /// CPUs on a core, no CPU online.
  static Result<Topology> from_cpus(std::vector<CpuInfo> cpus);
  /// Reads `root`/sys; "/" is this machine, anything else a dump of one.
  /// Errors: kSystem when a file cannot be read, kInvalid with the file's path as field when it
  /// makes no sense, and those of from_cpus.
  static Result<Topology> from_sysfs(const std::string& root);

  /// Every CPU that is present, offline ones too, ascending by id.
  [[nodiscard]] std::span<const CpuInfo> cpus() const& noexcept;
  std::span<const CpuInfo> cpus() && = delete;
  /// The online CPUs: those that can be picked.
  [[nodiscard]] const CpuSet& online() const& noexcept;
  const CpuSet& online() && = delete;
  [[nodiscard]] TopologySummary summary() const;

  /// For libkoord's own use.
  [[nodiscard]] const detail::CpuLayout& layout() const noexcept { return *layout_; }

 private:
  explicit Topology(std::shared_ptr<const detail::CpuLayout> layout) : layout_(std::move(layout)) {}
  std::shared_ptr<const detail::CpuLayout> layout_;
};

}  // namespace koord
