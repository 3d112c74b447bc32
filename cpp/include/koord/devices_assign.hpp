// SPDX-License-Identifier: Apache-2.0
// Which devices of a node a pod gets, as Koordinator's scheduler decides it: GPUs by the machine's
// partitions, then by its topology, then in the default order; other devices in the default order.
//
//   const Demand four{.request = {{100, 100}, 4}, .grouped = true};
//   const Assignment got = assign(gpus, row, four, {}, {});
//   if (got.refusal == Refusal::kNone) gpus.take(row, got.minors, four.request.each);
//
// Functions of a table that they only read; reads may run together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "koord/devices.hpp"

namespace koord::devices {

/// How close together the GPUs of one pod must lie, the closest last.
enum class Scope : std::uint8_t { kAny, kNode, kNumaNode, kPcie, kDevice };

/// What a pod asks of one device type.
struct Demand {
  Request request = {};
  bool grouped = false;  ///< partitions and topology count, as they do for GPUs
  bool shared = false;   ///< parts of GPUs: partitions are for whole ones
  Scope scope = Scope::kAny;
  bool honour_partition = false;     ///< a partition or nothing; the row may insist on it too
  bool best_partition_only = false;  ///< of the best score, or nothing
  std::int64_t bandwidth_bps = 0;    ///< that the partition's ring must have
  bool whole_pcie = false;           ///< only PCIe roots of which no device of the table is in use
};

/// An amount on one minor.
struct Holding {
  std::int32_t minor = 0;
  std::vector<std::int64_t> amounts = {};
};

/// What of a row may be given, where it is not simply all that is free.
struct Offer {
  std::optional<std::uint64_t> numa_nodes = {};    ///< bit per NUMA node
  std::optional<MinorMask> allowed = {};           ///< no other minor is considered
  MinorMask preferred = 0;                         ///< taken before all others
  std::vector<std::int32_t> preferred_pcies = {};  ///< taken in turn, best of each first
  std::vector<Holding> returned = {};  ///< in use, but the pod may have it; each minor once
  /// The most that may be given of each minor, and nothing of minors that are not named.
  std::optional<std::vector<Holding>> caps = {};
};

/// Why a pod gets no devices.
enum class Refusal : std::uint8_t {
  kNone,
  kTooFew,           ///< in the default order
  kNoPartitions,     ///< a partition is a must, and the row has no table
  kNoPartitionSize,  ///< the table knows no such number of GPUs
  kPartitionsTaken,
  kNoTopology,  ///< a scope is a must, and it is not known where the GPUs sit
  kManyShares,  ///< a scope is a must, and parts of several GPUs are wanted
  kScopesTaken,
  kGroupsTaken,  ///< by topology, though no scope is a must
};

/// Minors, or why there are none.
struct Assignment {
  Refusal refusal = Refusal::kNone;
  MinorMask minors = 0;

  bool operator==(const Assignment&) const = default;
};

/// Picks minors for the demand as the row is now, less or more what the offer says. With preferred
/// PCIe roots there may be more than asked for: one a root where they suffice.
KOORD_API Assignment assign(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                            const Offer& offer, const Scoring& scoring);

/// The refusals of many rows, kNone where the demand fits, without scoring anything. Throws
/// kNotFound for a row that the table does not have.
KOORD_API void assign_rows(const DeviceTable& table, std::span<const std::int64_t> rows,
                           const Demand& demand, std::span<std::uint8_t> refusals);

/// The worth of a row if one instance were placed there, all minors that are offered taken as one;
/// DeviceTable::score() of what the offer leaves.
KOORD_API std::int64_t offered_score(const DeviceTable& table, std::uint32_t row,
                                     const Demand& demand, const Offer& offer,
                                     const Scoring& scoring);

/// DeviceTable::score() of many rows. Throws kNotFound for a row that the table does not have.
KOORD_API void score_rows(const DeviceTable& table, std::span<const std::int64_t> rows,
                          const Request& request, const Scoring& scoring,
                          std::span<std::int64_t> scores);

}  // namespace koord::devices
