// SPDX-License-Identifier: Apache-2.0
// The children of one parent: one column a resource, each shared out when it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "koord/quota.hpp"
#include "quota_claims.hpp"

namespace koord::quota {

/// What the columns of a level have in common; one entry a child.
struct Roster {
  std::vector<GroupId> group;
  std::vector<std::uint8_t> lends;
  std::vector<std::uint8_t> scales;
  std::vector<std::int32_t> priority;
  std::vector<std::uint32_t> rank;  ///< place in name order; empty while it must be found again
};

/// One child's figures in one resource.
struct Row {
  std::int64_t weight = 0;
  std::int64_t request = 0;
  std::int64_t min = 0;
  std::int64_t guarantee = 0;
};

/// One resource of a level. Sums over the children are kept, so that a level where everybody gets
/// what they ask for, or nothing above the floor, costs nothing but the change.
class Column {
 public:
  /// `roster` already has the new child.
  void append(const Row& row, const Roster& roster);
  /// The last child takes the place of the removed one; `roster` still has both.
  void erase(std::size_t slot, const Roster& roster);
  void set(std::size_t slot, const Row& row, const Roster& roster);
  /// Takes the row out of the sums and puts it back after a change of the roster at this slot.
  void retract(std::size_t slot, const Roster& roster);
  void restore(std::size_t slot, const Roster& roster) { count(slot, roster, 1); }

  /// Shares out `total`; without one, 0 is shared out and no minimum shrinks.
  void settle(std::optional<std::int64_t> total, const Roster& roster, WaterFill& fill);
  /// The child's runtime after settle().
  [[nodiscard]] std::int64_t runtime(std::size_t slot, const Roster& roster) const;
  [[nodiscard]] std::int64_t scaled_min_of(std::size_t slot, std::optional<std::int64_t> total,
                                           const Roster& roster) const;
  /// Shares the settled total out once more, keeping what each round did.
  void explain(const Roster& roster, WaterFill& fill, Explanation& into) const;

 private:
  enum class Outcome : std::uint8_t { kUnsettled, kFloors, kRequests, kShared, kClaims };

  void count(std::size_t slot, const Roster& roster, int sign);
  [[nodiscard]] bool short_of_min(std::optional<std::int64_t> total) const;
  [[nodiscard]] std::vector<std::int64_t> shrunk_floors(const Roster& roster) const;
  [[nodiscard]] Siblings siblings(const Roster& roster,
                                  const std::vector<std::int64_t>& floor) const;
  void write(std::size_t slot, const Row& row);
  void forget_claims();
  bool share_claims(std::int64_t pool, const Roster& roster);
  [[nodiscard]] std::optional<Claim> claim(std::size_t slot, const Roster& roster) const;
  void move_claim(std::size_t slot, std::optional<Claim> before, std::int64_t weight,
                  const Roster& roster);

  std::vector<std::int64_t> weight_, request_, min_, guarantee_;
  std::vector<std::int64_t> floor_;  ///< max(min, guarantee) while no minimum shrinks
  Sum base_ = 0;                     ///< what all hold before anything is handed out
  Sum want_ = 0;                     ///< what those with a weight ask for beyond that
  Sum scalable_min_ = 0;             ///< sum of the minimums that may shrink
  Sum fixed_min_ = 0;                ///< and of those that may not
  Outcome outcome_ = Outcome::kUnsettled;
  std::optional<std::int64_t> total_;
  std::vector<std::int64_t> runtime_;  ///< with kShared
  Claims claims_;
  int contended_ = 0;  ///< times it was shared out in full since a child came or went
};

/// All columns of a level.
class Level {
 public:
  [[nodiscard]] const Roster& roster() const { return roster_; }
  [[nodiscard]] bool empty() const { return roster_.group.empty(); }
  std::size_t append(GroupId group, const GroupSpec& spec, bool lends);
  /// Removes a child; returns the group that now has its slot, kNoGroup if it was the last.
  GroupId erase(std::size_t slot);
  void set_spec(std::size_t slot, const GroupSpec& spec, bool lends);
  Column& column(ResourceId resource);
  /// Finds the name order again if children came or went.
  template <class NameOf>
  void rank(const NameOf& name_of);

 private:
  Roster roster_;
  std::vector<Column> columns_;
};

std::vector<std::uint32_t> ranks_of(const std::vector<const std::string*>& names);

template <class NameOf>
void Level::rank(const NameOf& name_of) {
  if (roster_.rank.size() == roster_.group.size()) return;
  std::vector<const std::string*> names;
  names.reserve(roster_.group.size());
  for (const GroupId group : roster_.group) names.push_back(&name_of(group));
  roster_.rank = ranks_of(names);
}

}  // namespace koord::quota
