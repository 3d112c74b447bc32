// SPDX-License-Identifier: Apache-2.0
#include "quota_claims.hpp"

#include <algorithm>
#include <limits>

#include "quota_divide.hpp"

namespace koord::quota {

ClaimGroup::Place ClaimGroup::place(Claim claim) {
  return std::lower_bound(claims_.begin(), claims_.end(), claim);
}

void ClaimGroup::enter(std::size_t at, Claim claim) {
  members_.insert(claim.rank);
  if (at < cursor_) {
    ++cursor_;
    cursor_needs_ += claim.need;
  } else {
    beyond_.insert(claim.rank);
  }
}

void ClaimGroup::leave(std::size_t at, Claim claim) {
  members_.erase(claim.rank);
  if (at < cursor_) {
    --cursor_;
    cursor_needs_ -= claim.need;
  } else {
    beyond_.erase(claim.rank);
  }
}

void ClaimGroup::insert(Claim claim) {
  const auto at = place(claim);
  enter(static_cast<std::size_t>(at - claims_.begin()), claim);
  claims_.insert(at, claim);
}

void ClaimGroup::erase(Claim claim) {
  const auto at = place(claim);
  leave(static_cast<std::size_t>(at - claims_.begin()), claim);
  claims_.erase(at);
}

// As erase() and insert(), but only what lies between the two places moves.
void ClaimGroup::replace(Claim before, Claim after) {
  const auto from = place(before);
  auto to = place(after);
  leave(static_cast<std::size_t>(from - claims_.begin()), before);
  if (from < to) {
    std::rotate(from, from + 1, to);
    --to;
  } else {
    std::rotate(to, from, from + 1);
  }
  *to = after;
  enter(static_cast<std::size_t>(to - claims_.begin()), after);
}

void ClaimGroup::start() {
  count_ = claims_.size();
  each_ = 0;
  steps_.clear();
}

std::int64_t ClaimGroup::extras(std::uint32_t rank) const {
  std::int64_t count = 0;
  for (const std::uint32_t step : steps_) count += rank < step ? 1 : 0;
  return count;
}

std::int64_t ClaimGroup::granted(Claim claim) const {
  return std::min(claim.need, each_ + extras(claim.rank));
}

// To the first claim of a larger need.
void ClaimGroup::move_cursor(std::int64_t need) {
  for (; cursor_ > 0 && claims_[cursor_ - 1].need > need; --cursor_) {
    cursor_needs_ -= claims_[cursor_ - 1].need;
    beyond_.insert(claims_[cursor_ - 1].rank);
  }
  for (; cursor_ < claims_.size() && claims_[cursor_].need <= need; ++cursor_) {
    cursor_needs_ += claims_[cursor_].need;
    beyond_.erase(claims_[cursor_].rank);
  }
}

Sum ClaimGroup::give(std::int64_t grant, std::uint32_t extra) {
  each_ += grant;
  steps_.push_back(extra);
  if (steps_.size() > 1) return meet();
  move_cursor(each_);
  first_ = cursor_;
  count_ -= cursor_;
  left_ = beyond_;
  const Sum units = Sum{each_} * static_cast<Sum>(cursor_);
  return units + static_cast<Sum>(members_.below(extra, beyond_)) - cursor_needs_ + meet();
}

// Drops the claims whose need is met by now. Those that need extras for it lie behind the others.
Sum ClaimGroup::meet() {
  const std::int64_t most = each_ + static_cast<std::int64_t>(steps_.size());
  Sum over = 0;
  for (std::size_t at = first_; at < claims_.size() && claims_[at].need <= most; ++at) {
    const Claim& claim = claims_[at];
    if (claim.need <= each_) first_ = at + 1;
    if (!left_.has(claim.rank)) continue;
    const std::int64_t held = each_ + extras(claim.rank);
    if (held < claim.need) continue;
    over += Sum{held} - claim.need;
    left_.erase(claim.rank);
    --count_;
  }
  return over;
}

void Claims::clear() {
  valid_ = false;
  groups_.clear();
}

std::size_t Claims::find(std::int32_t priority, std::int64_t weight) const {
  const auto at = std::find_if(groups_.begin(), groups_.end(), [&](const ClaimGroup& group) {
    return group.priority() < priority ||
           (group.priority() == priority && group.weight() >= weight);
  });
  return static_cast<std::size_t>(at - groups_.begin());
}

bool Claims::build(const Siblings& siblings) {
  clear();
  ranks_ = siblings.rank.size();
  valid_ = true;
  std::vector<std::uint32_t> order(ranks_);
  for (std::uint32_t i = 0; i < ranks_; ++i) order[i] = i;
  const auto need = [&](std::uint32_t i) { return siblings.request[i] - siblings.floor[i]; };
  const auto hungry = [&](std::uint32_t i) { return need(i) > 0 && siblings.weight[i] > 0; };
  std::erase_if(order, [&](std::uint32_t i) { return !hungry(i); });
  // In this order each claim is the last of its group so far.
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return Claim{need(a), siblings.rank[a]} < Claim{need(b), siblings.rank[b]};
  });
  for (const std::uint32_t i : order) {
    const Claim claim{need(i), siblings.rank[i]};
    if (!insert(siblings.priority[i], siblings.weight[i], claim)) return false;
  }
  return true;
}

bool Claims::insert(std::int32_t priority, std::int64_t weight, Claim claim) {
  const std::size_t at = find(priority, weight);
  const bool known =
      at < groups_.size() && groups_[at].priority() == priority && groups_[at].weight() == weight;
  if (!known) {
    if (groups_.size() == kMostGroups) {
      clear();
      return false;
    }
    const auto place = groups_.begin() + static_cast<std::ptrdiff_t>(at);
    groups_.insert(place, ClaimGroup(priority, weight, ranks_));
  }
  groups_[at].insert(claim);
  return true;
}

void Claims::erase(std::int32_t priority, std::int64_t weight, Claim claim) {
  groups_[find(priority, weight)].erase(claim);
}

void Claims::replace(std::int32_t priority, std::int64_t weight, Claim before, Claim after) {
  groups_[find(priority, weight)].replace(before, after);
}

std::int64_t Claims::granted(std::int32_t priority, std::int64_t weight, Claim claim) const {
  return groups_[find(priority, weight)].granted(claim);
}

bool Claims::share(std::int64_t pool) {
  for (ClaimGroup& group : groups_) group.start();
  int rounds = 0;
  for (auto begin = groups_.begin(); begin != groups_.end();) {
    const auto end = std::find_if(begin, groups_.end(), [&](const ClaimGroup& group) {
      return group.priority() != begin->priority();
    });
    const auto open = [](const ClaimGroup& group) { return group.count() > 0; };
    while (pool > 0 && std::any_of(begin, end, open)) {
      if (++rounds > kMostRounds) return false;
      pool = round(pool, {begin, end});
    }
    begin = end;
  }
  return true;
}

// One round of the groups of one priority; returns what comes back.
std::int64_t Claims::round(std::int64_t pool, std::span<ClaimGroup> groups) {
  Sum weight = 0;
  for (const ClaimGroup& group : groups)
    weight += Sum{group.weight()} * static_cast<Sum>(group.count());
  const Divider divide(pool, weight);
  Sum residual = pool;
  portions_.clear();
  for (ClaimGroup& group : groups) {
    if (group.count() == 0) continue;
    const auto [grant, remainder] = divide(group.weight());
    residual -= Sum{grant} * static_cast<Sum>(group.count());
    portions_.push_back({&group, grant, remainder, 0});
  }
  place_extras(static_cast<std::size_t>(residual));
  Sum over = 0;
  for (const Portion& portion : portions_)
    over += portion.group->give(portion.grant, portion.extra);
  return static_cast<std::int64_t>(over);
}

// The units left after rounding down go to the largest remainders, ties in name order.
void Claims::place_extras(std::size_t residual) {
  std::sort(portions_.begin(), portions_.end(),
            [](const Portion& a, const Portion& b) { return a.remainder > b.remainder; });
  for (auto begin = portions_.begin(); begin != portions_.end() && residual > 0;) {
    auto end = begin;
    std::size_t count = 0;
    std::vector<const RankSet*> tied;
    for (; end != portions_.end() && end->remainder == begin->remainder; ++end) {
      tied.push_back(&end->group->ranks());
      count += end->group->count();
    }
    const bool all = residual >= count;
    const std::uint32_t extra =
        all ? std::numeric_limits<std::uint32_t>::max() : RankSet::nth(tied, residual);
    for (; begin != end; ++begin) begin->extra = extra;
    residual = all ? residual - count : 0;
  }
}

}  // namespace koord::quota
