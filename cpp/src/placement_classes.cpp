// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_classes.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "placement_score.hpp"

namespace koord::placement {
namespace {

constexpr std::size_t kMostClasses = std::size_t{1} << 20;
constexpr std::int64_t kMostRank = std::int64_t{1} << 31;
constexpr std::size_t kScored = 2;  // columns of nonzero
// A heap with this many that have left, and more of them than rows, is made anew.
constexpr std::size_t kLeft = 64;

// Multiplication and shifts of splitmix64, whose bits all depend on all that went in.
std::uint64_t mixed(std::uint64_t hash, std::int64_t value) {
  hash += static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15U;
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31U);
}

std::uint64_t hash_of(std::span<const std::int64_t> values) {
  std::uint64_t hash = 0;
  for (const std::int64_t value : values) hash = mixed(hash, value);
  return hash;
}

std::size_t row_of(std::uint64_t member) { return member & 0xffffffffU; }

}  // namespace

RowClasses::RowClasses(std::size_t most) : most_(most) {
  if (most >= 1 && most <= kMostClasses) return;
  throw Exception(invalid("most", std::to_string(most), "1 to 1048576"));
}

void RowClasses::clear() {
  class_of_.clear();
  classes_.clear();
  unused_.clear();
  by_hash_.clear();
  columns_.clear();
  resources_ = 0;
}

bool RowClasses::update(const Columns& columns, RowSet rows, std::span<const std::uint8_t> open,
                        std::span<const std::int64_t> ranks) {
  if (columns.stride > static_cast<std::size_t>(kMostRank)) {
    throw Exception(invalid("rows", std::to_string(columns.stride), "at most 2147483648"));
  }
  if (columns_.empty()) {
    resources_ = columns.resources;
    columns_.assign((2 * resources_ + kScored) * most_, 0);
  } else if (columns.resources != resources_) {
    throw Exception(invalid("resources", std::to_string(columns.resources), "those of before"));
  }
  class_of_.resize(columns.stride, -1);
  for (std::size_t i = 0; i < rows.count; ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    if (rows[i] < 0 || row >= columns.stride || row >= open.size()) {
      throw Exception(not_found("row", std::to_string(rows[i]), "a row of the columns"));
    }
    if (open[row] == 0) {
      leave(row);
      continue;
    }
    const std::int64_t rank = row < ranks.size() ? ranks[row] : -1;
    if (rank < 0 || rank >= kMostRank) {
      throw Exception(invalid("rank", std::to_string(rank), "0 to 2147483647"));
    }
    if (put(columns, row, static_cast<Member>(rank) << 32U | row)) continue;
    clear();
    return false;
  }
  return true;
}

bool RowClasses::put(const Columns& columns, std::size_t row, Member member) {
  read(columns, row);
  const std::int32_t before = class_of_[row];
  if (before >= 0 && holds(static_cast<std::size_t>(before))) return true;
  leave(row);
  const std::uint64_t hash = hash_of(read_);
  std::int32_t number = find(hash);
  if (number < 0) {
    if (size() >= most_) return false;
    number = add(hash);
  }
  Class& its = classes_[static_cast<std::size_t>(number)];
  class_of_[row] = number;
  ++its.rows;
  its.members.push_back(member);
  std::push_heap(its.members.begin(), its.members.end(), std::greater<>{});
  return true;
}

void RowClasses::read(const Columns& columns, std::size_t row) {
  read_.clear();
  for (std::size_t i = 0; i < resources_; ++i) {
    read_.push_back(columns.allocatable[i * columns.stride + row]);
  }
  for (std::size_t i = 0; i < resources_; ++i) {
    read_.push_back(columns.requested[i * columns.stride + row]);
  }
  for (std::size_t i = 0; i < kScored; ++i) {
    read_.push_back(columns.nonzero[i * columns.stride + row]);
  }
}

bool RowClasses::holds(std::size_t number) const {
  for (std::size_t i = 0; i < read_.size(); ++i) {
    if (columns_[i * most_ + number] != read_[i]) return false;
  }
  return true;
}

std::int32_t RowClasses::find(std::uint64_t hash) const {
  const auto found = by_hash_.find(hash);
  std::int32_t number = found != by_hash_.end() ? found->second : -1;
  while (number >= 0 && !holds(static_cast<std::size_t>(number))) {
    number = classes_[static_cast<std::size_t>(number)].next;
  }
  return number;
}

std::int32_t RowClasses::add(std::uint64_t hash) {
  std::int32_t number = 0;
  if (unused_.empty()) {
    number = static_cast<std::int32_t>(classes_.size());
    classes_.emplace_back();
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  const auto at = static_cast<std::size_t>(number);
  for (std::size_t i = 0; i < read_.size(); ++i) columns_[i * most_ + at] = read_[i];
  const auto [place, is_new] = by_hash_.try_emplace(hash, number);
  classes_[at].hash = hash;
  classes_[at].next = is_new ? -1 : place->second;
  place->second = number;
  return number;
}

void RowClasses::leave(std::size_t row) {
  const std::int32_t number = class_of_[row];
  if (number < 0) return;
  class_of_[row] = -1;
  Class& its = classes_[static_cast<std::size_t>(number)];
  if (--its.rows == 0) {
    drop(number);
  } else if (its.members.size() > 2 * its.rows + kLeft) {
    std::erase_if(its.members, [&](Member member) { return class_of_[row_of(member)] != number; });
    std::sort(its.members.begin(), its.members.end());  // which is a heap
    const auto equal = std::unique(its.members.begin(), its.members.end());
    its.members.erase(equal, its.members.end());
  }
}

void RowClasses::drop(std::int32_t number) {
  Class& its = classes_[static_cast<std::size_t>(number)];
  const auto place = by_hash_.find(its.hash);
  std::int32_t* link = &place->second;
  while (*link != number) link = &classes_[static_cast<std::size_t>(*link)].next;
  *link = its.next;
  if (place->second < 0) by_hash_.erase(place);
  its = Class{};
  unused_.push_back(number);
}

RowClasses::Member RowClasses::first(std::size_t number) {
  std::vector<Member>& members = classes_[number].members;
  while (class_of_[row_of(members.front())] != static_cast<std::int32_t>(number)) {
    std::pop_heap(members.begin(), members.end(), std::greater<>{});
    members.pop_back();
  }
  return members.front();
}

void RowClasses::rate_part(const Rooms& rooms, std::span<const std::int64_t> weights,
                           std::size_t at, std::size_t count) {
  const Columns columns{.allocatable = columns_.data(),
                        .requested = columns_.data() + resources_ * most_,
                        .nonzero = columns_.data() + 2 * resources_ * most_,
                        .stride = most_,
                        .resources = resources_};
  const RowSet part{.index = nullptr, .first = static_cast<std::int64_t>(at), .count = count};
  const std::span<std::int64_t> answers{answers_.data(), count};
  std::fill_n(left_.begin(), count, 0);
  std::fill_n(totals_.begin(), count, 0);
  for (const auto& [filter, room] : rooms.checks()) {
    room.left(columns, part, answers);
    for (std::size_t i = 0; i < count; ++i) left_[i] |= answers[i];
  }
  for (std::size_t score = 0; score < weights.size(); ++score) {
    rooms.scores()[score].second.score(columns, part, answers);
    for (std::size_t i = 0; i < count; ++i) totals_[i] += weights[score] * answers[i];
  }
}

std::int64_t RowClasses::best(const Rooms& rooms, std::span<const std::int64_t> weights) {
  if (weights.size() != rooms.scores().size()) {
    throw Exception(invalid("weights", std::to_string(weights.size()), "one a score"));
  }
  for (auto* scratch : {&left_, &totals_, &answers_}) scratch->resize(kPart);
  bool any = false;
  std::int64_t total = 0;
  Member member = 0;
  for (std::size_t at = 0; at < classes_.size(); at += kPart) {
    const std::size_t count = std::min(kPart, classes_.size() - at);
    rate_part(rooms, weights, at, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (left_[i] < 0 || classes_[at + i].rows == 0 || (any && totals_[i] < total)) continue;
      const Member its = first(at + i);
      if (any && totals_[i] == total && its > member) continue;
      any = true;
      total = totals_[i];
      member = its;
    }
  }
  return any ? static_cast<std::int64_t>(row_of(member)) : -1;
}

}  // namespace koord::placement
