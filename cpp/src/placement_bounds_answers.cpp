// SPDX-License-Identifier: Apache-2.0
// RowBounds takes answers by row: which places may be chosen, and what ratings add to limits.
#include <algorithm>
#include <array>

#include "koord/placement_bounds.hpp"
#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

// Whether a higher raw score is the better one.
bool rises(Normalization kind) {
  return kind != Normalization::kReversed && kind != Normalization::kSpread;
}

}  // namespace

void RowBounds::limit_answers(const Rooms& rooms, const RowAnswers& answers) {
  allowed_.assign(rows_, 1);
  allow_where(open_places_, allowed_.data());
  allow_masks(answers);
  join_bits(answers);
  const bool rated = !answers.ratings.empty() || answers.reserved.bounds != nullptr;
  if (rated) limit_ratings(rooms, answers);
  limit_preferences(rooms, answers);
  coarse_.assign(blocks_, 1);
  // In the order given the bits of a block are at hand.
  for (std::size_t block = 0; !by_use_ && block < blocks_; ++block) refine(block);
}

// Scores that are normalised among the places that may be chosen, of all of which they are given.
// Reservations before ratings: these are normalised among the rows that those let pass.
void RowBounds::limit_ratings(const Rooms& rooms, const RowAnswers& answers) {
  // What is not normalised is bounded by rows without room as well: that is no less.
  if (std::ranges::any_of(answers.ratings, &RowRating::normalised)) {
    for (std::size_t at = 0; at < rows_; at += kPart) {
      allow_room(rooms, in_a_row(at, std::min(kPart, rows_ - at)));
    }
  }
  for (std::size_t block = 0; block < blocks_; ++block) allow_bits(block);
  take_ratings(answers);
  if (answers.reserved.bounds != nullptr) limit_reserved(rooms, answers);
  for (const RowRating& each : ratings_) limit_rating(each);
}

// Masks are by row: joined as such first, where rows have places of their own.
void RowBounds::allow_masks(const RowAnswers& answers) {
  if (answers.masks.empty()) return;
  if (by_use_) allowed_rows_.assign(rows_, 1);
  std::vector<std::uint8_t>& joined = by_use_ ? allowed_rows_ : allowed_;
  for (const std::span<const std::uint8_t> mask : answers.masks) {
    allow_where(mask.first(rows_), joined.data());
  }
  for (std::size_t place = 0; by_use_ && place < rows_; ++place) {
    allowed_[place] = static_cast<std::uint8_t>(allowed_[place] & allowed_rows_[order_[place]]);
  }
}

// Of some places, at most kPart, leaves those with room.
void RowBounds::allow_room(const Rooms& rooms, RowSet part) {
  std::array<std::int64_t, kPart> left;
  const std::span<std::int64_t> found{left.data(), part.count};
  for (const auto& [filter, room] : rooms.checks()) {
    room.left(kept(), part, found);
    allow_where(std::span<const std::int64_t>(found), allowed_.data() + part.first);
  }
}

// The ratings by place.
void RowBounds::take_ratings(const RowAnswers& answers) {
  ratings_ = answers.ratings;
  if (!by_use_) return;
  raw_.resize(std::max(raw_.size(), ratings_.size()));
  for (std::size_t i = 0; i < ratings_.size(); ++i) {
    raw_[i].resize(rows_);
    for (std::size_t place = 0; place < rows_; ++place) {
      raw_[i][place] = ratings_[i].raw[order_[place]];
    }
    ratings_[i].raw = raw_[i];
  }
}

// Adds to the limits of blocks what their best rows get by a rating.
void RowBounds::limit_rating(const RowRating& rating) {
  const Normalization kind = rating.rule.normalization;
  const auto [least, most] = bound_rating(rating);
  rated_.push_back({rating, least, most});
  normalising(kind, least, most, [&](const auto& score) {
    for (std::size_t block = 0; block < blocks_; ++block) {
      // Where all are below 0, which do not count, they get nothing.
      if (limits_[block] == kLowest || ends_[2 * block] > ends_[2 * block + 1]) continue;
      limits_[block] += rating.rule.weight * score(ends_[2 * block + (rises(kind) ? 1U : 0U)]);
    }
  });
}

// The least and the most of a rating among places that may be chosen, by block and in all.
std::pair<std::int64_t, std::int64_t> RowBounds::bound_rating(const RowRating& rating) {
  const bool all_count = rating.rule.normalization != Normalization::kSpread;
  ends_.assign(2 * blocks_, 0);
  Ends all;
  for (std::size_t block = 0; block < blocks_; ++block) {
    const std::size_t from = block * kBlock;
    const Ends its =
        ends_of(rating.raw.subspan(from, size_of(block)), allowed_.data() + from, all_count);
    ends_[2 * block] = its.least;
    ends_[2 * block + 1] = its.most;
    all.include(its);
  }
  return {all.least, all.most};
}

}  // namespace koord::placement
