// SPDX-License-Identifier: Apache-2.0
// Which pods hold which CPUs of one node, changed in place, and picks against that.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "koord/topology.hpp"
#include "koord/topology_pick.hpp"

namespace koord {

/// How many CPUs of a NUMA node; kUnknown stands for the CPUs of no node.
struct NodeCpus {
  int node = kUnknown;
  int cpus = 0;
  friend bool operator==(const NodeCpus&, const NodeCpus&) = default;
};

/// The CPUs that pods hold on one machine. Working memory for picks is set up once, so that a pick
/// allocates nothing but its answer. Not synchronised: one thread at a time, const calls too.
class KOORD_API CpuState {
 public:
  explicit CpuState(Topology topology);
  CpuState(CpuState&&) noexcept;
  CpuState& operator=(CpuState&&) noexcept;
  ~CpuState();

  [[nodiscard]] const Topology& topology() const noexcept;

  /// Gives the CPUs to a pod. CPUs that the machine lacks or has offline are left out of account.
  /// The pod's exclusive policy replaces that of earlier pods on the same CPUs.
  /// Returns false, and does nothing, when the uid is known.
  bool add(std::string_view uid, const CpuSet& cpus,
           ExclusivePolicy exclusive = ExclusivePolicy::kNone);
  /// Takes a pod's CPUs back. Returns false when the uid is unknown.
  bool release(std::string_view uid);
  /// release, then add.
  void update(std::string_view uid, const CpuSet& cpus,
              ExclusivePolicy exclusive = ExclusivePolicy::kNone);

  /// The CPUs of a pod, or null when the uid is unknown. Valid until the state changes.
  [[nodiscard]] const CpuSet* cpus_of(std::string_view uid) const& noexcept;
  const CpuSet* cpus_of(std::string_view uid) && = delete;
  /// How many pods hold the CPU.
  [[nodiscard]] int ref_count(int cpu) const noexcept;
  /// CPUs that one pod or more holds.
  [[nodiscard]] CpuSet allocated() const;
  /// kIdle for a node that the machine lacks.
  [[nodiscard]] NumaStatus numa_status(int node) const noexcept;

  /// CPUs held by fewer than max_ref_count pods after the give-backs of `request`, not reserved
  /// and, when its bind policy is required, able to meet it. `count` does not matter.
  [[nodiscard]] CpuSet available(const PickRequest& request) const;
  /// How many CPUs available() has, NUMA node by NUMA node, ascending by id.
  [[nodiscard]] std::vector<NodeCpus> count_available(const PickRequest& request) const;
  /// Bytes that are equal for two states of one machine only if every question has the same answer
  /// in both: which CPUs are held, by how many pods, which exclusive policies count, what
  /// numa_status() says. Not stable between versions.
  [[nodiscard]] std::string fingerprint() const;
  /// Chooses CPUs by the rules of Koordinator's CPU accumulator; the state stays as it is. A count
  /// below 1 is answered with no CPUs and kOk.
  [[nodiscard]] Pick pick(const PickRequest& request) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace koord
