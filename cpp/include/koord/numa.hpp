// SPDX-License-Identifier: Apache-2.0
// NUMA alignment as Koordinator's scheduler does it: what each zone (NUMA node) has left, how a
// request is spread over zones, which sets of zones can serve it (hints), and how the hints of
// several resources become one affinity under a topology policy.
//
// Zones are addressed by position in a ZoneSet, which is ascending by id; a Mask is a set of
// positions. Amounts are 64-bit integers in base units, CPU in milli. Nothing here keeps state and
// every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"

namespace koord::numa {

using Mask = std::uint64_t;

inline constexpr std::size_t kMaxZones = 64;
inline constexpr int kMaxZoneId = 1023;  ///< the most NUMA nodes a Linux kernel can be built for
/// Hints enumerate every set of zones; beyond this many zones that is no longer a sane thing to do.
inline constexpr std::size_t kMaxEnumeratedZones = 16;

/// The zones of one machine: 1 to 64 distinct ids, sparse ones allowed.
class KOORD_API ZoneSet {
 public:
  /// Takes ids in any order. kInvalid for none, too many, duplicate or out-of-range ids.
  static Result<ZoneSet> from_ids(std::vector<int> ids);

  [[nodiscard]] std::size_t size() const noexcept { return ids_.size(); }
  [[nodiscard]] const std::vector<int>& ids() const noexcept { return ids_; }
  [[nodiscard]] Mask all() const noexcept;
  /// The mask of some ids; kNotFound for an id the machine does not have.
  [[nodiscard]] Result<Mask> mask_of(std::span<const int> ids) const;
  /// The ids of a mask, ascending; positions beyond size() are ignored.
  [[nodiscard]] std::vector<int> ids_of(Mask mask) const;
  /// The mask in binary by zone id, as messages show it: zone 0 is "01", zones 0 and 2 "0101".
  [[nodiscard]] std::string text(Mask mask) const;

 private:
  explicit ZoneSet(std::vector<int> ids) : ids_(std::move(ids)) {}
  std::vector<int> ids_;
};

/// All non-empty masks over `zones` positions: by size, then lexicographic by position
/// (0, 1, 2, 01, 02, 12, 012). kInvalid above kMaxEnumeratedZones.
KOORD_API Result<std::vector<Mask>> enumerate_masks(std::size_t zones);

// --- amounts -------------------------------------------------------------------------------------

/// What a resource is, where the rules tell resources apart.
enum class Kind : std::uint8_t {
  kCpu,     ///< in milli; split and bound by its own rules
  kNative,  ///< memory, ephemeral storage: always scored
  kScalar,  ///< extended resources and hugepages: scored only if the pod asks for them
};

/// One resource on every zone.
struct Column {
  Kind kind = Kind::kNative;
  Mask listed = 0;                   ///< zones that name the resource, be it with zero
  std::vector<std::int64_t> amount;  ///< by position; 0 where not listed
};

/// What is in use, column by column as `total` in available().
struct Usage {
  Mask tracked = 0;                      ///< zones with an allocation on record
  std::vector<Column> used;              ///< sums of the pods' zone resources, >= 0
  std::vector<Column> reusable;          ///< of that, what the pod at hand may take over, >= 0
  std::vector<std::int64_t> bound_cpus;  ///< CPUs bound to pods, per zone
  double cpu_ratio = 1.0;                ///< CPU amplification; at most 1 means none
};

/// What every zone has left: total - (used - reusable), both clamped at zero; bound CPUs count
/// cpu_ratio times where amplified. A resource in use that the zone does not list appears as zero.
KOORD_API Result<std::vector<Column>> available(std::span<const Column> total, const Usage& usage);

/// One requested resource.
struct Demand {
  std::size_t column = 0;   ///< which column of the tables it is about
  std::int64_t amount = 0;  ///< to be spread over zones, >= 0; not amplified when CPUs are bound
  std::int64_t scored = 0;  ///< as scoring sees it, amplified
};

/// The whole CPUs a pod wants bound, and what each zone can give under its bind policy.
struct CpuSupply {
  std::int64_t needed = 0;
  std::vector<std::int64_t> bindable;  ///< free CPUs per zone; under a required policy only those
                                       ///< that can honour it
  bool required = false;               ///< the bind policy is a must
  bool full_cores = false;             ///< the policy is FullPCPUs
  std::int64_t threads_per_core = 1;
  /// The last word on CPU counts per zone that fit otherwise; empty means yes. Counts decide alone
  /// unless the caller prefers single threads of cores under required FullPCPUs. An empty span
  /// stands for "anywhere on the machine".
  std::function<bool(std::span<const std::int64_t>)> accepts;
};

/// How a request was spread.
struct Distribution {
  std::vector<std::int64_t> taken;        ///< demands x zones, row-major
  std::vector<std::size_t> insufficient;  ///< indexes of demands that did not fit exactly
};

/// Spreads the demands over the zones of `mask`: zones by ascending availability, ties by id, each
/// giving at most an even share of what remains. Demands no zone lists are ignored. `cpus` is null
/// unless CPUs are bound; under a required policy a zone's CPU is capped by what it can bind.
KOORD_API Result<Distribution> distribute(std::span<const Column> available,
                                          std::span<const Demand> demands, Mask mask,
                                          std::size_t zones, const CpuSupply* cpus);

// --- scores --------------------------------------------------------------------------------------

enum class Strategy : std::uint8_t { kLeastAllocated, kMostAllocated };

/// Weights by column; 0 leaves a resource out.
struct Scorer {
  Strategy strategy = Strategy::kLeastAllocated;
  std::vector<std::int64_t> weights;
};

/// One resource as the scorer sees it: in use, there at all, and asked for by the pod.
struct ScoreTerm {
  Kind kind = Kind::kNative;
  std::int64_t requested = 0;
  std::int64_t allocatable = 0;
  std::int64_t pod = 0;
};

/// 0 to 100, truncated: the weighted mean over resources with something allocatable. kInvalid for a
/// negative weight or a number of weights other than that of terms.
KOORD_API Result<std::int64_t> score(const Scorer& scorer, std::span<const ScoreTerm> terms);

// --- hints ---------------------------------------------------------------------------------------

/// A set of zones that could serve a resource; no affinity means any will do.
struct Hint {
  std::optional<Mask> affinity;
  bool preferred = false;
  bool unsatisfied = false;
  std::int64_t score = 0;
  bool operator==(const Hint&) const = default;
};
using HintList = std::vector<Hint>;

/// One way to allocate: from a reservation, or from the node. Tried in order.
struct Pool {
  std::vector<Column> available;
  std::optional<CpuSupply> cpus;  ///< set if the pod's CPUs are bound
};

/// What generate_hints() works from. `available` is what scores and lacking zones are judged by;
/// the pools may see other amounts of the same columns.
struct HintQuery {
  std::size_t zones = 0;
  std::vector<Column> total;
  std::vector<Column> available;
  std::vector<Demand> demands;
  std::vector<Pool> pools;
  std::optional<Scorer> scorer;
  bool prefer_every_size = false;  ///< Restricted prefers hints of any size, others the smallest
};

/// One list a demand, in the order of enumerate_masks(): the masks on which all demands fit some
/// pool and no zone lacks the resource. No list where no zone lists the resource (no preference);
/// an empty one where nothing fits.
KOORD_API Result<std::vector<std::optional<HintList>>> generate_hints(const HintQuery& query);

// --- merge and policies --------------------------------------------------------------------------

enum class Policy : std::uint8_t { kNone, kBestEffort, kRestricted, kSingleNumaNode };
enum class Exclusive : std::uint8_t { kNone, kPreferred, kRequired };
enum class Status : std::uint8_t { kIdle, kShared, kSingle };

/// The machine as merging sees it.
struct Machine {
  ZoneSet zones;
  Exclusive exclusive = Exclusive::kNone;
  std::vector<Status> statuses;  ///< by position
};

/// The best of all combinations of one hint a list: preferred before not, then narrower, then the
/// lower mask or the higher score, whichever came last. Exactly what trying every combination in
/// lexicographic order gives, at the cost of the distinct intersections.
KOORD_API Result<Hint> merge(const Machine& machine, std::span<const std::span<const Hint>> lists);

/// The hints of one resource; null means no preference, empty that nothing fits. Not owned.
struct ResourceHints {
  std::string resource;
  const HintList* hints = nullptr;
};

/// What one hint provider says: its resources, or why it failed.
struct Provider {
  std::string failure;  ///< empty if it did not fail
  std::vector<ResourceHints> resources;
};

struct Decision {
  Hint hint;
  bool admitted = false;
  std::vector<std::string> reasons;
};

/// Flattens, merges and judges the providers' hints. Resources of a provider are taken in order of
/// their names.
KOORD_API Result<Decision> admit(Policy policy, const Machine& machine,
                                 std::span<const Provider> providers);

/// Which topology policy names are understood on a node.
enum class Naming : std::uint8_t {
  kEvery,       ///< all names that kubelet and NodeResourceTopology use
  kCompatible,  ///< only BestEffort, Restricted and SingleNUMANodePodLevel; the rest mean none
};

/// Koordinator's own names, as labels and pod annotations carry them; kInvalid for another.
KOORD_API Result<Policy> parse_policy(std::string_view name);
/// The first reported name that means a policy. kInvalid for an unknown name, unless compatible.
KOORD_API Result<Policy> reported_policy(std::span<const std::string> names, Naming naming);
/// `idle`, `shared` or `single`, from how many pods hold CPUs on one zone only and on several.
KOORD_API Status zone_status(std::size_t single_pods, std::size_t shared_pods) noexcept;

struct Effective {
  Policy policy = Policy::kNone;
  Exclusive exclusive = Exclusive::kNone;
  std::string conflict;  ///< why the node cannot take the pod; empty if it can
};

/// The pod's policy if it has one, else the node's; they must not contradict each other. A pod that
/// sets a policy without an exclusive rule gets Required.
KOORD_API Effective effective_policy(Policy node, Policy pod, Exclusive pod_exclusive);

}  // namespace koord::numa
