// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_replay.hpp"

namespace koord::placement {

Replay::Replay(NodeTable& table, Placer& placer,
               std::shared_ptr<const devices::FragmentationMeasure> measure)
    : table_(table), placer_(placer), measure_(std::move(measure)) {
  if (&placer_.table() != &table_) {
    throw Exception(invalid("placer", "one of another table", "one of the replay's table"));
  }
  for (const std::string& model : table_.model_names()) {
    accepted_.push_back(measure_->accepted(model));
  }
  for (Row row = 0; row < table_.rows(); ++row) {
    nodes_.push_back(node_sums(row));
    for (std::size_t i = 0; i < cluster_.size(); ++i) cluster_[i] += nodes_[row][i];
    free_milli_ += table_.gpus().free_sums()[row];
    used_milli_ += table_.gpus().total_sums()[row] - table_.gpus().free_sums()[row];
  }
}

devices::FragmentSums Replay::node_sums(Row row) const {
  return measure_->sums(table_.free(kCpu)[row], measure_->profile(table_.gpus().free(row, 0)),
                        accepted_[table_.model(row)]);
}

void Replay::check(std::span<const ShapeId> arrivals) const {
  if (table_.rows() != nodes_.size()) {
    throw Exception(invalid("table", std::to_string(table_.rows()) + " nodes",
                            "the " + std::to_string(nodes_.size()) + " of the replay's start"));
  }
  for (const ShapeId shape : arrivals) {
    if (shape < table_.shapes()) continue;
    throw Exception(not_found("shape", std::to_string(shape), "a shape of the table"));
  }
}

void Replay::run(std::span<const ShapeId> arrivals) {
  check(arrivals);
  for (const ShapeId shape : arrivals) {
    arrived_milli_ += table_.shape(shape).gpu_total();
    const auto placed = placer_.place(shape);
    if (!placed) {
      record(ReplayRows::kNowhere);
      continue;
    }
    used_milli_ += table_.shape(shape).gpu_total();
    free_milli_ -= table_.shape(shape).gpu_total();
    const devices::FragmentSums after = node_sums(placed->row);
    devices::FragmentSums& before = nodes_[placed->row];
    for (std::size_t i = 0; i < cluster_.size(); ++i) cluster_[i] += after[i] - before[i];
    before = after;
    record(static_cast<std::int32_t>(placed->row));
  }
}

void Replay::record(std::int32_t node) {
  const double amount = devices::fragment_amount(cluster_);
  const auto idle = static_cast<double>(free_milli_);
  rows_.used_milli.push_back(used_milli_);
  rows_.arrived_milli.push_back(arrived_milli_);
  rows_.fragment_milli.push_back(amount);
  rows_.fragment_percent.push_back(free_milli_ == 0 ? 0 : 100 * amount / idle);
  rows_.node.push_back(node);
}

}  // namespace koord::placement
