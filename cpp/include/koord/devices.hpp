// SPDX-License-Identifier: Apache-2.0
// Devices of one type (GPUs, RDMA NICs, FPGAs) on many nodes: what each minor has and has free,
// which minors a request gets, and the exact inverse of every change.
//
//   DeviceTable gpus({"gpu-core", "gpu-memory-ratio"});
//   const auto row = gpus.add_row({{.minor = 0, .total = {100, 100}}, {.minor = 1, .total = {100,
//   100}}}); const MinorMask chosen = gpus.choose(row, {.each = {50, 50}, .count = 1},
//   Choice::kBest); gpus.take(row, chosen, {50, 50});
//
// A set of minors is one machine word, so minors are 0..63.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "koord/error.hpp"
#include "koord/random.hpp"

namespace koord::devices {

inline constexpr std::int32_t kMaxMinors = 64;
inline constexpr std::size_t kMaxResources = 8;
/// No amount is larger, so that a sum over all minors and a product with 100 stay in 64 bits.
inline constexpr std::int64_t kMaxAmount = std::int64_t{1} << 50;

/// Bit i stands for minor i.
using MinorMask = std::uint64_t;

/// The NUMA node of a device of which nobody knows where it sits.
inline constexpr std::int32_t kNowhere = -2;

/// One device as its node reports it.
struct Device {
  std::int32_t minor = 0;
  std::vector<std::int64_t> total = {};  ///< one amount a resource of the table
  std::int32_t numa_node = -1;           ///< -1: on every NUMA node; kNowhere: on none
  std::int32_t pcie = -1;                ///< id of its PCIe root, -1 if unknown
  std::vector<std::string> labels = {};  ///< "key=value"
  bool healthy = true;                   ///< an unhealthy device has a total of zero
};

/// What a pod asks of one device type: `count` devices with `each` on every one of them.
struct Request {
  std::vector<std::int64_t> each = {};  ///< one amount a resource; 0 asks for none of it
  std::int32_t count = 0;

  bool operator==(const Request&) const = default;
};

/// Which of the fitting devices a share gets; ties go to the lowest minor.
enum class Choice { kFirst, kBest, kWorst, kRandom };

/// How DeviceTable::allocate orders devices.
enum class Strategy { kNone, kLeastAllocated, kMostAllocated };

/// Narrows the candidates of DeviceTable::allocate and says which come first.
struct Constraints {
  std::optional<std::uint64_t> numa_nodes = {};    ///< bit per NUMA node
  std::optional<MinorMask> required = {};          ///< no other minor is considered
  MinorMask preferred = 0;                         ///< taken before all others
  std::vector<std::int32_t> preferred_pcies = {};  ///< taken in turn, best of each first
  std::vector<std::string> labels = {};            ///< a device must carry all of them
};

/// Scoring of devices and nodes: LeastAllocated or MostAllocated over weighted resources.
struct Scoring {
  Strategy strategy = Strategy::kNone;
  std::vector<std::int64_t> weights = {};  ///< one a resource, 0 leaves it out
};

/// (total - used) * 100 / total, or used * 100 / total; truncated, within 0..100.
KOORD_API std::int64_t usage_score(Strategy strategy, std::int64_t total, std::int64_t used);

/// GPU memory in both of its forms.
struct GpuMemory {
  std::int64_t bytes = 0;
  std::int64_t percent = 0;  ///< of the card's memory

  bool operator==(const GpuMemory&) const = default;
};

/// Fills in the form that was not asked for (0) from the card that was chosen; the percentage is
/// truncated. Throws kInvalid for a card without memory, as one that is missing or unhealthy has.
KOORD_API GpuMemory complete_memory(GpuMemory asked, std::int64_t card_bytes);

/// Where a device sits.
struct Place {
  std::int32_t numa_node = kNowhere;
  std::int32_t pcie = -1;
  std::vector<std::string> labels = {};
};

/// The devices of one NUMA node, and those of each PCIe root on it, ascending by id.
struct NumaGroup {
  MinorMask minors = 0;
  std::vector<MinorMask> pcies = {};
};

/// GPUs that a machine links with each other.
struct Partition {
  MinorMask minors = 0;
  std::int64_t score = 0;                          ///< how good the link is, more is better
  std::optional<std::int64_t> bandwidth_bps = {};  ///< of the ring, if it is known
};

/// The partitions of a machine, by how many GPUs they have; the best first, equals as listed.
class KOORD_API PartitionTable {
 public:
  /// Throws kInvalid for a partition without minors or with a score or bandwidth out of 0..2^50.
  explicit PartitionTable(const std::vector<Partition>& partitions);
  /// Empty if the machine links no such number of GPUs.
  [[nodiscard]] std::span<const Partition> of_size(std::int32_t gpus) const;
  /// The leading ones of of_size(gpus) that score the same.
  [[nodiscard]] std::span<const Partition> best_of_size(std::int32_t gpus) const;

 private:
  std::vector<std::vector<Partition>> by_size_;
};

/// Where a row has its minors in columns of them.
struct Slots {
  std::size_t offset = 0;
  std::int32_t width = 0;
};

/// The device state of many nodes, column by column. Not thread-safe; reads may run together.
class KOORD_API DeviceTable {
 public:
  /// Throws kInvalid for more than kMaxResources names, or none.
  explicit DeviceTable(std::vector<std::string> resources);

  [[nodiscard]] const std::vector<std::string>& resources() const noexcept { return resources_; }
  [[nodiscard]] std::size_t rows() const noexcept { return nodes_.size(); }

  /// Appends a node and returns its row. Throws kInvalid for a bad minor, amount or arity.
  std::uint32_t add_row(std::span<const Device> devices);
  /// Replaces what a node has and keeps what is used: free is max(0, total - used), and a minor
  /// that went keeps its use with a total of zero.
  void update_row(std::uint32_t row, std::span<const Device> devices);

  /// One past the highest minor of the row.
  [[nodiscard]] std::int32_t width(std::uint32_t row) const { return nodes_[row].width; }
  /// Free amounts of one resource by minor. Valid until a row is added or updated.
  [[nodiscard]] std::span<const std::int64_t> free(std::uint32_t row, std::size_t resource) const {
    return {free_[resource].data() + nodes_[row].offset, static_cast<std::size_t>(width(row))};
  }
  /// Total amounts of one resource by minor.
  [[nodiscard]] std::span<const std::int64_t> total(std::uint32_t row, std::size_t resource) const {
    return {total_[resource].data() + nodes_[row].offset, static_cast<std::size_t>(width(row))};
  }
  /// Used amounts of one resource by minor.
  [[nodiscard]] std::span<const std::int64_t> used(std::uint32_t row, std::size_t resource) const {
    return {used_[resource].data() + nodes_[row].offset, static_cast<std::size_t>(width(row))};
  }

  // Summaries by row, kept current: over its minors, amounts of the first resource.

  [[nodiscard]] std::span<const std::int64_t> free_sums() const noexcept { return free_sums_[0]; }
  [[nodiscard]] std::span<const std::int64_t> total_sums() const noexcept { return total_sums_[0]; }
  /// The most of a resource that one minor has free.
  [[nodiscard]] std::span<const std::int64_t> largest_free(std::size_t resource = 0) const {
    return largest_[resource];
  }
  /// Whether one minor has the most free of every resource: largest_free() tells then whether a
  /// request for one device fits.
  [[nodiscard]] bool has_largest_minor(std::uint32_t row) const { return dominant_[row] != 0; }
  /// Minors that the node reported last, healthy or not.
  [[nodiscard]] MinorMask listed(std::uint32_t row) const { return listed_[row]; }
  /// Minors that exist (any total above zero).
  [[nodiscard]] MinorMask present(std::uint32_t row) const { return present_[row]; }
  /// Minors that exist and of which nothing is used.
  [[nodiscard]] MinorMask idle(std::uint32_t row) const { return idle_[row]; }

  // Layout by row.

  [[nodiscard]] std::span<const Place> places(std::uint32_t row) const {
    return {places_.data() + nodes_[row].offset, static_cast<std::size_t>(width(row))};
  }
  /// NUMA nodes ascending by id; empty unless it is known of every listed device where it sits.
  [[nodiscard]] std::span<const NumaGroup> groups(std::uint32_t row) const { return groups_[row]; }
  /// Null for a machine without a partition table.
  [[nodiscard]] const PartitionTable* partitions(std::uint32_t row) const {
    return partitions_[row].get();
  }
  /// True if whole GPUs of the row are to be given as partitions only.
  [[nodiscard]] bool honours_partitions(std::uint32_t row) const { return honours_[row] != 0; }
  void set_partitions(std::uint32_t row, std::shared_ptr<const PartitionTable> partitions,
                      bool honour);

  // Checks for callers that do not know the table; they throw kInvalid, or give the argument back.

  [[nodiscard]] std::size_t checked_resource(std::size_t resource) const;
  [[nodiscard]] std::span<const std::int64_t> checked_amounts(
      std::span<const std::int64_t> each) const;
  void check_request(const Request& request) const;

  /// Minors on which one instance of the request fits.
  [[nodiscard]] MinorMask fitting(std::uint32_t row, std::span<const std::int64_t> each) const;
  /// True if the request fits the row as it is now.
  [[nodiscard]] bool fits(std::uint32_t row, const Request& request) const {
    if (request.count == 0) return true;
    if (largest_[0][row] < request.each[0]) return false;
    return is_simple(request) || std::popcount(fitting(row, request.each)) >= request.count;
  }
  /// True if the request is for one device and its first resource alone: largest_free() decides it.
  [[nodiscard]] static bool is_simple(const Request& request) {
    return request.count == 1 && request.each[0] > 0 &&
           std::all_of(request.each.begin() + 1, request.each.end(),
                       [](std::int64_t amount) { return amount == 0; });
  }

  /// Picks minors by how much is left of the first resource. A request that wants whole devices
  /// gets the lowest fitting minors, whatever the choice; `random` is used by kRandom only. Returns
  /// 0 when the request does not fit.
  [[nodiscard]] MinorMask choose(std::uint32_t row, const Request& request, Choice choice,
                                 SplitMix64* random = nullptr) const;
  /// choose() of kBest for a request that is_simple(), for the rows from `first` on whose mask is
  /// not 0; of the others nothing is written.
  void choose_best(const Request& request, std::uint32_t first, std::span<const std::uint8_t> mask,
                   std::span<MinorMask> chosen) const;
  /// Picks minors as Koordinator's default device allocator does: preferred minors, then score,
  /// then minor; devices on preferred PCIe roots are taken in turn, at least one a root where they
  /// suffice. Returns 0 when fewer than `request.count` qualify.
  [[nodiscard]] MinorMask allocate(std::uint32_t row, const Request& request,
                                   const Constraints& constraints, const Scoring& scoring) const;
  /// Score of a whole row if the request were placed there: all minors taken together.
  [[nodiscard]] std::int64_t score(std::uint32_t row, const Request& request,
                                   const Scoring& scoring) const;
  /// True if two rows have as much in all and as much free, so that they score alike.
  [[nodiscard]] bool scores_alike(std::uint32_t row, std::uint32_t other) const;

  /// Uses `each` on every chosen minor. Throws kInvalid if that is more than is free.
  void take(std::uint32_t row, MinorMask minors, std::span<const std::int64_t> each);
  /// The exact inverse of take(). Throws kInvalid if that is more than is used.
  void give_back(std::uint32_t row, MinorMask minors, std::span<const std::int64_t> each);
  /// Books `each` on a minor, be it more than is free or a minor that the node did not report, as
  /// pods hold that others placed. Throws kInvalid for amounts that take() would not take either.
  void charge(std::uint32_t row, std::int32_t minor, std::span<const std::int64_t> each);
  /// The exact inverse of charge(). Throws kInvalid if that is more than is used.
  void discharge(std::uint32_t row, std::int32_t minor, std::span<const std::int64_t> each);

 private:
  void check_devices(std::span<const Device> devices) const;
  void check_minors(std::uint32_t row, MinorMask minors, std::span<const std::int64_t> each) const;
  void widen(std::uint32_t row, std::int32_t width);
  void group(std::uint32_t row);
  void summarise(std::uint32_t row);
  [[nodiscard]] bool find_dominant(std::uint32_t row) const;
  [[nodiscard]] MinorMask tightest(std::uint32_t row, std::int64_t amount) const;
  [[nodiscard]] MinorMask whole_or(std::uint32_t row, std::int64_t amount, MinorMask found) const;
  [[nodiscard]] int pick(std::uint32_t row, MinorMask rest, Choice choice,
                         SplitMix64* random) const;
  [[nodiscard]] MinorMask candidates(std::uint32_t row, const Request& request,
                                     const Constraints& constraints) const;
  [[nodiscard]] std::int64_t device_score(std::size_t slot, const Request& request,
                                          const Scoring& scoring) const;

  std::vector<std::string> resources_;
  std::vector<Slots> nodes_;
  std::vector<std::vector<std::int64_t>> free_sums_, total_sums_, largest_;  // by resource
  std::vector<std::uint8_t> dominant_;
  std::vector<MinorMask> present_, idle_, listed_;
  std::vector<std::vector<NumaGroup>> groups_;
  std::vector<std::shared_ptr<const PartitionTable>> partitions_;
  std::vector<std::uint8_t> honours_;
  // Indexed by resource, then by Slots::offset + minor.
  std::vector<std::vector<std::int64_t>> total_, used_, free_;
  std::vector<Place> places_;
};

}  // namespace koord::devices
