// SPDX-License-Identifier: Apache-2.0
// RowBounds asks about reservations: of as few blocks as it takes to know the most that any would
// be filled, by which their scores are normalised, and of those whose rows are looked at.
#include <algorithm>
#include <array>

#include "koord/placement_bounds.hpp"
#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {

static_assert(RowBounds::kBlock == ReservedBounds::kBlock);

// Adds to the limits of blocks what their best rows get by reservations.
void RowBounds::limit_reserved(const Rooms& rooms, const RowAnswers& answers) {
  bound_fills(answers.reserved);
  const std::int64_t most = most_filled(rooms, answers);
  const ScoreRule rule{.weight = answers.reserved.weight, .normalization = Normalization::kDefault};
  rated_.push_back({{.rule = rule, .raw = filled_}, 0, most});
  normalising(rule.normalization, 0, most, [&](const auto& score) {
    for (std::size_t block = 0; block < blocks_; ++block) {
      if (fills_[block] == kLowest) limits_[block] = kLowest;
      if (limits_[block] == kLowest) continue;
      limits_[block] += rule.weight * score(std::min(fills_[block], most));
    }
  });
}

// By block the most that reservations may be filled, before any row is asked about.
void RowBounds::bound_fills(const ReservedAnswers& reserved) {
  asked_.assign(blocks_, 0);
  fills_.assign(blocks_, 0);
  filled_.resize(rows_);
  reserved.bounds->limits(reserved.question, fills_);
  for (std::size_t block = 0; block < blocks_; ++block) {
    if (limits_[block] == kLowest) fills_[block] = kLowest;
  }
}

// The most that any reservation would be filled: the most promising block is asked about first, and
// after it those that may have more.
std::int64_t RowBounds::most_filled(const Rooms& rooms, const RowAnswers& answers) {
  std::int64_t most = 0;
  const auto ask = [&](std::size_t block) {
    ask_reserved(rooms, answers.reserved, block);
    most = std::max(most, fills_[block]);
  };
  const auto fullest = static_cast<std::size_t>(std::ranges::max_element(fills_) - fills_.begin());
  if (fills_[fullest] > 0) ask(fullest);
  // Other ratings are normalised among the rows that reservations let pass.
  const bool all = !answers.ratings.empty() || !answers.preferences.empty();
  for (std::size_t block = 0; block < blocks_; ++block) {
    if (fills_[block] > most || (all && fills_[block] != kLowest)) ask(block);
  }
  return most;
}

// Asks about the reservations of a block, once: rows on which the pod has no room are not allowed
// any more, and what its best row would be filled is known.
void RowBounds::ask_reserved(const Rooms& rooms, const ReservedAnswers& reserved,
                             std::size_t block) {
  if (asked_[block] != 0) return;
  const std::size_t first = block * kBlock;
  const std::size_t count = size_of(block);
  std::array<std::uint8_t, kBlock> passes;
  const std::span<std::int64_t> raw = std::span(filled_).subspan(first, count);
  reserved_answers(reserved.question, first, {passes.data(), count}, raw);
  allow_where(std::span<const std::uint8_t>(passes.data(), count), allowed_.data() + first);
  allow_room(rooms, in_a_row(first, count));
  asked_[block] = 1;
  fills_[block] = ends_of(raw, allowed_.data() + first, true).most;
}

}  // namespace koord::placement
