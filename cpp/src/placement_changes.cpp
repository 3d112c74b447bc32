// SPDX-License-Identifier: Apache-2.0
// What changes the node table: pods that come and go, and the way back.
#include <algorithm>
#include <bit>

#include "koord/placement.hpp"

namespace koord::placement {

void NodeTable::touch(Row row) {
  ++version_;
  versions_[row] = version_;
  recent_[version_ % recent_.size()] = row;
}

void NodeTable::apply(const Placement& placement, std::int64_t sign) {
  const auto [row, id, minors] = placement;
  const Interned& entry = shapes_[id];
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    free_[r][row] -= sign * entry.shape.request[r];
    scored_[r][row] += sign * entry.shape.scored[r];
  }
  if (entry.shape.gpus.count > 0) {
    gpu_pods_[row] += sign;
    gpu_pods_of_[entry.kind][row] += sign;
  }
  touch(row);
}

void NodeTable::commit(const Placement& placement) {
  const auto [row, id, minors] = placement;
  const devices::Request& gpus = shapes_[id].shape.gpus;
  if (std::popcount(minors) != gpus.count) {
    throw Exception(invalid("gpus", std::to_string(std::popcount(minors)),
                            std::to_string(gpus.count) + " of them"));
  }
  if (minors != 0) gpus_.take(row, minors, gpus.each);
  apply(placement, 1);
  if (marks_ > 0) journal_.push_back({placement, true});
}

void NodeTable::remove(const Placement& placement) {
  const auto [row, id, minors] = placement;
  const Shape& shape = shapes_[id].shape;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    if (shape.request[r] <= capacity_[r][row] - free_[r][row]) continue;
    throw Exception(invalid(resources_[r], std::to_string(shape.request[r]),
                            "at most what is requested on " + names_[row]));
  }
  if (minors != 0) gpus_.give_back(row, minors, shape.gpus.each);
  apply(placement, -1);
  if (marks_ > 0) journal_.push_back({placement, false});
}

std::size_t NodeTable::mark() {
  ++marks_;
  return journal_.size();
}

// What a pod held before it was removed, which is more than is free where a node has lost GPUs
// since the pod came.
void NodeTable::return_gpus(Row row, MinorMask minors, std::span<const std::int64_t> each) {
  if ((minors & ~gpus_.fitting(row, each)) == 0) return gpus_.take(row, minors, each);
  for (MinorMask rest = minors; rest != 0; rest &= rest - 1) {
    gpus_.charge(row, std::countr_zero(rest), each);
  }
}

void NodeTable::undo(std::size_t mark) {
  while (journal_.size() > mark) {
    const Change change = journal_.back();
    const devices::Request& gpus = shapes_[change.placement.shape].shape.gpus;
    const auto [row, id, minors] = change.placement;
    if (minors != 0 && change.committed) gpus_.give_back(row, minors, gpus.each);
    if (minors != 0 && !change.committed) return_gpus(row, minors, gpus.each);
    apply(change.placement, change.committed ? -1 : 1);
    journal_.pop_back();
  }
  forget();
}

void NodeTable::forget() {
  if (marks_ == 0) throw Exception(invalid("mark", "none", "an open mark"));
  if (--marks_ == 0) journal_.clear();
}

}  // namespace koord::placement
