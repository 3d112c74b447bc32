// SPDX-License-Identifier: Apache-2.0
// Trees beside the default one take their totals out of the cluster's.
#include "quota_state.hpp"

namespace koord::quota {

Forest::Forest(Options options) : options_(options), names_(std::make_shared<ResourceNames>()) {
  trees_.emplace("", std::make_shared<QuotaTree>(options_, names_));
}

std::shared_ptr<QuotaTree> Forest::tree(std::string_view id) {
  const auto found = trees_.find(id);
  if (found != trees_.end()) return found->second;
  // System and default group are the cluster's: they are accounted for in the default tree.
  Options options = options_;
  options.builtin_groups = false;
  return trees_.emplace(id, std::make_shared<QuotaTree>(options, names_)).first->second;
}

std::vector<std::string> Forest::ids() const {
  std::vector<std::string> ids;
  ids.reserve(trees_.size());
  for (const auto& [id, tree] : trees_) ids.push_back(id);
  return ids;
}

void Forest::set_cluster_total(Amounts total) {
  cluster_total_ = std::move(total);
  refresh_default_total();
}

void Forest::set_tree_total(std::string_view id, Amounts total, bool deducted) {
  if (id.empty()) {
    throw Exception(invalid("quota tree", id, "a tree other than the default one"));
  }
  if (deducted) {
    deducted_.insert_or_assign(std::string(id), total);
  } else {
    deducted_.erase(std::string(id));
  }
  tree(id)->set_total(std::move(total));
  refresh_default_total();
}

void Forest::remove_tree(std::string_view id) {
  const auto found = trees_.find(id);
  if (id.empty() || found == trees_.end()) {
    throw Exception(not_found("quota tree", id, "a tree other than the default one"));
  }
  trees_.erase(found);
  deducted_.erase(std::string(id));
  refresh_default_total();
}

void Forest::refresh_default_total() {
  Amounts left;
  for (ResourceId k = 0; k < names_->size(); ++k) {
    Sum amount = cluster_total_.get(k);
    bool known = cluster_total_.has(k);
    for (const auto& [id, total] : deducted_) {
      amount -= total.get(k);
      known = known || total.has(k);
    }
    if (known) left.set(k, saturate(amount));
  }
  trees_.find("")->second->set_total(std::move(left));
}

}  // namespace koord::quota
