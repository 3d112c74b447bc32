// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

void check_columns(const Columns& columns, std::size_t resource) {
  if (resource < columns.resources) return;
  throw Exception(not_found("resource", std::to_string(resource), "a resource of the columns"));
}

void check_rows(const Columns& columns, RowSet rows) {
  if (rows.index == nullptr && rows.first >= 0 &&
      static_cast<std::size_t>(rows.first) + rows.count <= columns.stride) {
    return;
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (rows[i] >= 0 && static_cast<std::size_t>(rows[i]) < columns.stride) continue;
    throw Exception(not_found("row", std::to_string(rows[i]), "a row of the columns"));
  }
}

void check_amounts(std::span<const std::int64_t> amounts, std::size_t resources) {
  if (amounts.size() <= resources) return;
  throw Exception(invalid("amounts", std::to_string(amounts.size()),
                          "at most " + std::to_string(resources) + ", one a resource"));
}

void check_places(std::size_t places, std::size_t resources) {
  if (places <= resources) return;
  throw Exception(invalid("places", std::to_string(places), "at most one a resource"));
}

// The rows from a place on that are looked at together.
RowSet part_of(RowSet rows, std::size_t at) {
  return {.index = rows.index != nullptr ? rows.index + at : nullptr,
          .first = rows.first + static_cast<std::int64_t>(at),
          .count = std::min(kPart, rows.count - at)};
}

// Fewer rows are not worth a loop a step.
constexpr std::size_t kTogether = 8;

std::vector<Reading> readings(const Columns& columns, std::span<const Counted> counted) {
  std::vector<Reading> found;
  found.reserve(counted.size());
  for (const Counted& each : counted) {
    check_columns(columns, each.resource);
    if (each.nonzero && each.resource > 1) {
      throw Exception(invalid("nonzero", std::to_string(each.resource), "resource 0 or 1"));
    }
    const std::int64_t* used = each.nonzero ? columns.nonzero : columns.requested;
    const std::size_t from = each.resource * columns.stride;
    found.push_back({columns.allocatable + from, used + from, each.request, each.weight});
  }
  return found;
}

// The rows of an index copied side by side, so that they are read as rows in a row.
std::vector<Reading> side_by_side(std::span<const Reading> resources, RowSet rows,
                                  std::vector<std::int64_t>& copied) {
  copied.resize(2 * resources.size() * rows.count);
  std::vector<Reading> found;
  std::int64_t* to = copied.data();
  for (const Reading& each : resources) {
    std::int64_t* const used = to + rows.count;
    for (std::size_t i = 0; i < rows.count; ++i) {
      to[i] = each.has[rows[i]];
      used[i] = each.used[rows[i]];
    }
    found.push_back({to, used, each.request, each.weight});
    to = used + rows.count;
  }
  return found;
}

std::int64_t part_left(std::int64_t used, std::int64_t has) {
  return percent(std::clamp<std::int64_t>(has - used, 0, has), has);
}

std::int64_t part_used(std::int64_t used, std::int64_t has) {
  return percent(std::clamp<std::int64_t>(used, 0, has), has);
}

// The line's height; flat before the first corner and after the last.
std::int64_t height(std::span<const Corner> corners, std::int64_t used) {
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Corner& corner = corners[i];
    if (used > corner.used) continue;
    if (i == 0) return corner.score;
    const Corner& before = corners[i - 1];
    return before.score +
           (corner.score - before.score) * (used - before.used) / (corner.used - before.used);
  }
  return corners.back().score;
}

template <class Part>
std::int64_t weighted(std::span<const Reading> resources, std::int64_t row, const Part& part) {
  std::int64_t sum = 0;
  std::int64_t weights = 0;
  for (const Reading& each : resources) {
    if (each.has[row] <= 0) continue;
    sum += each.weight * part(each.with_pod(row), each.has[row]);
    weights += each.weight;
  }
  return weights == 0 ? 0 : sum / weights;
}

std::int64_t ratio(std::span<const Reading> resources, std::int64_t row,
                   std::span<const Corner> corners) {
  std::int64_t sum = 0;
  std::int64_t weights = 0;
  for (const Reading& each : resources) {
    if (each.has[row] <= 0) continue;
    // A resource of score 0 does not count at all, as in Kubernetes.
    const std::int64_t part = height(corners, part_used(each.with_pod(row), each.has[row]));
    if (part <= 0) continue;
    sum += each.weight * part;
    weights += each.weight;
  }
  return weights == 0 ? 0 : (2 * sum + weights) / (2 * weights);  // rounded half up
}

double fraction(const Reading& each, std::int64_t row) {
  return std::min(1.0,
                  static_cast<double>(each.with_pod(row)) / static_cast<double>(each.has[row]));
}

std::int64_t balanced(std::span<const Reading> resources, std::int64_t row) {
  double first = 0;
  double second = 0;
  double sum = 0;
  int count = 0;
  for (const Reading& each : resources) {
    if (each.has[row] <= 0) continue;
    first = second;
    second = fraction(each, row);
    sum += second;
    ++count;
  }
  double deviation = 0;
  if (count == 2) {
    deviation = std::abs(first - second) / 2;
  } else if (count > 2) {
    double squares = 0;
    for (const Reading& each : resources) {
      if (each.has[row] <= 0) continue;
      const double off = fraction(each, row) - sum / count;
      squares += off * off;
    }
    deviation = std::sqrt(squares / count);
  }
  return static_cast<std::int64_t>((1 - deviation) * 100);
}

}  // namespace

RoomCheck RoomCheck::asking(std::span<const std::int64_t> amounts) const {
  check_amounts(amounts, asked_.size());
  RoomCheck other = *this;
  for (std::size_t i = 0; i < amounts.size(); ++i) other.asked_[i].amount = amounts[i];
  return other;
}

void RoomCheck::check(const Columns& columns, RowSet rows, std::span<std::uint8_t> passes) const {
  std::array<std::int64_t, kPart> signs;
  for (std::size_t at = 0; at < rows.count; at += kPart) {
    const RowSet part = part_of(rows, at);
    left(columns, part, {signs.data(), part.count});
    for (std::size_t i = 0; i < part.count; ++i) passes[at + i] = signs[i] < 0 ? 0 : 1;
  }
}

void RoomCheck::left(const Columns& columns, RowSet rows, std::span<std::int64_t> left) const {
  check_rows(columns, rows);
  std::fill(left.begin(), left.end(), std::int64_t{0});
  for (const auto& [resource, amount] : asked_) {
    check_columns(columns, resource);
    if (amount <= 0) continue;
    const std::size_t from = resource * columns.stride;
    const Reading each{columns.allocatable + from, columns.requested + from, amount, 1};
    if (rows.index == nullptr) {
      join_left(each, static_cast<std::size_t>(rows.first), left);
      continue;
    }
    for (std::size_t i = 0; i < rows.count; ++i) left[i] |= each.left(rows[i]);
  }
}

RoomScore::RoomScore(Strategy strategy, std::vector<Counted> counted, std::vector<Corner> corners)
    : strategy_(strategy), counted_(std::move(counted)), corners_(std::move(corners)) {
  for (std::size_t i = 1; i < corners_.size(); ++i) {
    if (corners_[i].used > corners_[i - 1].used) continue;
    throw Exception(invalid("corner", std::to_string(corners_[i].used), "more than the last"));
  }
  if (strategy_ == Strategy::kRatio && corners_.empty()) {
    throw Exception(invalid("corners", "none", "one or more"));
  }
  for (const Counted& each : counted_) {
    if (each.weight >= 0 && each.weight <= 1'000'000) continue;
    throw Exception(invalid("weight", std::to_string(each.weight), "0 to 1000000"));
  }
}

RoomScore RoomScore::requesting(std::span<const std::int64_t> requests) const {
  check_amounts(requests, counted_.size());
  RoomScore other = *this;
  for (std::size_t i = 0; i < requests.size(); ++i) other.counted_[i].request = requests[i];
  return other;
}

void RoomScore::score(const Columns& columns, RowSet rows, std::span<std::int64_t> scores) const {
  check_rows(columns, rows);
  const std::vector<Reading> resources = readings(columns, counted_);
  const bool is_balanced = strategy_ == Strategy::kBalanced;
  const bool has_vectors =
      is_balanced ? resources.size() == 2 : strategy_ != Strategy::kRatio && !resources.empty();
  // Rows are scored together where that is exact; others one by one.
  std::vector<std::int64_t> copied;
  const auto together = [&](std::size_t at, std::span<std::int64_t> part) {
    if (!has_vectors || part.size() < kTogether) return false;
    const bool by_index = rows.index != nullptr;
    const std::vector<Reading> moved =
        by_index ? side_by_side(resources, part_of(rows, at), copied) : std::vector<Reading>{};
    const std::span<const Reading> read = by_index ? moved : resources;
    const std::size_t first = by_index ? 0 : static_cast<std::size_t>(rows[at]);
    if (is_balanced) return balanced_part(read[0], read[1], first, part);
    return weighted_part(read, strategy_ == Strategy::kLeast, first, part);
  };
  const auto each_row = [&](const auto& rate) {
    for (std::size_t at = 0; at < rows.count; at += kPart) {
      const std::size_t to = std::min(at + kPart, rows.count);
      if (together(at, scores.subspan(at, to - at))) continue;
      for (std::size_t i = at; i < to; ++i) scores[i] = rate(rows[i]);
    }
  };
  switch (strategy_) {
    case Strategy::kLeast:
      return each_row([&](std::int64_t row) { return weighted(resources, row, part_left); });
    case Strategy::kMost:
      return each_row([&](std::int64_t row) { return weighted(resources, row, part_used); });
    case Strategy::kRatio:
      return each_row([&](std::int64_t row) { return ratio(resources, row, corners_); });
    case Strategy::kBalanced:
      return each_row([&](std::int64_t row) { return balanced(resources, row); });
  }
}

void RoomScore::bound_balanced(const Columns& least, const Columns& most, RowSet rows,
                               std::span<std::int64_t> scores) const {
  check_rows(least, rows);
  const std::vector<Reading> low = readings(least, counted_);
  const std::vector<Reading> high = readings(most, counted_);
  if (rows.index == nullptr && counted_.size() == 2) {
    const Range one{low[0], high[0]};
    const Range other{low[1], high[1]};
    bound_balanced_part(one, other, static_cast<std::size_t>(rows.first), scores);
  } else {
    std::fill(scores.begin(), scores.end(), std::int64_t{100});
  }
}

void Rooms::put(Board& board, const Columns& columns, RowSet rows) const {
  // In parts, so that what is written in one step is still at hand in the next.
  std::array<std::int64_t, kPart> answers;
  std::vector<std::span<std::int64_t>> rated;
  if (rows.index == nullptr) {
    // All are written where they belong.
    for (const auto& [score, room] : scores_) rated.push_back(board.rated_rows(score, rows));
  }
  for (std::size_t at = 0; at < rows.count; at += kPart) {
    const RowSet part = part_of(rows, at);
    const std::span<std::int64_t> found{answers.data(), part.count};
    for (const auto& [filter, room] : checks_) {
      room.left(columns, part, found);
      board.refuse_where_short(filter, part, found);
    }
    for (std::size_t i = 0; i < rated.size(); ++i) {
      scores_[i].second.score(columns, part, rated[i].subspan(at, part.count));
    }
    if (rows.index == nullptr) continue;
    for (const auto& [score, room] : scores_) {
      room.score(columns, part, found);
      board.rate(score, part, found);
    }
  }
}

RoomsTemplate::RoomsTemplate(Rooms rooms, std::vector<std::vector<std::size_t>> checks,
                             std::vector<std::vector<std::size_t>> scores)
    : rooms_(std::move(rooms)), checks_(std::move(checks)), scores_(std::move(scores)) {
  if (checks_.size() != rooms_.checks().size() || scores_.size() != rooms_.scores().size()) {
    throw Exception(invalid("places", std::to_string(checks_.size()), "those of each"));
  }
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    check_places(checks_[i].size(), rooms_.checks()[i].second.asked().size());
  }
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    check_places(scores_[i].size(), rooms_.scores()[i].second.counted().size());
  }
  for (const auto* each : {&checks_, &scores_}) {
    for (const std::vector<std::size_t>& places : *each) {
      for (const std::size_t place : places) amounts_ = std::max(amounts_, place + 1);
    }
  }
}

Rooms RoomsTemplate::of(std::span<const std::int64_t> amounts) const {
  if (amounts.size() < amounts_) {
    throw Exception(
        invalid("amounts", std::to_string(amounts.size()), std::to_string(amounts_) + " or more"));
  }
  std::vector<std::pair<unsigned, RoomCheck>> checks;
  std::vector<std::pair<std::size_t, RoomScore>> scores;
  checks.reserve(checks_.size());
  scores.reserve(scores_.size());
  std::vector<std::int64_t> its;
  const auto pick = [&](const std::vector<std::size_t>& places) {
    its.clear();
    for (const std::size_t place : places) its.push_back(amounts[place]);
    return std::span<const std::int64_t>(its);
  };
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    const auto& [filter, check] = rooms_.checks()[i];
    checks.emplace_back(filter, check.asking(pick(checks_[i])));
  }
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const auto& [number, score] = rooms_.scores()[i];
    scores.emplace_back(number, score.requesting(pick(scores_[i])));
  }
  return {std::move(checks), std::move(scores)};
}

}  // namespace koord::placement
