// SPDX-License-Identifier: Apache-2.0
// Runtimes run down the tree, on demand: the levels on the way to a group are shared out again
// where their total or a child's figures changed since they last were.
#include <algorithm>

#include "quota_state.hpp"

namespace koord::quota {

ResourceMask QuotaTree::State::shared_keys(GroupId parent) const {
  return parent == kRoot ? root_keys : groups[parent].spec.max.keys();
}

/// The cluster's total less what the system and default groups use; nobody shares out either.
std::optional<std::int64_t> QuotaTree::State::root_total(ResourceId resource) const {
  Sum left = total.get(resource);
  bool known = total.has(resource);
  for (GroupId id = 1; id < groups.size() && groups[id].builtin; ++id) {
    const Sum used = figure(id, resource, Figure::kUsed);
    known = known || used != 0;
    left -= used;
  }
  return known ? std::optional(saturate(left)) : std::nullopt;
}

/// The runtime of a group whose level is settled; none in a resource its parent does not share.
std::optional<std::int64_t> QuotaTree::State::settled(GroupId id, ResourceId resource) {
  if (id == kRoot) return root_total(resource);
  const Group& group = groups[id];
  if (group.builtin) {
    return group.spec.max.has(resource) ? std::optional(group.spec.max.get(resource))
                                        : std::nullopt;
  }
  if ((shared_keys(group.parent) >> resource & 1U) == 0) return std::nullopt;
  Level& level = groups[group.parent].children;
  return level.column(resource).runtime(group.slot, level.roster());
}

void QuotaTree::State::settle_level(GroupId parent) {
  Level& level = groups[parent].children;
  level.rank([this](GroupId id) -> const std::string& { return groups[id].name; });
  for_each_resource(shared_keys(parent), [&](ResourceId k) {
    level.column(k).settle(settled(parent, k), level.roster(), fill);
  });
}

void QuotaTree::State::settle_path(GroupId id) {
  std::vector<GroupId> path;
  for (id = groups[id].parent; id != kNoGroup; id = groups[id].parent) path.push_back(id);
  for (auto parent = path.rbegin(); parent != path.rend(); ++parent) settle_level(*parent);
}

Amounts QuotaTree::State::runtime_of_settled(GroupId id) {
  Amounts result;
  for (ResourceId k = 0; k < names->size(); ++k) {
    if (const auto amount = settled(id, k)) result.set(k, *amount);
  }
  return result;
}

Amounts QuotaTree::runtime(GroupId id) {
  state_->check_id(id);
  if (state_->detached(id)) return {};
  state_->settle_path(id);
  return state_->runtime_of_settled(id);
}

Amounts QuotaTree::scaled_min(GroupId id) {
  state_->check_id(id);
  State& state = *state_;
  const Group& group = state.groups[id];
  if (group.builtin || state.detached(id)) return group.spec.min;
  state.settle_path(id);
  Level& level = state.groups[group.parent].children;
  Amounts result;
  for_each_resource(group.spec.min.keys(), [&](ResourceId k) {
    const bool shared = (state.shared_keys(group.parent) >> k & 1U) != 0;
    const auto total = shared ? state.settled(group.parent, k) : std::nullopt;
    result.set(k, level.column(k).scaled_min_of(group.slot, total, level.roster()));
  });
  return result;
}

Amounts QuotaTree::figure(GroupId id, Figure figure) const {
  state_->check_id(id);
  const State& state = *state_;
  const ResourceMask keys = state.groups[id].spec.max.keys();
  Amounts result;
  for (ResourceId k = 0; k < state.names->size(); ++k) {
    const std::int64_t amount = saturate(state.figure(id, k, figure));
    if (amount != 0 || (keys >> k & 1U) != 0) result.set(k, amount);
  }
  return result;
}

Amounts QuotaTree::State::limit(GroupId id) {
  return options.runtime_quota ? runtime_of_settled(id) : groups[id].spec.max;
}

/// Holds use plus request against a limit, in the resources that both the pod and the limit name.
Admission QuotaTree::State::check(GroupId id, const Amounts& request, const Amounts& limit,
                                  Charge used, Verdict failure) {
  const auto figure_of_use = used == Charge::kUsed ? Figure::kUsed : Figure::kNonPreemptibleUsed;
  ResourceMask exceeded = 0;
  for_each_resource(request.keys() & limit.keys(), [&](ResourceId k) {
    const Sum wanted = figure(id, k, figure_of_use) + request.get(k);
    if (wanted > limit.get(k)) exceeded |= ResourceMask{1} << k;
  });
  Admission result;
  result.request = request;
  if (exceeded == 0) return result;
  result.verdict = failure;
  result.group = id;
  result.exceeded = exceeded;
  result.limit = limit;
  for (ResourceId k = 0; k < names->size(); ++k) {
    const Sum amount = figure(id, k, figure_of_use);
    if (amount != 0 || groups[id].spec.max.has(k)) result.used.set(k, saturate(amount));
  }
  return result;
}

Admission QuotaTree::admit(GroupId id, const Amounts& request, bool non_preemptible) {
  state_->check_id(id);
  State& state = *state_;
  const GroupSpec& spec = state.groups[id].spec;
  Amounts asked;
  for_each_resource(request.keys() & spec.max.keys(),
                    [&](ResourceId k) { asked.set(k, request.get(k)); });
  if (state.detached(id)) {
    Admission result;
    result.verdict = Verdict::kDetached;
    result.group = id;
    result.request = std::move(asked);
    return result;
  }
  state.settle_path(id);
  Admission result = state.check(id, asked, state.limit(id), Charge::kUsed, Verdict::kOverRuntime);
  if (result.verdict == Verdict::kAdmitted && non_preemptible) {
    result = state.check(id, asked, spec.min, Charge::kNonPreemptibleUsed, Verdict::kOverMin);
  }
  if (!state.options.check_parents) return result;
  for (GroupId at = state.groups[id].parent;
       result.verdict == Verdict::kAdmitted && at != kRoot && at != kNoGroup;
       at = state.groups[at].parent) {
    result = state.check(at, asked, state.limit(at), Charge::kUsed, Verdict::kOverParentRuntime);
  }
  return result;
}

Explanation QuotaTree::explain(GroupId id, ResourceId resource) {
  state_->check_id(id);
  State& state = *state_;
  const Group& group = state.groups[id];
  const bool shared = !group.builtin && !state.detached(id) && resource < state.names->size() &&
                      (state.shared_keys(group.parent) >> resource & 1U) != 0;
  if (!shared) {
    throw Exception(invalid("quota", group.name, "a group whose parent shares this resource out"));
  }
  state.settle_path(id);
  Explanation result;
  result.parent = group.parent;
  Level& level = state.groups[group.parent].children;
  level.column(resource).explain(level.roster(), state.fill, result);
  return result;
}

}  // namespace koord::quota
