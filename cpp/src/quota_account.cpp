// SPDX-License-Identifier: Apache-2.0
// Requests and use run up the tree by deltas. A request stops where a limit hides the change; use
// goes to the root. Every group's sums are those of its children and its own charges, always.
#include <algorithm>

#include "quota_state.hpp"

namespace koord::quota {
namespace {

constexpr std::size_t index(Charge kind) { return static_cast<std::size_t>(kind); }
constexpr Charge kUseCharges[] = {Charge::kUsed, Charge::kNonPreemptibleRequest,
                                  Charge::kNonPreemptibleUsed};

/// The account to read; a resource that nothing was said about has zeros.
const Account& peek(const Group& group, ResourceId resource) {
  static const Account kNothing;
  return resource < group.accounts.size() ? group.accounts[resource] : kNothing;
}

}  // namespace

Account& QuotaTree::State::account(GroupId id, ResourceId resource) {
  auto& accounts = groups[id].accounts;
  if (accounts.size() <= resource) accounts.resize(resource + 1);
  return accounts[resource];
}

Sum QuotaTree::State::child_request(const Group& group, ResourceId resource) const {
  const Account& account = peek(group, resource);
  const bool counts = group.spec.max.has(resource);
  return account.children_request + (counts ? account.self[index(Charge::kRequest)] : Sum{0});
}

Sum QuotaTree::State::request(const Group& group, ResourceId resource) const {
  const Sum asked = child_request(group, resource);
  return lends(group) ? asked : std::max<Sum>(asked, group.spec.min.get(resource));
}

std::int64_t QuotaTree::State::limited_request(const Group& group, ResourceId resource) const {
  const std::int64_t asked = saturate(request(group, resource));
  return group.spec.max.has(resource) ? std::min(asked, group.spec.max.get(resource)) : asked;
}

Sum QuotaTree::State::allocated(const Group& group, ResourceId resource) const {
  const Account& account = peek(group, resource);
  const bool counts = group.spec.max.has(resource);
  return account.children_guarantee + (counts ? account.self[index(Charge::kUsed)] : Sum{0});
}

Row QuotaTree::State::row(GroupId id, ResourceId resource) const {
  const Group& group = groups[id];
  const Account& account = peek(group, resource);
  return {group.weight.get(resource), account.limited, group.spec.min.get(resource),
          account.guaranteed};
}

void QuotaTree::State::settle_request(GroupId id, ResourceId resource) {
  while (true) {
    Account& own = account(id, resource);
    const std::int64_t limited = limited_request(groups[id], resource);
    const Sum delta = Sum{limited} - own.limited;
    const GroupId parent = groups[id].parent;
    if (delta == 0) return;
    own.limited = limited;
    if (parent == kNoGroup) return;
    if (!groups[id].builtin) {
      Level& level = groups[parent].children;
      level.column(resource).set(groups[id].slot, row(id, resource), level.roster());
    }
    account(parent, resource).children_request += delta;
    id = parent;
  }
}

void QuotaTree::State::settle_guarantee(GroupId id, ResourceId resource) {
  if (!options.guarantee_usage) return;
  for (; id != kNoGroup && !groups[id].builtin; id = groups[id].parent) {
    Account& own = account(id, resource);
    const std::int64_t floor = groups[id].spec.min.get(resource);
    const std::int64_t guaranteed = std::max(saturate(allocated(groups[id], resource)), floor);
    const Sum delta = Sum{guaranteed} - own.guaranteed;
    const GroupId parent = groups[id].parent;
    own.guaranteed = guaranteed;
    if (delta == 0 || parent == kNoGroup) return;
    Level& level = groups[parent].children;
    level.column(resource).set(groups[id].slot, row(id, resource), level.roster());
    account(parent, resource).children_guarantee += delta;
  }
}

void QuotaTree::State::add_use(GroupId id, ResourceId resource, Charge kind, Sum delta) {
  if (delta == 0) return;
  for (GroupId at = id; at != kNoGroup; at = groups[at].parent) {
    account(at, resource).subtree[index(kind)] += delta;
  }
  if (kind == Charge::kUsed) settle_guarantee(id, resource);
}

void QuotaTree::State::count_own_use(GroupId id, ResourceId resource, int sign) {
  for (const Charge kind : kUseCharges) {
    add_use(id, resource, kind, sign * account(id, resource).self[index(kind)]);
  }
}

void QuotaTree::State::tell_parent(GroupId id, ResourceId resource, int sign) {
  const GroupId parent = groups[id].parent;
  const Account own = account(id, resource);
  account(parent, resource).children_request += sign * Sum{own.limited};
  account(parent, resource).children_guarantee += sign * Sum{own.guaranteed};
  for (const Charge kind : kUseCharges) {
    add_use(parent, resource, kind, sign * own.subtree[index(kind)]);
  }
  settle_request(parent, resource);
  settle_guarantee(parent, resource);
}

Sum QuotaTree::State::figure(GroupId id, ResourceId resource, Figure figure) const {
  const Group& group = groups[id];
  const Account& account = peek(group, resource);
  switch (figure) {
    case Figure::kRequest:
      return request(group, resource);
    case Figure::kChildRequest:
      return child_request(group, resource);
    case Figure::kLimitedRequest:
      return account.limited;
    case Figure::kUsed:
      return account.subtree[index(Charge::kUsed)];
    case Figure::kNonPreemptibleRequest:
      return account.subtree[index(Charge::kNonPreemptibleRequest)];
    case Figure::kNonPreemptibleUsed:
      return account.subtree[index(Charge::kNonPreemptibleUsed)];
    case Figure::kSelfRequest:
      return account.self[index(Charge::kRequest)];
    case Figure::kSelfUsed:
      return account.self[index(Charge::kUsed)];
    case Figure::kSelfNonPreemptibleRequest:
      return account.self[index(Charge::kNonPreemptibleRequest)];
    case Figure::kSelfNonPreemptibleUsed:
      return account.self[index(Charge::kNonPreemptibleUsed)];
    case Figure::kAllocated:
      return options.guarantee_usage ? allocated(group, resource) : Sum{0};
    case Figure::kGuaranteed:
      break;
  }
  return account.guaranteed;
}

void QuotaTree::charge(GroupId id, Charge kind, const Amounts& delta) {
  State& state = *state_;
  state.check_id(id);
  if (id == kRoot || !state.groups[id].defined) {
    throw Exception(invalid("quota", state.groups[id].name, "a group that pods can be charged to"));
  }
  for_each_resource(delta.keys(), [&](ResourceId resource) {
    Sum& self = state.account(id, resource).self[index(kind)];
    const Sum before = self;
    self = std::max<Sum>(self + delta.get(resource), 0);
    const Sum change = self - before;
    if (!state.groups[id].spec.max.has(resource)) return;
    if (kind == Charge::kRequest) {
      state.settle_request(id, resource);
    } else {
      state.add_use(id, resource, kind, change);
    }
  });
}

}  // namespace koord::quota
