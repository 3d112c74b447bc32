// SPDX-License-Identifier: Apache-2.0
// What a pick of CPUs is asked for and what it answers. The words are Koordinator's: annotations
// scheduling.koordinator.sh/resource-spec and node label
// node.koordinator.sh/numa-allocate-strategy.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "koord/cpuset.hpp"
#include "koord/error.hpp"

namespace koord {

/// How the CPUs of one pod lie on cores. The numbers are part of the C ABI.
enum class BindPolicy : std::uint8_t {
  kDefault = 0,    ///< as kSpread, but nothing to require
  kFullPCPUs = 1,  ///< whole cores
  kSpread = 2,     ///< one CPU a core (wire: SpreadByPCPUs)
};

/// What a pod does not want to share with pods of the same policy. A wish, never a condition.
enum class ExclusivePolicy : std::uint8_t { kNone = 0, kPCPULevel = 1, kNUMANodeLevel = 2 };

/// Which NUMA nodes and sockets are tried first.
enum class NumaStrategy : std::uint8_t {
  kMostAllocated = 0,     ///< those with the fewest free CPUs
  kLeastAllocated = 1,    ///< those with the most free CPUs
  kDistributeEvenly = 2,  ///< for the picker the same as kLeastAllocated, as in Koordinator
};

enum class NumaStatus : std::uint8_t {
  kIdle = 0,    ///< no pod
  kSingle = 1,  ///< only pods that lie on this node alone
  kShared = 2,  ///< a pod that lies on several nodes
};

/// Wire names. Parsing is exact; errors name the known ones.
KOORD_API std::string_view name(BindPolicy policy) noexcept;
KOORD_API std::string_view name(ExclusivePolicy policy) noexcept;
KOORD_API std::string_view name(NumaStrategy strategy) noexcept;
KOORD_API std::string_view name(NumaStatus status) noexcept;
KOORD_API Result<BindPolicy> parse_bind_policy(std::string_view text);
/// The empty text is kNone.
KOORD_API Result<ExclusivePolicy> parse_exclusive_policy(std::string_view text);
KOORD_API Result<NumaStrategy> parse_numa_strategy(std::string_view text);

/// The passes of the rules, in the order in which they are tried.
enum class Pass : std::uint8_t {
  kFullCoresInNode,
  kFullCoresInNodeIgnoringExclusivity,
  kFullCoresInSocket,
  kFullCoresAcrossSockets,
  kOnePerCoreInNode,
  kCpusInNode,
  kOnePerCoreInSocket,
  kCpusInSocket,
  kFallback,
  kFallbackIgnoringExclusivity,
};
inline constexpr int kPassCount = 10;

/// "full-cores-in-node" and so on.
KOORD_API std::string_view name(Pass pass) noexcept;
/// What the pass does, as a sentence.
KOORD_API std::string_view describe(Pass pass) noexcept;

/// The passes that gave CPUs. They ran in the order of their numbers.
class PassSet {
 public:
  void insert(Pass pass) noexcept { bits_ = static_cast<std::uint16_t>(bits_ | bit(pass)); }
  [[nodiscard]] bool contains(Pass pass) const noexcept { return (bits_ & bit(pass)) != 0; }
  [[nodiscard]] bool empty() const noexcept { return bits_ == 0; }
  friend bool operator==(const PassSet&, const PassSet&) = default;

 private:
  static unsigned bit(Pass pass) noexcept { return 1U << static_cast<unsigned>(pass); }
  std::uint16_t bits_ = 0;
};

/// What is asked for. The sets are borrowed for the call; null stands for the empty set.
struct PickRequest {
  int count = 0;
  BindPolicy bind = BindPolicy::kDefault;
  bool required = false;  ///< fail rather than break the bind policy
  ExclusivePolicy exclusive = ExclusivePolicy::kNone;
  NumaStrategy strategy = NumaStrategy::kLeastAllocated;
  int max_ref_count = 1;                     ///< pods that may hold a CPU at once; 0 counts as 1
  const CpuSet* reserved = nullptr;          ///< never picked
  const CpuSet* preferred = nullptr;         ///< given back once, and picked before all others
  std::span<const CpuSet> preemptible = {};  ///< each set is given back once
  const CpuSet* within = nullptr;  ///< pick from these only, e.g. one NUMA node; null is all
};

enum class PickStatus : std::uint8_t {
  kOk = 0,
  kNotEnoughCpus = 1,
  kRequiredPolicyUnmet = 2,
};

/// An answer: exactly `count` CPUs, or none and the reason.
struct Pick {
  PickStatus status = PickStatus::kOk;
  CpuSet cpus;
  PassSet preferred_passes;  ///< that gave CPUs out of the preferred set
  PassSet passes;            ///< that gave the rest

  [[nodiscard]] bool ok() const noexcept { return status == PickStatus::kOk; }
  /// The names of the passes joined by '+', those of the preferred half behind "preferred:".
  [[nodiscard]] KOORD_API std::string pass_name() const;
};

/// Why a pick failed, in Koordinator's words; "" for kOk.
KOORD_API std::string reason(PickStatus status, BindPolicy bind);

}  // namespace koord
