// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>

#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

constexpr std::size_t kScored = 2;  // columns of nonzero
constexpr std::int64_t kMostScore = 100;
// Rows are ordered anew once one in so many has changed, and in the other way where searches have
// looked at more than one in so many.
constexpr std::size_t kChanged = 8;
constexpr std::size_t kLooked = 4;

void check_sizes(const Columns& columns, std::span<const std::uint8_t> open,
                 std::span<const std::int64_t> ranks) {
  if (ranks.size() <= columns.stride && ranks.size() <= open.size()) return;
  throw Exception(invalid("ranks", std::to_string(ranks.size()), "at most one a row"));
}

void check_answers(const RowAnswers& answers, std::size_t rows) {
  for (const std::span<const std::uint8_t> mask : answers.masks) {
    if (mask.size() < rows) throw Exception(invalid("mask", std::to_string(mask.size()), "by row"));
  }
  for (const RowRating& each : answers.ratings) {
    if (each.raw.size() < rows) {
      throw Exception(invalid("raw scores", std::to_string(each.raw.size()), "by row"));
    }
    if (each.rule.weight < 0 || each.rule.weight > 1'000'000) {
      throw Exception(invalid("weight", std::to_string(each.rule.weight), "0 to 1000000"));
    }
    const bool plain = each.rule.normalization == Normalization::kNone;
    const std::int64_t most = std::int64_t{1} << (plain ? 36 : 56);
    if (all_within(each.raw.first(rows), most)) continue;
    for (const std::int64_t raw : each.raw.first(rows)) {
      if (raw >= -most && raw <= most) continue;
      throw Exception(
          invalid("raw score", std::to_string(raw), plain ? "within 2^36" : "within 2^56"));
    }
  }
}

// Whether a higher raw score is the better one.
bool rises(Normalization kind) {
  return kind != Normalization::kReversed && kind != Normalization::kSpread;
}

// What all rows of a part come to: below 0 where a check refuses; the sums of scores.
struct Totals {
  std::array<std::int64_t, kPart> left, sums;

  void rate(const Rooms& rooms, std::span<const std::int64_t> weights, const Columns& columns,
            RowSet part) {
    std::array<std::int64_t, kPart> answers;
    const std::span<std::int64_t> found{answers.data(), part.count};
    std::fill_n(left.begin(), part.count, 0);
    std::fill_n(sums.begin(), part.count, 0);
    for (const auto& [filter, room] : rooms.checks()) {
      room.left(columns, part, found);
      for (std::size_t i = 0; i < part.count; ++i) left[i] |= answers[i];
    }
    for (std::size_t score = 0; score < weights.size(); ++score) {
      rooms.scores()[score].second.score(columns, part, found);
      for (std::size_t i = 0; i < part.count; ++i) sums[i] += weights[score] * answers[i];
    }
  }
};

}  // namespace

void RowBounds::update(const Columns& columns, RowSet rows, std::span<const std::uint8_t> open,
                       std::span<const std::int64_t> ranks) {
  check_sizes(columns, open, ranks);
  const bool others =
      columns.stride != stride_ || columns.resources != resources_ || ranks.size() != rows_;
  if (others && (rows.index != nullptr || rows.first > 0 || rows.count < ranks.size())) {
    throw Exception(invalid("rows", std::to_string(rows.count), "all, of other columns"));
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (rows[i] >= 0 && static_cast<std::size_t>(rows[i]) < ranks.size()) continue;
    throw Exception(not_found("row", std::to_string(rows[i]), "a row with a rank"));
  }
  if (others) resize(columns, ranks.size());
  std::size_t last = blocks_;
  std::vector<std::uint8_t> due;
  if (rows.count > 1) due.resize(blocks_);
  for (std::size_t i = 0; i < rows.count; ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    copy_row(row, columns, open, ranks);
    last = places_[row] / kBlock;
    if (!due.empty()) due[last] = 1;
  }
  changed_ = others ? 0 : changed_ + rows.count;
  if (changed_ >= std::max(kBlock, rows_ / kChanged)) {
    changed_ = 0;
    const bool far = searches_ > 0 && searched_ / searches_ > rows_ / kLooked;
    searches_ = searched_ = 0;
    const bool was_by_use = by_use_;
    if (far) by_use_ = !by_use_;
    if (by_use_ || was_by_use) return order_rows(columns, open, ranks);
  }
  if (due.empty() && last < blocks_) read_block(last);
  for (std::size_t block = 0; block < due.size(); ++block) {
    if (due[block] != 0) read_block(block);
  }
}

// Forgets all; rows are in the order that they are given in.
void RowBounds::resize(const Columns& columns, std::size_t rows) {
  stride_ = columns.stride;
  resources_ = columns.resources;
  rows_ = rows;
  blocks_ = (rows_ + kBlock - 1) / kBlock;
  for (auto* column :
       {&least_offered_, &most_offered_, &least_taken_, &most_taken_, &most_free_, &nothing_}) {
    column->assign(resources_ * blocks_, 0);
  }
  for (auto* column : {&least_scored_, &most_scored_}) column->assign(kScored * blocks_, 0);
  for (auto* column : {&ranks_, &limits_}) column->assign(blocks_, 0);
  open_rows_.assign(blocks_, 0);
  for (auto* column : {&offered_, &taken_}) column->assign(resources_ * rows_, 0);
  scored_.assign(kScored * rows_, 0);
  place_ranks_.assign(rows_, 0);
  open_places_.assign(rows_, 0);
  order_.resize(rows_);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  places_ = order_;
  by_use_ = false;
  searches_ = searched_ = 0;
}

// Reads a row, at its place.
void RowBounds::copy_row(std::size_t row, const Columns& columns,
                         std::span<const std::uint8_t> open, std::span<const std::int64_t> ranks) {
  const std::size_t place = places_[row];
  for (std::size_t i = 0; i < resources_; ++i) {
    offered_[i * rows_ + place] = columns.allocatable[i * stride_ + row];
    taken_[i * rows_ + place] = columns.requested[i * stride_ + row];
  }
  for (std::size_t i = 0; i < kScored; ++i) {
    scored_[i * rows_ + place] = columns.nonzero[i * stride_ + row];
  }
  open_places_[place] = open[row];
  place_ranks_[place] = ranks[row];
}

// Orders rows anew and reads all of them.
void RowBounds::order_rows(const Columns& columns, std::span<const std::uint8_t> open,
                           std::span<const std::int64_t> ranks) {
  if (by_use_) {
    order_by_use(open);
  } else {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  for (std::size_t place = 0; place < rows_; ++place) places_[order_[place]] = place;
  for (std::size_t row = 0; row < rows_; ++row) copy_row(row, columns, open, ranks);
  for (std::size_t block = 0; block < blocks_; ++block) read_block(block);
}

// Rows of which about as much is taken of resource 0 stand beside each other, and among these those
// of which as much is taken of resource 1: strips of a plane, cut into blocks. Closed ones come
// last.
void RowBounds::order_by_use(std::span<const std::uint8_t> open) {
  using Use = std::tuple<double, std::int64_t, std::size_t>;  // what is taken, rank, row
  const auto use = [&](std::size_t resource, std::size_t row) -> Use {
    const std::size_t place = places_[row];
    double share = 0;
    if (resource < resources_) {
      const std::size_t at = resource * rows_ + place;
      const auto offered = static_cast<double>(offered_[at]);
      share = offered > 0 ? static_cast<double>(taken_[at]) / offered : 1;
    }
    if (open[row] == 0) share = std::numeric_limits<double>::infinity();
    return {share, place_ranks_[place], row};
  };
  const auto strips = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(blocks_))));
  const std::size_t strip = strips > 0 ? (blocks_ + strips - 1) / strips * kBlock : 1;
  std::vector<Use> uses(rows_);
  for (std::size_t row = 0; row < rows_; ++row) uses[row] = use(0, row);
  std::sort(uses.begin(), uses.end());
  for (std::size_t first = 0; first < rows_; first += strip) {
    const std::size_t end = std::min(rows_, first + strip);
    for (std::size_t i = first; i < end; ++i) uses[i] = use(1, std::get<2>(uses[i]));
    std::sort(uses.begin() + static_cast<std::ptrdiff_t>(first),
              uses.begin() + static_cast<std::ptrdiff_t>(end));
  }
  for (std::size_t place = 0; place < rows_; ++place) order_[place] = std::get<2>(uses[place]);
}

void RowBounds::read_block(std::size_t block) {
  std::array<std::size_t, kBlock> places;
  std::size_t count = 0;
  std::int64_t rank = kHighest;
  for (std::size_t i = block * kBlock; i < std::min(rows_, (block + 1) * kBlock); ++i) {
    if (open_places_[i] == 0) continue;
    places[count++] = i;
    rank = std::min(rank, place_ranks_[i]);
  }
  open_rows_[block] = count;
  ranks_[block] = rank;
  if (count == 0) return;
  const std::span<const std::size_t> its{places.data(), count};
  for (std::size_t i = 0; i < resources_; ++i) {
    Ends offered;
    Ends taken;
    Ends left;
    for (const std::size_t place : its) {
      const std::int64_t has = offered_[i * rows_ + place];
      const std::int64_t used = taken_[i * rows_ + place];
      offered.include({has, has});
      taken.include({used, used});
      left.include({has - used, has - used});
    }
    const std::size_t at = i * blocks_ + block;
    least_offered_[at] = offered.least;
    most_offered_[at] = offered.most;
    least_taken_[at] = taken.least;
    most_taken_[at] = taken.most;
    most_free_[at] = left.most;
  }
  for (std::size_t i = 0; i < kScored; ++i) {
    Ends scored;
    for (const std::size_t place : its) {
      scored.include({scored_[i * rows_ + place], scored_[i * rows_ + place]});
    }
    least_scored_[i * blocks_ + block] = scored.least;
    most_scored_[i * blocks_ + block] = scored.most;
  }
}

// What was read last.
Columns RowBounds::kept() const {
  return {.allocatable = offered_.data(),
          .requested = taken_.data(),
          .nonzero = scored_.data(),
          .stride = rows_,
          .resources = resources_};
}

// A row that has the most of everything and of which the least is taken, by block.
Columns RowBounds::most() const {
  return {.allocatable = most_offered_.data(),
          .requested = least_taken_.data(),
          .nonzero = least_scored_.data(),
          .stride = blocks_,
          .resources = resources_};
}

Columns RowBounds::least() const {
  return {.allocatable = least_offered_.data(),
          .requested = most_taken_.data(),
          .nonzero = most_scored_.data(),
          .stride = blocks_,
          .resources = resources_};
}

Columns RowBounds::free() const {
  return {.allocatable = most_free_.data(),
          .requested = nothing_.data(),
          .nonzero = least_scored_.data(),
          .stride = blocks_,
          .resources = resources_};
}

void RowBounds::limit_score(const RoomScore& score, std::size_t at,
                            std::span<std::int64_t> most) const {
  const RowSet part{.index = nullptr, .first = static_cast<std::int64_t>(at), .count = most.size()};
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
      return std::fill(most.begin(), most.end(), highest);
    }
    case Strategy::kBalanced:
      score.bound_balanced(least(), this->most(), part, most);
      break;
  }
  // A resource that some rows have none of counts for the others alone.
  for (const Counted& each : score.counted()) {
    const std::size_t from = each.resource * blocks_ + at;
    for (std::size_t i = 0; i < most.size(); ++i) {
      const bool mixed = least_offered_[from + i] <= 0 && most_offered_[from + i] > 0;
      most[i] = mixed ? kMostScore : most[i];
    }
  }
}

void RowBounds::limit_blocks(const Rooms& rooms, std::span<const std::int64_t> weights) {
  std::array<std::int64_t, kPart> left;
  std::array<std::int64_t, kPart> answers;
  for (std::size_t at = 0; at < blocks_; at += kPart) {
    const std::size_t count = std::min(kPart, blocks_ - at);
    const RowSet part{.index = nullptr, .first = static_cast<std::int64_t>(at), .count = count};
    const std::span<std::int64_t> found{answers.data(), count};
    const std::span<std::int64_t> limits = std::span(limits_).subspan(at, count);
    std::fill_n(left.begin(), count, 0);
    std::fill(limits.begin(), limits.end(), 0);
    for (const auto& [filter, room] : rooms.checks()) {
      room.left(free(), part, found);
      for (std::size_t i = 0; i < count; ++i) left[i] |= answers[i];
    }
    for (std::size_t score = 0; score < weights.size(); ++score) {
      limit_score(rooms.scores()[score].second, at, found);
      for (std::size_t i = 0; i < count; ++i) limits[i] += weights[score] * answers[i];
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (left[i] < 0 || open_rows_[at + i] == 0) limits[i] = kLowest;
    }
  }
}

// Which places may be chosen; where scores are normalised among these, less those without room.
void RowBounds::allow(const Rooms& rooms, const RowAnswers& answers) {
  allowed_.assign(rows_, 1);
  allow_where(open_places_, allowed_.data());
  if (!by_use_) {
    for (const std::span<const std::uint8_t> mask : answers.masks) {
      allow_where(mask.first(rows_), allowed_.data());
    }
  } else if (!answers.masks.empty()) {
    allowed_rows_.assign(rows_, 1);
    for (const std::span<const std::uint8_t> mask : answers.masks) {
      allow_where(mask.first(rows_), allowed_rows_.data());
    }
    for (std::size_t place = 0; place < rows_; ++place) {
      allowed_[place] = static_cast<std::uint8_t>(allowed_[place] & allowed_rows_[order_[place]]);
    }
  }
  if (answers.ratings.empty()) return;
  std::array<std::int64_t, kPart> left;
  for (std::size_t at = 0; at < rows_; at += kPart) {
    const std::size_t count = std::min(kPart, rows_ - at);
    const RowSet part{.index = nullptr, .first = static_cast<std::int64_t>(at), .count = count};
    for (const auto& [filter, room] : rooms.checks()) {
      room.left(kept(), part, {left.data(), count});
      allow_where(std::span<const std::int64_t>(left.data(), count), allowed_.data() + at);
    }
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
  const bool all_count = kind != Normalization::kSpread;
  ends_.assign(2 * blocks_, 0);
  Ends all;
  for (std::size_t block = 0; block < blocks_; ++block) {
    const std::size_t from = block * kBlock;
    const std::size_t count = std::min(rows_ - from, kBlock);
    const Ends its = ends_of(rating.raw.subspan(from, count), allowed_.data() + from, all_count);
    ends_[2 * block] = its.least;
    ends_[2 * block + 1] = its.most;
    all.include(its);
  }
  rated_.push_back({rating, all.least, all.most});
  normalising(kind, all.least, all.most, [&](const auto& score) {
    for (std::size_t block = 0; block < blocks_; ++block) {
      // Where all are below 0, which do not count, they get nothing.
      if (limits_[block] == kLowest || ends_[2 * block] > ends_[2 * block + 1]) continue;
      limits_[block] += rating.rule.weight * score(ends_[2 * block + (rises(kind) ? 1U : 0U)]);
    }
  });
}

// Of blocks without a row that may be chosen there is no limit.
void RowBounds::limit_allowed() {
  for (std::size_t block = 0; block < blocks_; ++block) {
    const std::size_t from = block * kBlock;
    const std::size_t count = std::min(rows_ - from, kBlock);
    std::uint8_t any = 0;
    for (std::size_t i = 0; i < count; ++i)
      any = static_cast<std::uint8_t>(any | allowed_[from + i]);
    if (any == 0) limits_[block] = kLowest;
  }
}

std::size_t RowBounds::first_block() const {
  std::size_t first = 0;
  for (std::size_t block = 1; block < blocks_; ++block) {
    if (limits_[block] < limits_[first]) continue;
    if (limits_[block] > limits_[first] || ranks_[block] < ranks_[first]) first = block;
  }
  return first;
}

bool RowBounds::may_be_better(std::size_t block, const Found& found) const {
  const std::int64_t limit = limits_[block];
  if (limit == kLowest) return false;
  if (found.row < 0 || limit > found.total) return true;
  return limit == found.total && ranks_[block] < found.rank;
}

std::int64_t RowBounds::best(const Rooms& rooms, std::span<const std::int64_t> weights,
                             const RowAnswers& answers) {
  if (weights.size() != rooms.scores().size()) {
    throw Exception(invalid("weights", std::to_string(weights.size()), "one a score"));
  }
  for (const std::int64_t weight : weights) {
    if (weight < 0) throw Exception(invalid("weight", std::to_string(weight), "0 or more"));
  }
  check_answers(answers, rows_);
  looked_at_ = 0;
  if (blocks_ == 0) return -1;
  limit_blocks(rooms, weights);
  rated_.clear();
  std::span<const std::uint8_t> allowed = open_places_;
  if (!answers.masks.empty() || !answers.ratings.empty()) {
    allow(rooms, answers);
    limit_allowed();
    take_ratings(answers);
    for (const RowRating& each : ratings_) limit_rating(each);
    allowed = allowed_;
  }
  Found found;
  Totals totals;
  const auto look_at = [&](std::size_t block, std::size_t blocks) {
    const std::size_t first = block * kBlock;
    const std::size_t count = std::min(rows_ - first, blocks * kBlock);
    totals.rate(rooms, weights, kept(),
                {.index = nullptr, .first = static_cast<std::int64_t>(first), .count = count});
    looked_at_ += count;
    for (const Rated& each : rated_) {
      normalising(each.rating.rule.normalization, each.least, each.most, [&](const auto& score) {
        for (std::size_t i = 0; i < count; ++i) {
          if (allowed[first + i] == 0) continue;
          totals.sums[i] += each.rating.rule.weight * score(each.rating.raw[first + i]);
        }
      });
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (totals.left[i] < 0 || allowed[first + i] == 0) continue;
      const std::int64_t total = totals.sums[i];
      const std::int64_t rank = place_ranks_[first + i];
      if (found.row >= 0 && (total < found.total || (total == found.total && rank >= found.rank))) {
        continue;
      }
      found = {static_cast<std::int64_t>(first + i), total, rank};
    }
  };
  // The most promising one first: after it most others are out of the question.
  const std::size_t first = first_block();
  if (limits_[first] == kLowest) return -1;
  look_at(first, 1);
  if (by_use_) {
    // Those that are alike stand together: the better their limit, the sooner.
    sooner_.clear();
    for (std::size_t block = 0; block < blocks_; ++block) {
      if (block != first && may_be_better(block, found)) sooner_.push_back(block);
    }
    std::sort(sooner_.begin(), sooner_.end(), [&](std::size_t one, std::size_t other) {
      return std::tuple(-limits_[one], ranks_[one], one) <
             std::tuple(-limits_[other], ranks_[other], other);
    });
    for (const std::size_t block : sooner_) {
      if (may_be_better(block, found)) look_at(block, 1);
    }
  }
  for (std::size_t block = 0; !by_use_ && block < blocks_; ++block) {
    if (block == first || !may_be_better(block, found)) continue;
    // Those beside each other together, as many as are rated at a time.
    std::size_t end = block + 1;
    while (end < blocks_ && (end - block) * kBlock < kPart && end != first &&
           may_be_better(end, found)) {
      ++end;
    }
    look_at(block, end - block);
    block = end - 1;
  }
  ++searches_;
  searched_ += looked_at_;
  return found.row < 0 ? -1
                       : static_cast<std::int64_t>(order_[static_cast<std::size_t>(found.row)]);
}

}  // namespace koord::placement
