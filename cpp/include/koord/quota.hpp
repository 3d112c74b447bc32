// SPDX-License-Identifier: Apache-2.0
// The elastic quota tree: who may use how much now.
//
// Each group has a minimum that is its own and a maximum it may grow to; what others do not ask for
// is lent. A tree keeps requests and use of every group up to date by deltas, and the runtime
// quotas follow lazily: reading one settles the levels on the way from the root, and of those only
// the resources whose inputs changed. What is read is always the settled state of the whole tree,
// whatever was read or changed before.
//
// Amounts are integers: milli-units of cpu, whole units of all else. Not thread-safe; ids are valid
// until their group is removed. Functions throw koord::Exception: kNotFound for an unknown group,
// kInvalid for what the declaration says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "koord/error.hpp"
#include "koord/quota_share.hpp"

namespace koord::quota {

inline constexpr std::string_view kRootName = "koordinator-root-quota";
inline constexpr std::string_view kSystemName = "koordinator-system-quota";
inline constexpr std::string_view kDefaultName = "koordinator-default-quota";

using ResourceId = std::uint32_t;
using ResourceMask = std::uint64_t;
inline constexpr ResourceId kMaxResources = 64;

/// Who keeps amounts by column.
class KOORD_API ResourceUser {
 public:
  virtual ~ResourceUser() = default;
  [[nodiscard]] virtual ResourceMask resources() const = 0;  ///< the columns that it needs
};

/// Resource names and their column numbers; shared by the trees of a forest.
class KOORD_API ResourceNames {
 public:
  ResourceNames() = default;
  ResourceNames(const ResourceNames&) = delete;
  ResourceNames& operator=(const ResourceNames&) = delete;

  /// The column of a name, a new one if it is new; kInvalid beyond kMaxResources names.
  ResourceId intern(std::string_view name);
  [[nodiscard]] ResourceId find(std::string_view name) const;  ///< size() if unknown
  [[nodiscard]] const std::string& name(ResourceId id) const { return names_[id]; }
  /// How many columns there are, those without a name included.
  [[nodiscard]] ResourceId size() const { return static_cast<ResourceId>(names_.size()); }
  [[nodiscard]] bool full() const { return size() == kMaxResources && free_ == 0; }
  /// Takes their names from the columns that no tree needs: no total, min, max or weight names
  /// them, and nothing is charged in them. They are given out again, so that column numbers and
  /// Amounts that only the caller has mean something else afterwards. Returns how many.
  std::size_t reclaim();

 private:
  friend class QuotaTree;
  std::vector<std::string> names_;
  ResourceMask free_ = 0;
  std::vector<const ResourceUser*> users_;
};

/// An amount per resource; an absent one is not the same as zero.
class KOORD_API Amounts {
 public:
  void set(ResourceId id, std::int64_t amount);
  [[nodiscard]] bool has(ResourceId id) const { return (keys_ >> id & 1U) != 0; }
  /// The amount, 0 where absent.
  [[nodiscard]] std::int64_t get(ResourceId id) const { return has(id) ? values_[id] : 0; }
  [[nodiscard]] ResourceMask keys() const { return keys_; }
  bool operator==(const Amounts& other) const;

 private:
  ResourceMask keys_ = 0;
  std::vector<std::int64_t> values_;
};

/// What a user writes down about a group.
struct GroupSpec {
  std::string parent{kRootName};
  Amounts min;
  Amounts max;
  Amounts weight;             ///< shares of what is idle; empty or all zero: max
  bool is_parent = false;     ///< meant to have children; changes no figure
  bool allow_lent = true;     ///< others may use the part of min that is not asked for
  bool scale_min = true;      ///< min shrinks when the parent cannot cover its children's
  std::int32_t priority = 0;  ///< idle quota goes to higher siblings first
};

struct Options {
  bool builtin_groups = true;    ///< system and default group: the default tree only
  bool runtime_quota = true;     ///< false: admission looks at max instead of runtime
  bool check_parents = false;    ///< admission looks at all ancestors too
  bool guarantee_usage = false;  ///< what is in use is not taken back; turns lending off
};

enum class Charge : std::uint8_t { kRequest, kUsed, kNonPreemptibleRequest, kNonPreemptibleUsed };
inline constexpr std::size_t kCharges = 4;

/// What can be read of a group; see docs/kernels/quota.md for the definitions.
enum class Figure : std::uint8_t {
  kRequest,
  kChildRequest,
  kLimitedRequest,
  kUsed,
  kNonPreemptibleRequest,
  kNonPreemptibleUsed,
  kSelfRequest,
  kSelfUsed,
  kSelfNonPreemptibleRequest,
  kSelfNonPreemptibleUsed,
  kAllocated,
  kGuaranteed,
};

using GroupId = std::uint32_t;
inline constexpr GroupId kNoGroup = ~GroupId{0};

enum class Verdict : std::uint8_t {
  kAdmitted,
  kOverRuntime,        ///< use and request exceed the group's limit
  kOverMin,            ///< a non-preemptible pod must fit into min
  kOverParentRuntime,  ///< an ancestor's limit is exceeded
  kDetached,           ///< an ancestor is not defined, so there is no runtime
};

struct Admission {
  Verdict verdict = Verdict::kAdmitted;
  GroupId group = kNoGroup;   ///< the group whose limit is exceeded
  ResourceMask exceeded = 0;  ///< in which resources
  Amounts limit;              ///< the limit held against
  Amounts used;               ///< the use it was held against, before the pod
  Amounts request;            ///< the pod's request in the group's resources
};

/// One resource on one level, as it was shared out.
struct Explanation {
  GroupId parent = kNoGroup;
  std::int64_t total = 0;
  std::int64_t idle = 0;
  std::vector<GroupId> children;  ///< the columns below follow this order
  std::vector<std::int64_t> weight, request, floor, runtime;
  std::vector<Round> rounds;
};

class KOORD_API QuotaTree {
 public:
  explicit QuotaTree(Options options = {}, std::shared_ptr<ResourceNames> names = nullptr);
  ~QuotaTree();
  QuotaTree(QuotaTree&&) noexcept;
  QuotaTree& operator=(QuotaTree&&) noexcept;

  [[nodiscard]] ResourceNames& resources() noexcept;
  [[nodiscard]] const Options& options() const noexcept;

  /// The amount the tree shares out, use of the system and default groups included.
  void set_total(Amounts total);
  [[nodiscard]] const Amounts& total() const noexcept;

  /// Adds a group. The parent may come later: until then the group is detached and has no runtime.
  /// kInvalid: the name is taken, an amount is negative, or the parent is below the group.
  void add(std::string_view name, GroupSpec spec);
  /// Changes everything about a group; a new parent moves it with all below it.
  void update(std::string_view name, GroupSpec spec);
  /// Removes a group and what was charged to it; its children are detached until it is back.
  void remove(std::string_view name);

  [[nodiscard]] GroupId find(std::string_view name) const noexcept;  ///< kNoGroup if unknown
  [[nodiscard]] GroupId at(std::string_view name) const;             ///< throws if unknown
  [[nodiscard]] const std::string& name(GroupId id) const;
  [[nodiscard]] const GroupSpec& spec(GroupId id) const;
  /// Ids of all groups, depth first from the root, siblings in name order, detached ones last.
  [[nodiscard]] std::vector<GroupId> groups() const;

  /// Adds to what is charged to the group itself; it never falls below zero. Resources that the
  /// group's max does not name are kept but count nowhere. Cost: the path to the root.
  void charge(GroupId id, Charge kind, const Amounts& delta);
  [[nodiscard]] Amounts figure(GroupId id, Figure figure) const;
  /// What the group may use now, in the resources its parent shares out; empty while detached.
  [[nodiscard]] Amounts runtime(GroupId id);
  /// The minimum that counts: less than the spec's while the parent cannot cover its children's.
  [[nodiscard]] Amounts scaled_min(GroupId id);

  /// Whether a pod's request fits now.
  [[nodiscard]] Admission admit(GroupId id, const Amounts& request, bool non_preemptible = false);
  /// How the level a group is on was shared out. kInvalid for a resource its parent does not share,
  /// a detached or a built-in group.
  [[nodiscard]] Explanation explain(GroupId id, ResourceId resource);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Trees by id. The default tree "" has the cluster's total less the totals of the other trees.
class KOORD_API Forest {
 public:
  explicit Forest(Options options = {});
  [[nodiscard]] ResourceNames& resources() noexcept { return *names_; }
  /// The tree of an id, a new one if it is new. It may outlive the forest.
  std::shared_ptr<QuotaTree> tree(std::string_view id);
  [[nodiscard]] std::vector<std::string> ids() const;

  void set_cluster_total(Amounts total);
  /// The total of a tree other than the default one, taken from the default tree's if `deducted`.
  void set_tree_total(std::string_view id, Amounts total, bool deducted = true);
  /// Drops a tree other than the default one and gives its total back.
  void remove_tree(std::string_view id);

 private:
  void refresh_default_total();
  Options options_;
  std::shared_ptr<ResourceNames> names_;
  Amounts cluster_total_;
  std::map<std::string, std::shared_ptr<QuotaTree>, std::less<>> trees_;
  std::map<std::string, Amounts, std::less<>> deducted_;
};

}  // namespace koord::quota
