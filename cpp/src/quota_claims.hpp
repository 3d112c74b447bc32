// SPDX-License-Identifier: Apache-2.0
// Sharing among many siblings again after one of them changed, without looking at all.
//
// Children of one priority and weight get the same in a round but for the unit that rounding leaves
// to some, and of these the first in name order have it. So a child's portion follows from few
// numbers a round: what each of its group got, and the rank below which one got a unit more. Kept
// in order of need, the children whose need a round meets are next to each other; all but few are
// those that the last sharing found, and a cursor stays there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "koord/quota_share.hpp"
#include "quota_ranks.hpp"

namespace koord::quota {

/// A child that asks for more than its floor.
struct Claim {
  std::int64_t need = 0;   ///< what it asks for beyond the floor
  std::uint32_t rank = 0;  ///< its place in name order
  auto operator<=>(const Claim&) const = default;
};

/// The claims of one priority and weight.
class ClaimGroup {
 public:
  ClaimGroup(std::int32_t priority, std::int64_t weight, std::size_t ranks)
      : priority_(priority), weight_(weight), members_(ranks), beyond_(ranks) {}

  [[nodiscard]] std::int32_t priority() const { return priority_; }
  [[nodiscard]] std::int64_t weight() const { return weight_; }

  void insert(Claim claim);
  void erase(Claim claim);
  void replace(Claim before, Claim after);

  /// Begins a sharing: nobody has anything.
  void start();
  /// Claims that are not met yet, and their ranks.
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const RankSet& ranks() const { return steps_.empty() ? members_ : left_; }
  /// One round: each gets `grant`, those of a rank below `extra` one more. Returns what those whose
  /// need it meets hand back.
  Sum give(std::int64_t grant, std::uint32_t extra);
  /// What a claim of the group got.
  [[nodiscard]] std::int64_t granted(Claim claim) const;

 private:
  using Place = std::vector<Claim>::iterator;

  Place place(Claim claim);
  void enter(std::size_t at, Claim claim);
  void leave(std::size_t at, Claim claim);
  void move_cursor(std::int64_t need);
  Sum meet();
  [[nodiscard]] std::int64_t extras(std::uint32_t rank) const;

  std::int32_t priority_;
  std::int64_t weight_;
  std::vector<Claim> claims_;  // in order
  RankSet members_;
  // What the first round of the last sharing met: the claims before the cursor.
  std::size_t cursor_ = 0;
  Sum cursor_needs_ = 0;
  RankSet beyond_;  // ranks of the others
  // Of the sharing.
  std::size_t count_ = 0;
  std::size_t first_ = 0;             // claims before it are met, later ones if left_ lacks them
  std::int64_t each_ = 0;             // what each got so far, extras apart
  std::vector<std::uint32_t> steps_;  // by round: the rank below which there was one more
  RankSet left_;
};

/// All claims of a level in one resource. Serves where few groups are enough.
class Claims {
 public:
  static constexpr std::size_t kMostGroups = 32;
  static constexpr int kMostRounds = 48;

  [[nodiscard]] bool valid() const { return valid_; }
  void clear();
  /// Takes all children; false, and not valid, if their groups are too many.
  bool build(const Siblings& siblings);
  void erase(std::int32_t priority, std::int64_t weight, Claim claim);
  /// False, and no longer valid, if this takes a group too many.
  bool insert(std::int32_t priority, std::int64_t weight, Claim claim);
  void replace(std::int32_t priority, std::int64_t weight, Claim before, Claim after);

  /// Shares out `pool`; false if it takes too many rounds to be worth it.
  bool share(std::int64_t pool);
  [[nodiscard]] std::int64_t granted(std::int32_t priority, std::int64_t weight, Claim claim) const;

 private:
  struct Portion {
    ClaimGroup* group;
    std::int64_t grant;
    Sum remainder;
    std::uint32_t extra;
  };

  [[nodiscard]] std::size_t find(std::int32_t priority, std::int64_t weight) const;
  std::int64_t round(std::int64_t pool, std::span<ClaimGroup> groups);
  void place_extras(std::size_t residual);

  bool valid_ = false;
  std::size_t ranks_ = 0;
  std::vector<ClaimGroup> groups_;  // higher priorities first, then by weight
  std::vector<Portion> portions_;   // of a round
};

}  // namespace koord::quota
