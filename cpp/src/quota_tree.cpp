// SPDX-License-Identifier: Apache-2.0
// Groups come, change, move and go.
#include <algorithm>

#include "quota_state.hpp"

namespace koord::quota {
namespace {

void check_not_negative(std::string_view group, std::string_view field, const Amounts& amounts,
                        const ResourceNames& names) {
  for_each_resource(amounts.keys(), [&](ResourceId k) {
    if (amounts.get(k) >= 0) return;
    std::string found = std::string(group) + ": " + std::string(field) + "." + names.name(k);
    found += "=" + std::to_string(amounts.get(k));
    throw Exception(invalid("quota", found, "an amount of 0 or more"));
  });
}

/// The weights, or max where none is above zero.
const Amounts& effective_weight(const GroupSpec& spec) {
  bool weighted = false;
  for_each_resource(spec.weight.keys(), [&](ResourceId k) { weighted |= spec.weight.get(k) != 0; });
  return weighted ? spec.weight : spec.max;
}

}  // namespace

QuotaTree::State::State(Options chosen, std::shared_ptr<ResourceNames> shared)
    : options(chosen), names(shared ? std::move(shared) : std::make_shared<ResourceNames>()) {
  names->users_.push_back(this);
}

QuotaTree::State::~State() { std::erase(names->users_, this); }

QuotaTree::QuotaTree(Options options, std::shared_ptr<ResourceNames> names)
    : state_(std::make_unique<State>(options, std::move(names))) {
  state_->create_builtin(kRootName);
  if (!options.builtin_groups) return;
  for (const std::string_view name : {kSystemName, kDefaultName}) {
    const GroupId id = state_->create_builtin(name);
    state_->groups[id].spec.parent = kRootName;
    state_->groups[id].parent = kRoot;
  }
}

QuotaTree::~QuotaTree() = default;
QuotaTree::QuotaTree(QuotaTree&&) noexcept = default;
QuotaTree& QuotaTree::operator=(QuotaTree&&) noexcept = default;

ResourceNames& QuotaTree::resources() noexcept { return *state_->names; }
const Options& QuotaTree::options() const noexcept { return state_->options; }
void QuotaTree::set_total(Amounts total) { state_->total = std::move(total); }
const Amounts& QuotaTree::total() const noexcept { return state_->total; }

GroupId QuotaTree::State::create(std::string_view name) {
  GroupId id = static_cast<GroupId>(groups.size());
  if (free_ids.empty()) {
    groups.emplace_back();
  } else {
    id = free_ids.back();
    free_ids.pop_back();
    groups[id] = Group{};
  }
  groups[id].name = name;
  by_name.emplace(name, id);
  return id;
}

GroupId QuotaTree::State::create_builtin(std::string_view name) {
  const GroupId id = create(name);
  groups[id].spec.parent.clear();
  groups[id].spec.allow_lent = false;
  groups[id].defined = groups[id].builtin = true;
  return id;
}

GroupId QuotaTree::State::intern(std::string_view name) {
  const auto found = by_name.find(name);
  return found == by_name.end() ? create(name) : found->second;
}

void QuotaTree::State::discard_if_unused(GroupId id) {
  if (groups[id].defined || !groups[id].children.empty()) return;
  by_name.erase(groups[id].name);
  groups[id] = Group{};
  free_ids.push_back(id);
}

void QuotaTree::State::check_id(GroupId id) const {
  if (id < groups.size() && (groups[id].defined || !groups[id].name.empty())) return;
  throw Exception(not_found("quota id", std::to_string(id), "the id of a group of this tree"));
}

bool QuotaTree::State::lends(const Group& group) const {
  return group.spec.allow_lent && !options.guarantee_usage;
}

bool QuotaTree::State::detached(GroupId id) const {
  while (groups[id].parent != kNoGroup) id = groups[id].parent;
  return id != kRoot;
}

void QuotaTree::State::check_spec(std::string_view name, const GroupSpec& spec) const {
  check_not_negative(name, "min", spec.min, *names);
  check_not_negative(name, "max", spec.max, *names);
  check_not_negative(name, "weight", spec.weight, *names);
  const auto refuse = [&](std::string_view expected) {
    const std::string found = std::string(name) + ": parent=" + spec.parent;
    throw Exception(invalid("quota", found, expected));
  };
  if (spec.parent.empty() || spec.parent == name) refuse("another group as parent");
  const auto parent = by_name.find(spec.parent);
  if (parent == by_name.end()) return;
  if (groups[parent->second].builtin && parent->second != kRoot) {
    refuse("a group that can have children");
  }
  const auto own = by_name.find(name);
  for (GroupId at = parent->second; own != by_name.end() && at != kNoGroup;
       at = groups[at].parent) {
    if (at == own->second) refuse("a parent that is not below the group");
  }
}

void QuotaTree::State::count_max_keys(ResourceMask keys, bool gone) {
  for_each_resource(keys, [&](ResourceId k) {
    max_count[k] = gone ? max_count[k] - 1 : max_count[k] + 1;
    const ResourceMask bit = ResourceMask{1} << k;
    root_keys = max_count[k] > 0 ? root_keys | bit : root_keys & ~bit;
  });
}

void QuotaTree::State::attach(GroupId id, GroupId parent) {
  groups[id].parent = parent;
  Level& level = groups[parent].children;
  groups[id].slot = level.append(id, groups[id].spec, lends(groups[id]));
  for (ResourceId k = 0; k < names->size(); ++k) {
    level.column(k).set(groups[id].slot, row(id, k), level.roster());
    tell_parent(id, k, 1);
  }
}

void QuotaTree::State::detach(GroupId id) {
  const GroupId parent = groups[id].parent;
  for (ResourceId k = 0; k < names->size(); ++k) tell_parent(id, k, -1);
  const GroupId moved = groups[parent].children.erase(groups[id].slot);
  if (moved != kNoGroup) groups[moved].slot = groups[id].slot;
  groups[id].parent = kNoGroup;
  discard_if_unused(parent);
}

/// Puts a new spec in place of the old one, the parent aside, and passes on what it changes.
void QuotaTree::State::respec(GroupId id, GroupSpec spec) {
  Group& group = groups[id];
  const ResourceMask before = group.spec.max.keys();
  const ResourceMask after = spec.max.keys();
  if (!group.builtin) {
    count_max_keys(before, true);
    count_max_keys(after, false);
  }
  // Use is counted in the resources of max: take out what is no longer named while it still is.
  for_each_resource(before & ~after, [&](ResourceId k) { count_own_use(id, k, -1); });
  groups[id].spec = std::move(spec);
  groups[id].weight = effective_weight(groups[id].spec);
  for_each_resource(after & ~before, [&](ResourceId k) { count_own_use(id, k, 1); });
  for (ResourceId k = 0; k < names->size(); ++k) {
    settle_request(id, k);
    settle_guarantee(id, k);
  }
  const GroupId parent = groups[id].parent;
  if (parent == kNoGroup || groups[id].builtin) return;
  Level& level = groups[parent].children;
  level.set_spec(groups[id].slot, groups[id].spec, lends(groups[id]));
  for (ResourceId k = 0; k < names->size(); ++k) {
    level.column(k).set(groups[id].slot, row(id, k), level.roster());
  }
}

void QuotaTree::add(std::string_view name, GroupSpec spec) {
  const GroupId known = find(name);
  if (known != kNoGroup) throw Exception(invalid("quota", name, "a name that is not taken"));
  if (name.empty()) throw Exception(invalid("quota", name, "a name"));
  state_->check_spec(name, spec);
  const GroupId id = state_->intern(name);
  const GroupId parent = state_->intern(spec.parent);
  state_->groups[id].defined = true;
  state_->respec(id, std::move(spec));
  state_->attach(id, parent);
}

void QuotaTree::update(std::string_view name, GroupSpec spec) {
  const GroupId id = at(name);
  if (id == kRoot) throw Exception(invalid("quota", name, "a group other than the root"));
  State& state = *state_;
  if (state.groups[id].builtin) spec.parent = kRootName;
  state.check_spec(name, spec);
  const GroupId old_parent = state.groups[id].parent;
  const GroupId parent = state.intern(spec.parent);
  if (parent == old_parent) return state.respec(id, std::move(spec));
  state.detach(id);
  state.respec(id, std::move(spec));
  state.attach(id, parent);
}

void QuotaTree::remove(std::string_view name) {
  const GroupId id = at(name);
  State& state = *state_;
  if (state.groups[id].builtin) {
    throw Exception(invalid("quota", name, "a group that is not built in"));
  }
  state.detach(id);
  GroupSpec nothing;
  nothing.parent.clear();
  state.respec(id, std::move(nothing));
  for (Account& account : state.groups[id].accounts) account.self = {};
  state.groups[id].defined = false;
  state.discard_if_unused(id);
}

GroupId QuotaTree::find(std::string_view name) const noexcept {
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end() || !state_->groups[found->second].defined) return kNoGroup;
  return found->second;
}

GroupId QuotaTree::at(std::string_view name) const {
  const GroupId id = find(name);
  if (id == kNoGroup) throw Exception(not_found("quota", name, "a group of this tree"));
  return id;
}

const std::string& QuotaTree::name(GroupId id) const {
  state_->check_id(id);
  return state_->groups[id].name;
}

const GroupSpec& QuotaTree::spec(GroupId id) const {
  state_->check_id(id);
  return state_->groups[id].spec;
}

std::vector<GroupId> QuotaTree::State::children_by_name(GroupId id) const {
  std::vector<GroupId> children = groups[id].children.roster().group;
  for (GroupId builtin = 1; id == kRoot && builtin < groups.size() && groups[builtin].builtin;
       ++builtin) {
    children.push_back(builtin);
  }
  std::sort(children.begin(), children.end(),
            [&](GroupId a, GroupId b) { return groups[a].name < groups[b].name; });
  return children;
}

std::vector<GroupId> QuotaTree::groups() const {
  const State& state = *state_;
  std::vector<GroupId> starts;
  for (GroupId id = 1; id < state.groups.size(); ++id) {
    if (!state.groups[id].children.empty() && !state.groups[id].defined) starts.push_back(id);
  }
  std::sort(starts.begin(), starts.end(),
            [&](GroupId a, GroupId b) { return state.groups[a].name > state.groups[b].name; });
  starts.push_back(kRoot);
  std::vector<GroupId> order;
  while (!starts.empty()) {
    const GroupId id = starts.back();
    starts.pop_back();
    if (state.groups[id].defined) order.push_back(id);
    const std::vector<GroupId> children = state.children_by_name(id);
    starts.insert(starts.end(), children.rbegin(), children.rend());
  }
  return order;
}

}  // namespace koord::quota
