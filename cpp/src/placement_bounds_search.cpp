// SPDX-License-Identifier: Apache-2.0
// RowBounds searches: looks at the rows of blocks while their limits say that one may be better.
#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "koord/placement_bounds.hpp"
#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

constexpr std::int64_t kMostWeight = 1'000'000;

void check_weight(std::int64_t weight) {
  if (weight >= 0 && weight <= kMostWeight) return;
  throw Exception(invalid("weight", std::to_string(weight), "0 to 1000000"));
}

void check_weights(std::span<const std::int64_t> weights, const Rooms& rooms) {
  if (weights.size() != rooms.scores().size()) {
    throw Exception(invalid("weights", std::to_string(weights.size()), "one a score"));
  }
  for (const std::int64_t weight : weights) {
    if (weight < 0) throw Exception(invalid("weight", std::to_string(weight), "0 or more"));
  }
}

void check_rating(const RowRating& rating, std::size_t rows) {
  if (rating.raw.size() < rows) {
    throw Exception(invalid("raw scores", std::to_string(rating.raw.size()), "by row"));
  }
  check_weight(rating.rule.weight);
  const bool plain = rating.rule.normalization == Normalization::kNone;
  const std::int64_t most = std::int64_t{1} << (plain ? 36 : 56);
  if (all_within(rating.raw.first(rows), most)) return;
  for (const std::int64_t raw : rating.raw.first(rows)) {
    if (raw >= -most && raw <= most) continue;
    throw Exception(
        invalid("raw score", std::to_string(raw), plain ? "within 2^36" : "within 2^56"));
  }
}

void check_reserved(const ReservedAnswers& reserved, std::size_t rows, bool by_use) {
  if (reserved.bounds->rows() != rows) {
    throw Exception(invalid("reservations", std::to_string(reserved.bounds->rows()), "by row"));
  }
  check_weight(reserved.weight);
  check_question(reserved.question, rows);
  if (by_use) {
    throw Exception(invalid("reservations", "rows by use", "bounds that keep the order of rows"));
  }
}

void check_bits(RowBits bits, std::size_t rows) {
  if (bits.size() * 64 >= rows) return;
  throw Exception(invalid("bits", std::to_string(bits.size() * 64), "by row"));
}

void check_preferences(const Preferences& given, std::size_t rows) {
  check_weight(given.weight);
  for (const auto& [weight, bits] : given.conditions) {
    check_weight(weight);
    check_bits(bits, rows);
  }
}

void check_loads(const RowAnswers& answers, std::size_t rows) {
  const auto check = [&](const LoadColumns& columns, const Freshness& freshness) {
    const std::size_t known = std::min(columns.stride, freshness.until.size());
    if (known >= rows) return;
    throw Exception(invalid("load", std::to_string(known), "by row"));
  };
  for (const LoadCheck& each : answers.load_checks) check(each.columns, each.freshness);
  for (const RowLoad& each : answers.loads) {
    check(each.rating.columns, each.rating.freshness);
    check_weight(each.weight);
  }
}

// Whether some score is normalised among the rows that nothing refuses.
bool is_normalised(const RowAnswers& answers) {
  return answers.reserved.bounds != nullptr || !answers.preferences.empty() ||
         std::ranges::any_of(answers.ratings, &RowRating::normalised);
}

void check_answers(const RowAnswers& answers, std::size_t rows, bool by_use) {
  for (const std::span<const std::uint8_t> mask : answers.masks) {
    if (mask.size() < rows) throw Exception(invalid("mask", std::to_string(mask.size()), "by row"));
  }
  for (const RowRating& each : answers.ratings) check_rating(each, rows);
  for (const RowBits mask : answers.bit_masks) check_bits(mask, rows);
  for (const Preferences& each : answers.preferences) check_preferences(each, rows);
  check_loads(answers, rows);
  if (answers.reserved.bounds != nullptr) check_reserved(answers.reserved, rows, by_use);
}

}  // namespace

// A search under way: the best of the rows that were looked at so far.
class RowBounds::Search {
 public:
  Search(RowBounds& bounds, const Rooms& rooms, std::span<const std::int64_t> weights,
         const RowAnswers& answers, std::span<const std::uint8_t> allowed)
      : bounds_(bounds), rooms_(rooms), weights_(weights), answers_(answers), allowed_(allowed) {}

  // The place found, -1 if there is none.
  std::int64_t run(std::size_t first) {
    // The most promising one first: after it most others are out of the question.
    if (is_worth(first)) look_at(first, 1);
    if (bounds_.by_use_) {
      look_by_limit(first);
    } else {
      look_in_order(first);
    }
    return found_.place;
  }

 private:
  struct Found {
    std::int64_t place = -1;
    std::int64_t total = 0;
    std::int64_t rank = 0;
  };

  // Where rows that are alike stand together: the better their limit, the sooner.
  void look_by_limit(std::size_t first) {
    std::vector<std::size_t>& sooner = bounds_.sooner_;
    sooner.clear();
    for (std::size_t block = 0; block < bounds_.blocks_; ++block) {
      if (block != first && may_be_better(block)) sooner.push_back(block);
    }
    std::ranges::sort(sooner, {}, [&](std::size_t block) {
      return std::tuple(-bounds_.limits_[block], bounds_.ranks_[block], block);
    });
    for (const std::size_t block : sooner) {
      if (is_worth(block)) look_at(block, 1);
    }
  }

  // Blocks beside each other together, as many as are rated at a time.
  void look_in_order(std::size_t first) {
    for (std::size_t block = 0; block < bounds_.blocks_; ++block) {
      if (block == first || !may_be_better(block)) continue;
      std::size_t end = block + 1;
      while (end < bounds_.blocks_ && (end - block) * kBlock < kPart && end != first &&
             may_be_better(end)) {
        ++end;
      }
      look_at(block, end - block);
      block = end - 1;
    }
  }

  [[nodiscard]] bool may_be_better(std::size_t block) const {
    const std::int64_t limit = bounds_.limits_[block];
    if (limit == kLowest) return false;
    if (found_.place < 0 || limit > found_.total) return true;
    return limit == found_.total && bounds_.ranks_[block] < found_.rank;
  }

  // The same by all that is known of a block.
  [[nodiscard]] bool is_worth(std::size_t block) {
    if (!may_be_better(block)) return false;
    bounds_.refine(block);
    return may_be_better(block);
  }

  // At most as many blocks as kPart rows are.
  void look_at(std::size_t block, std::size_t blocks) {
    const std::size_t first = block * kBlock;
    const std::size_t count = std::min(bounds_.rows_ - first, blocks * kBlock);
    add_scores(in_a_row(first, count));
    bounds_.looked_at_ += count;
    add_loads(first, count);
    const ReservedAnswers& reserved = answers_.reserved;
    for (std::size_t each = block; reserved.bounds != nullptr && each < block + blocks; ++each) {
      bounds_.ask_reserved(rooms_, reserved, each);
    }
    add_ratings(first, count);
    add_preferences(first, count);
    keep_best(first, count);
  }

  void add_scores(RowSet part) {
    std::array<std::int64_t, kPart> answers;
    left_by_checks(rooms_, bounds_.kept(), part, {left_.data(), part.count});
    std::fill_n(sums_.begin(), part.count, 0);
    for (std::size_t score = 0; score < weights_.size(); ++score) {
      rooms_.scores()[score].second.score(bounds_.kept(), part, {answers.data(), part.count});
      for (std::size_t i = 0; i < part.count; ++i) sums_[i] += weights_[score] * answers[i];
    }
  }

  void add_loads(std::size_t first, std::size_t count) {
    std::array<std::int64_t, kPart> numbers;
    std::array<std::uint8_t, kPart> within;
    for (const LoadCheck& each : answers_.load_checks) {
      load_within(each, bounds_.rows_of(first, count, numbers), {within.data(), count});
      for (std::size_t i = 0; i < count; ++i) left_[i] |= within[i] != 0 ? 0 : -1;
    }
    for (std::size_t load = 0; load < answers_.loads.size(); ++load) {
      const std::int64_t* scores = bounds_.load_scores_[load].data() + first;
      for (std::size_t i = 0; i < count; ++i) sums_[i] += answers_.loads[load].weight * scores[i];
    }
  }

  void add_ratings(std::size_t first, std::size_t count) {
    for (const Rated& each : bounds_.rated_) {
      normalising(each.rating.rule.normalization, each.least, each.most, [&](const auto& score) {
        for (std::size_t i = 0; i < count; ++i) {
          if (allowed_[first + i] == 0) continue;
          sums_[i] += each.rating.rule.weight * score(each.rating.raw[first + i]);
        }
      });
    }
  }

  void add_preferences(std::size_t first, std::size_t count) {
    for (const Preferred& each : bounds_.preferred_) {
      normalising(Normalization::kDefault, 0, each.most, [&](const auto& score) {
        for (std::size_t i = 0; i < count; ++i) {
          // One without room may get more than the most.
          if (left_[i] < 0 || allowed_[first + i] == 0) continue;
          sums_[i] += each.given->weight * score(bounds_.preference(*each.given, first + i));
        }
      });
    }
  }

  void keep_best(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (left_[i] < 0 || allowed_[first + i] == 0) continue;
      const std::int64_t total = sums_[i];
      const std::int64_t rank = bounds_.place_ranks_[first + i];
      const bool better = total > found_.total || (total == found_.total && rank < found_.rank);
      if (found_.place >= 0 && !better) continue;
      found_ = {static_cast<std::int64_t>(first + i), total, rank};
    }
  }

  RowBounds& bounds_;
  const Rooms& rooms_;
  std::span<const std::int64_t> weights_;
  const RowAnswers& answers_;
  std::span<const std::uint8_t> allowed_;  // by place
  Found found_;
  // Of the rows that are looked at: below 0 where a check refuses; the sums of scores.
  std::array<std::int64_t, kPart> left_, sums_;
};

std::int64_t RowBounds::best(const Rooms& rooms, std::span<const std::int64_t> weights,
                             const RowAnswers& answers) {
  check_weights(weights, rooms);
  check_answers(answers, rows_, by_use_);
  if (!answers.load_checks.empty() && is_normalised(answers)) {
    return best(rooms, weights, with_load_masks(answers));
  }
  looked_at_ = 0;
  if (blocks_ == 0) return -1;
  limit_blocks(rooms, weights);
  limit_loads(answers);
  rated_.clear();
  preferred_.clear();
  coarse_.clear();
  const bool answered = !answers.masks.empty() || !answers.ratings.empty() ||
                        answers.reserved.bounds != nullptr || !answers.bit_masks.empty() ||
                        !answers.preferences.empty();
  if (answered) limit_answers(rooms, answers);
  const std::size_t first = first_block();
  if (limits_[first] == kLowest) return -1;
  Search search(*this, rooms, weights, answers, answered ? allowed_ : open_places_);
  const std::int64_t place = search.run(first);
  ++searches_;
  searched_ += looked_at_;
  return place < 0 ? -1 : static_cast<std::int64_t>(order_[static_cast<std::size_t>(place)]);
}

// The most promising block: of those with the highest limit the one with the lowest rank.
std::size_t RowBounds::first_block() const {
  std::size_t first = 0;
  for (std::size_t block = 1; block < blocks_; ++block) {
    if (limits_[block] < limits_[first]) continue;
    if (limits_[block] > limits_[first] || ranks_[block] < ranks_[first]) first = block;
  }
  return first;
}

}  // namespace koord::placement
