// SPDX-License-Identifier: Apache-2.0
// Resource names have columns, as long as some tree needs them.
#include <algorithm>

#include "quota_state.hpp"

namespace koord::quota {

ResourceId ResourceNames::find(std::string_view name) const {
  for (ResourceId id = 0; id < size(); ++id) {
    if ((free_ >> id & 1U) == 0 && names_[id] == name) return id;
  }
  return size();
}

ResourceId ResourceNames::intern(std::string_view name) {
  const ResourceId known = find(name);
  if (known < size()) return known;
  if (free_ != 0) {
    const auto id = static_cast<ResourceId>(std::countr_zero(free_));
    names_[id] = name;
    free_ &= free_ - 1;
    return id;
  }
  if (size() == kMaxResources) {
    throw Exception(invalid("resource name", name, "at most 64 different ones in a forest"));
  }
  names_.emplace_back(name);
  return size() - 1;
}

std::size_t ResourceNames::reclaim() {
  ResourceMask unneeded = ~free_;
  if (size() < kMaxResources) unneeded &= (ResourceMask{1} << size()) - 1;
  for (const ResourceUser* user : users_) unneeded &= ~user->resources();
  for_each_resource(unneeded, [&](ResourceId id) { names_[id].clear(); });
  free_ |= unneeded;
  return static_cast<std::size_t>(std::popcount(unneeded));
}

/// What follows from charges and specs (sums, requests, shares) is zero where these name nothing.
ResourceMask QuotaTree::State::resources() const {
  ResourceMask needed = total.keys();
  for (const Group& group : groups) {
    needed |= group.spec.min.keys() | group.spec.max.keys() | group.spec.weight.keys();
  }
  for (const Group& group : groups) {
    for (ResourceId k = 0; k < group.accounts.size(); ++k) {
      if ((needed >> k & 1U) != 0) continue;
      const auto& self = group.accounts[k].self;
      const bool charged = std::any_of(self.begin(), self.end(), [](Sum sum) { return sum != 0; });
      if (charged) needed |= ResourceMask{1} << k;
    }
  }
  return needed;
}

void Amounts::set(ResourceId id, std::int64_t amount) {
  if (values_.size() <= id) values_.resize(id + 1);
  values_[id] = amount;
  keys_ |= ResourceMask{1} << id;
}

bool Amounts::operator==(const Amounts& other) const {
  bool same = keys_ == other.keys_;
  for_each_resource(keys_, [&](ResourceId k) { same = same && get(k) == other.get(k); });
  return same;
}

}  // namespace koord::quota
