// SPDX-License-Identifier: Apache-2.0
// RowBounds limits blocks: the most that a row of each could get for its columns.
#include <algorithm>
#include <array>

#include "koord/placement_bounds.hpp"
#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

constexpr std::int64_t kMostScore = 100;

}  // namespace

void RowBounds::limit_blocks(const Rooms& rooms, std::span<const std::int64_t> weights) {
  for (std::size_t at = 0; at < blocks_; at += kPart) {
    limit_part(rooms, weights, in_a_row(at, std::min(kPart, blocks_ - at)));
  }
}

// Of some blocks, at most kPart.
void RowBounds::limit_part(const Rooms& rooms, std::span<const std::int64_t> weights, RowSet part) {
  const auto at = static_cast<std::size_t>(part.first);
  std::array<std::int64_t, kPart> left;
  std::array<std::int64_t, kPart> answers;
  const std::span<std::int64_t> limits = std::span(limits_).subspan(at, part.count);
  left_by_checks(rooms, free(), part, {left.data(), part.count});
  std::ranges::fill(limits, 0);
  for (std::size_t score = 0; score < weights.size(); ++score) {
    limit_score(rooms.scores()[score].second, part, {answers.data(), part.count});
    for (std::size_t i = 0; i < part.count; ++i) limits[i] += weights[score] * answers[i];
  }
  for (std::size_t i = 0; i < part.count; ++i) {
    if (left[i] < 0 || open_rows_[at + i] == 0) limits[i] = kLowest;
  }
}

void RowBounds::limit_score(const RoomScore& score, RowSet part,
                            std::span<std::int64_t> most) const {
  switch (score.strategy()) {
    case Strategy::kLeast:
      score.score(this->most(), part, most);
      break;
    case Strategy::kMost:
      score.score(least(), part, most);
      break;
    case Strategy::kRatio: {
      std::int64_t highest = 0;
      for (const Corner& corner : score.corners()) highest = std::max(highest, corner.score);
      std::ranges::fill(most, highest);
      return;
    }
    case Strategy::kBalanced:
      score.bound_balanced(least(), this->most(), part, most);
      break;
  }
  limit_mixed(score, part, most);
}

// A resource that some rows of a block have none of counts for the others alone, so that what
// bounds both tells nothing: the limit is the highest score there is.
void RowBounds::limit_mixed(const RoomScore& score, RowSet part,
                            std::span<std::int64_t> most) const {
  for (const Counted& each : score.counted()) {
    const std::size_t from = each.resource * blocks_ + static_cast<std::size_t>(part.first);
    for (std::size_t i = 0; i < part.count; ++i) {
      const bool mixed = least_offered_[from + i] <= 0 && most_offered_[from + i] > 0;
      most[i] = mixed ? kMostScore : most[i];
    }
  }
}

void RowBounds::left_by_checks(const Rooms& rooms, const Columns& columns, RowSet part,
                               std::span<std::int64_t> left) {
  std::array<std::int64_t, kPart> answers;
  std::ranges::fill(left, 0);
  for (const auto& [filter, room] : rooms.checks()) {
    room.left(columns, part, {answers.data(), part.count});
    for (std::size_t i = 0; i < part.count; ++i) left[i] |= answers[i];
  }
}

}  // namespace koord::placement
