// SPDX-License-Identifier: Apache-2.0
#include "quota_level.hpp"

#include <algorithm>
#include <numeric>

namespace koord::quota {
namespace {

std::int64_t base_of(std::int64_t request, std::int64_t floor, bool lends) {
  return request <= floor && lends ? request : floor;
}

// Sharing out in full costs less among few.
constexpr std::size_t kFewestClaims = 64;
// Claims are put in order only where children change more often than they come and go.
constexpr int kFullBefore = 2;

}  // namespace

void Column::write(std::size_t slot, const Row& row) {
  weight_[slot] = row.weight;
  request_[slot] = row.request;
  min_[slot] = row.min;
  guarantee_[slot] = row.guarantee;
  floor_[slot] = std::max(row.min, row.guarantee);
}

void Column::count(std::size_t slot, const Roster& roster, int sign) {
  const std::int64_t request = request_[slot];
  const std::int64_t floor = floor_[slot];
  base_ += sign * Sum{base_of(request, floor, roster.lends[slot] != 0)};
  if (weight_[slot] > 0 && request > floor) want_ += sign * (Sum{request} - floor);
  (roster.scales[slot] != 0 ? scalable_min_ : fixed_min_) += sign * Sum{min_[slot]};
  outcome_ = Outcome::kUnsettled;
}

void Column::retract(std::size_t slot, const Roster& roster) {
  forget_claims();
  count(slot, roster, -1);
}

void Column::append(const Row& row, const Roster& roster) {
  forget_claims();
  for (auto* column : {&weight_, &request_, &min_, &guarantee_, &floor_}) column->push_back(0);
  write(weight_.size() - 1, row);
  count(weight_.size() - 1, roster, 1);
}

void Column::erase(std::size_t slot, const Roster& roster) {
  forget_claims();
  count(slot, roster, -1);
  for (auto* column : {&weight_, &request_, &min_, &guarantee_, &floor_}) {
    (*column)[slot] = column->back();
    column->pop_back();
  }
}

void Column::set(std::size_t slot, const Row& row, const Roster& roster) {
  const auto before = claims_.valid() ? claim(slot, roster) : std::nullopt;
  const std::int64_t weight = weight_[slot];
  count(slot, roster, -1);
  write(slot, row);
  count(slot, roster, 1);
  if (claims_.valid()) move_claim(slot, before, weight, roster);
}

void Column::forget_claims() {
  claims_.clear();
  contended_ = 0;
}

std::optional<Claim> Column::claim(std::size_t slot, const Roster& roster) const {
  if (request_[slot] <= floor_[slot] || weight_[slot] <= 0) return std::nullopt;
  return Claim{request_[slot] - floor_[slot], roster.rank[slot]};
}

void Column::move_claim(std::size_t slot, std::optional<Claim> before, std::int64_t weight,
                        const Roster& roster) {
  const auto after = claim(slot, roster);
  const std::int32_t priority = roster.priority[slot];
  if (before && after && weight == weight_[slot]) {
    claims_.replace(priority, weight, *before, *after);
    return;
  }
  if (before) claims_.erase(priority, weight, *before);
  if (after) claims_.insert(priority, weight_[slot], *after);
}

// Shares out through the claims; false where sharing in full is due.
bool Column::share_claims(std::int64_t pool, const Roster& roster) {
  if (!claims_.valid()) {
    // Once these did not serve, they are not built again until a child comes or goes.
    if (floor_.size() < kFewestClaims || contended_ > kFullBefore) return false;
    if (++contended_ <= kFullBefore) return false;
    if (!claims_.build(siblings(roster, floor_))) return false;
  }
  if (claims_.share(pool)) return true;
  claims_.clear();
  return false;
}

bool Column::short_of_min(std::optional<std::int64_t> total) const {
  return total.has_value() && Sum{*total} < scalable_min_ + fixed_min_;
}

std::int64_t Column::scaled_min_of(std::size_t slot, std::optional<std::int64_t> total,
                                   const Roster& roster) const {
  if (roster.scales[slot] == 0 || !short_of_min(total)) return min_[slot];
  return scaled_min(Sum{*total} - fixed_min_, min_[slot], scalable_min_);
}

std::vector<std::int64_t> Column::shrunk_floors(const Roster& roster) const {
  std::vector<std::int64_t> floor(floor_.size());
  for (std::size_t i = 0; i < floor.size(); ++i) {
    floor[i] = std::max(scaled_min_of(i, total_, roster), guarantee_[i]);
  }
  return floor;
}

Siblings Column::siblings(const Roster& roster, const std::vector<std::int64_t>& floor) const {
  return {weight_, request_, floor, roster.lends, roster.priority, roster.rank};
}

void Column::settle(std::optional<std::int64_t> total, const Roster& roster, WaterFill& fill) {
  if (outcome_ != Outcome::kUnsettled && total == total_) return;
  total_ = total;
  const std::int64_t amount = total.value_or(0);
  const Sum pool = Sum{amount} - base_;
  const bool shrunk = short_of_min(total);
  if (!shrunk && pool <= 0) {
    outcome_ = Outcome::kFloors;
  } else if (!shrunk && pool >= want_) {
    outcome_ = Outcome::kRequests;
  } else if (!shrunk && share_claims(static_cast<std::int64_t>(pool), roster)) {
    outcome_ = Outcome::kClaims;
  } else {
    const std::vector<std::int64_t> less =
        shrunk ? shrunk_floors(roster) : std::vector<std::int64_t>{};
    runtime_.resize(floor_.size());
    fill.run(amount, siblings(roster, shrunk ? less : floor_), runtime_);
    outcome_ = Outcome::kShared;
  }
}

std::int64_t Column::runtime(std::size_t slot, const Roster& roster) const {
  if (outcome_ == Outcome::kShared) return runtime_[slot];
  const std::int64_t base = base_of(request_[slot], floor_[slot], roster.lends[slot] != 0);
  if (outcome_ == Outcome::kClaims) {
    const auto own = claim(slot, roster);
    return own ? base + claims_.granted(roster.priority[slot], weight_[slot], *own) : base;
  }
  const bool fed = outcome_ == Outcome::kRequests && weight_[slot] > 0;
  return fed ? std::max(base, request_[slot]) : base;
}

void Column::explain(const Roster& roster, WaterFill& fill, Explanation& into) const {
  into.total = total_.value_or(0);
  into.children = roster.group;
  into.weight = weight_;
  into.request = request_;
  into.floor = shrunk_floors(roster);
  into.runtime.resize(floor_.size());
  into.idle = fill.run(into.total, siblings(roster, into.floor), into.runtime, &into.rounds);
}

std::size_t Level::append(GroupId group, const GroupSpec& spec, bool lends) {
  roster_.group.push_back(group);
  roster_.lends.push_back(lends);
  roster_.scales.push_back(spec.scale_min);
  roster_.priority.push_back(spec.priority);
  roster_.rank.clear();
  for (Column& column : columns_) column.append({}, roster_);
  return roster_.group.size() - 1;
}

GroupId Level::erase(std::size_t slot) {
  for (Column& column : columns_) column.erase(slot, roster_);
  const auto drop = [slot](auto& column) {
    column[slot] = column.back();
    column.pop_back();
  };
  drop(roster_.group);
  drop(roster_.lends);
  drop(roster_.scales);
  drop(roster_.priority);
  roster_.rank.clear();
  return slot < roster_.group.size() ? roster_.group[slot] : kNoGroup;
}

void Level::set_spec(std::size_t slot, const GroupSpec& spec, bool lends) {
  for (Column& column : columns_) column.retract(slot, roster_);
  roster_.lends[slot] = lends;
  roster_.scales[slot] = spec.scale_min;
  roster_.priority[slot] = spec.priority;
  for (Column& column : columns_) column.restore(slot, roster_);
}

Column& Level::column(ResourceId resource) {
  while (columns_.size() <= resource) {
    Column column;
    for (std::size_t i = 0; i < roster_.group.size(); ++i) column.append({}, roster_);
    columns_.push_back(std::move(column));
  }
  return columns_[resource];
}

std::vector<std::uint32_t> ranks_of(const std::vector<const std::string*>& names) {
  std::vector<std::uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return *names[a] < *names[b]; });
  std::vector<std::uint32_t> rank(names.size());
  for (std::uint32_t place = 0; place < order.size(); ++place) rank[order[place]] = place;
  return rank;
}

}  // namespace koord::quota
