// SPDX-License-Identifier: Apache-2.0
// What a quota tree holds. The parts are in quota_tree.cpp (groups come, change and go),
// quota_account.cpp (requests and use run up the tree) and quota_runtime.cpp (runtimes run down).
#pragma once

#include <array>
#include <bit>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "koord/quota.hpp"
#include "quota_level.hpp"

namespace koord::quota {

inline constexpr GroupId kRoot = 0;

/// One resource of one group. The parent has been told `limited`, `subtree` and `guaranteed`.
struct Account {
  std::array<Sum, kCharges> self{};     ///< charged to this very group
  std::array<Sum, kCharges> subtree{};  ///< with all below it; kRequest is not used
  Sum children_request = 0;             ///< sum of the children's limited requests
  Sum children_guarantee = 0;
  std::int64_t limited = 0;
  std::int64_t guaranteed = 0;
};

struct Group {
  std::string name;
  GroupSpec spec;
  Amounts weight;  ///< the spec's, or max where it gives none
  GroupId parent = kNoGroup;
  std::size_t slot = 0;  ///< among the parent's children
  bool defined = false;  ///< false: only named as a parent so far
  bool builtin = false;  ///< root, system, default: outside the sharing
  std::vector<Account> accounts;
  Level children;
};

/// Calls `body` with each resource in the mask, in column order.
template <class Body>
void for_each_resource(ResourceMask mask, const Body& body) {
  for (; mask != 0; mask &= mask - 1) body(static_cast<ResourceId>(std::countr_zero(mask)));
}

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};

struct QuotaTree::State final : ResourceUser {
  State(Options chosen, std::shared_ptr<ResourceNames> shared);
  ~State() override;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  [[nodiscard]] ResourceMask resources() const override;

  Options options;
  std::shared_ptr<ResourceNames> names;
  Amounts total;
  std::vector<Group> groups;
  std::vector<GroupId> free_ids;
  std::unordered_map<std::string, GroupId, StringHash, std::equal_to<>> by_name;
  std::array<std::uint32_t, kMaxResources> max_count{};  ///< groups whose max names a resource
  ResourceMask root_keys = 0;
  WaterFill fill;

  // Groups.
  GroupId create(std::string_view name);
  GroupId create_builtin(std::string_view name);
  GroupId intern(std::string_view name);
  void discard_if_unused(GroupId id);
  void check_id(GroupId id) const;
  void check_spec(std::string_view name, const GroupSpec& spec) const;
  void attach(GroupId id, GroupId parent);
  void detach(GroupId id);
  void respec(GroupId id, GroupSpec spec);
  void count_max_keys(ResourceMask keys, bool gone);
  [[nodiscard]] bool lends(const Group& group) const;
  [[nodiscard]] bool detached(GroupId id) const;
  [[nodiscard]] std::vector<GroupId> children_by_name(GroupId id) const;

  // Accounts.
  Account& account(GroupId id, ResourceId resource);
  [[nodiscard]] Row row(GroupId id, ResourceId resource) const;
  void count_own_use(GroupId id, ResourceId resource, int sign);
  void tell_parent(GroupId id, ResourceId resource, int sign);
  void add_use(GroupId id, ResourceId resource, Charge kind, Sum delta);
  void settle_request(GroupId id, ResourceId resource);
  void settle_guarantee(GroupId id, ResourceId resource);
  [[nodiscard]] Sum child_request(const Group& group, ResourceId resource) const;
  [[nodiscard]] Sum request(const Group& group, ResourceId resource) const;
  [[nodiscard]] std::int64_t limited_request(const Group& group, ResourceId resource) const;
  [[nodiscard]] Sum allocated(const Group& group, ResourceId resource) const;
  [[nodiscard]] Sum figure(GroupId id, ResourceId resource, Figure figure) const;

  // Runtimes.
  [[nodiscard]] ResourceMask shared_keys(GroupId parent) const;
  [[nodiscard]] std::optional<std::int64_t> root_total(ResourceId resource) const;
  [[nodiscard]] std::optional<std::int64_t> settled(GroupId id, ResourceId resource);
  void settle_level(GroupId parent);
  void settle_path(GroupId id);
  [[nodiscard]] Amounts runtime_of_settled(GroupId id);
  [[nodiscard]] Amounts limit(GroupId id);
  [[nodiscard]] Admission check(GroupId id, const Amounts& request, const Amounts& limit,
                                Charge used, Verdict failure);
};

}  // namespace koord::quota
