// SPDX-License-Identifier: Apache-2.0
// Nodes, shapes and the filter; changes are in placement_changes.cpp.
#include "koord/placement.hpp"

#include <algorithm>
#include <numeric>

namespace koord::placement {
namespace {

constexpr std::size_t kMaxResources = 64;

// One word that two shapes share only if they are equal: every part with its length before it.
std::string shape_key(const Shape& shape) {
  std::string key;
  const auto number = [&](std::int64_t value) { key += std::to_string(value) + ','; };
  for (const auto* amounts : {&shape.request, &shape.scored, &shape.gpus.each}) {
    number(static_cast<std::int64_t>(amounts->size()));
    for (const std::int64_t amount : *amounts) number(amount);
  }
  number(shape.gpus.count);
  for (const auto* words : {&shape.models, &shape.labels}) {
    number(static_cast<std::int64_t>(words->size()));
    for (const std::string& word : *words) {
      number(static_cast<std::int64_t>(word.size()));
      key += word;
    }
  }
  return key;
}

}  // namespace

void Column::push_back(std::int64_t value) {
  if (size_ == capacity_) {
    capacity_ = std::max<std::size_t>(64, capacity_ * 2);
    std::shared_ptr<std::int64_t[]> grown(new std::int64_t[capacity_]());
    std::copy_n(block_.get(), size_, grown.get());
    block_ = std::move(grown);
  }
  block_.get()[size_++] = value;
}

NodeTable::NodeTable(std::vector<std::string> resources, std::vector<std::string> gpu_resources)
    : resources_(std::move(resources)), gpus_(std::move(gpu_resources)) {
  if (resources_.empty() || resources_.size() > kMaxResources) {
    throw Exception(invalid("resources", std::to_string(resources_.size()), "1 to 64 names"));
  }
  capacity_.resize(resources_.size());
  free_.resize(resources_.size());
  scored_.resize(resources_.size());
}

void NodeTable::check_amounts(std::span<const std::int64_t> amounts, std::string_view field) const {
  if (amounts.size() != resources_.size()) {
    throw Exception(invalid(field, std::to_string(amounts.size()) + " amounts",
                            std::to_string(resources_.size()) + ", one a resource"));
  }
  for (const std::int64_t amount : amounts) {
    if (amount >= 0 && amount <= devices::kMaxAmount) continue;
    throw Exception(invalid(field, std::to_string(amount), "0 to 2^50"));
  }
}

Row NodeTable::add_node(const Node& node) {
  check_amounts(node.capacity, "capacity");
  if (row_of_.contains(node.name)) throw Exception(invalid("node", node.name, "a new name"));
  const Row row = gpus_.add_row(node.gpus);
  row_of_.emplace(node.name, row);
  names_.push_back(node.name);
  open_.push_back(1);
  const auto model = std::ranges::find(model_names_, node.model);
  models_.push_back(static_cast<std::uint32_t>(model - model_names_.begin()));
  if (model == model_names_.end()) model_names_.push_back(node.model);
  auto& labels = labels_.emplace_back();
  for (const std::string& label : node.labels) {
    const auto id = static_cast<std::uint32_t>(label_ids_.size());
    labels.push_back(label_ids_.try_emplace(label, id).first->second);
  }
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    capacity_[r].push_back(node.capacity[r]);
    free_[r].push_back(node.capacity[r]);
    scored_[r].push_back(0);
  }
  gpu_pods_.push_back(0);
  for (Column& kind : gpu_pods_of_) kind.push_back(0);
  ranks_.push_back(row);
  by_rank_.push_back(row);
  versions_.push_back(0);
  recent_.push_back(0);
  for (Interned& entry : shapes_) entry.admitted.push_back(admits(entry.shape, row));
  ++layout_;
  return row;
}

void NodeTable::close_node(Row row) {
  open_.at(row) = 0;
  // A node of that name may come back, as a new row.
  const auto named = row_of_.find(names_[row]);
  if (named != row_of_.end() && named->second == row) row_of_.erase(named);
  for (Interned& entry : shapes_) entry.admitted[row] = 0;
  ++layout_;
}

void NodeTable::set_capacity(Row row, std::span<const std::int64_t> capacity) {
  check_amounts(capacity, "capacity");
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    free_[r][row] += capacity[r] - capacity_[r][row];
    capacity_[r][row] = capacity[r];
  }
  touch(row);
}

void NodeTable::set_gpus(Row row, std::span<const devices::Device> gpus) {
  gpus_.update_row(row, gpus);
  touch(row);
}

void NodeTable::mirror(Row row, std::span<const std::int64_t> free,
                       std::span<const std::int64_t> gpu_milli) {
  std::vector<std::int64_t> capacity(free.begin(), free.end());
  for (std::int64_t& amount : capacity) amount = std::max<std::int64_t>(0, amount);
  std::vector<devices::Device> gpus;
  for (const std::int64_t milli : gpu_milli) {
    std::vector<std::int64_t> total(gpus_.resources().size(), 0);
    total[0] = milli;
    gpus.push_back({.minor = static_cast<std::int32_t>(gpus.size()),
                    .total = std::move(total),
                    .numa_node = devices::kNowhere});
  }
  gpus_.update_row(row, gpus);
  set_capacity(row, capacity);
}

Row NodeTable::row(std::string_view name) const {
  const auto found = row_of_.find(std::string(name));
  if (found == row_of_.end()) throw Exception(not_found("node", name, "a node of the table"));
  return found->second;
}

void NodeTable::set_ranks(std::span<const std::uint32_t> ranks) {
  std::vector<Row> by_rank(rows(), static_cast<Row>(rows()));
  if (ranks.size() != rows()) {
    throw Exception(invalid("ranks", std::to_string(ranks.size()), "one rank a row"));
  }
  for (Row row = 0; row < rows(); ++row) {
    if (ranks[row] >= rows() || by_rank[ranks[row]] != rows()) {
      throw Exception(invalid("rank", std::to_string(ranks[row]), "each of 0..rows-1 once"));
    }
    by_rank[ranks[row]] = row;
  }
  ranks_.assign(ranks.begin(), ranks.end());
  by_rank_ = std::move(by_rank);
  ++layout_;
}

bool NodeTable::admits(const Shape& shape, Row row) const {
  if (open_[row] == 0) return false;
  if (!shape.models.empty() &&
      std::ranges::find(shape.models, model_names_[models_[row]]) == shape.models.end()) {
    return false;
  }
  return std::ranges::all_of(shape.labels, [&](const std::string& label) {
    const auto id = label_ids_.find(label);
    return id != label_ids_.end() &&
           std::ranges::find(labels_[row], id->second) != labels_[row].end();
  });
}

ShapeId NodeTable::intern(const Shape& shape) {
  check_shape(shape);
  const auto id = static_cast<ShapeId>(shapes_.size());
  const auto [found, is_new] = shape_ids_.try_emplace(shape_key(shape), id);
  if (!is_new) return found->second;
  Interned& entry = shapes_.emplace_back();
  entry.shape = shape;
  if (entry.shape.scored.empty()) entry.shape.scored = shape.request;
  // All entries the same length keep the loops over GPU resources free of special cases.
  entry.shape.gpus.each.resize(gpus_.resources().size(), 0);
  if (shape.gpus.count > 0) entry.kind = intern_kind(entry.shape);
  for (Row row = 0; row < rows(); ++row) entry.admitted.push_back(admits(shape, row));
  return id;
}

void NodeTable::check_shape(const Shape& shape) const {
  check_amounts(shape.request, "request");
  if (!shape.scored.empty()) check_amounts(shape.scored, "scored request");
  const devices::Request& gpus = shape.gpus;
  const std::string count = std::to_string(gpus.count);
  if (gpus.count < 0 || gpus.count > devices::kMaxMinors) {
    throw Exception(invalid("gpu count", count, "0 to 64"));
  }
  if (gpus.count == 0) {
    if (!gpus.each.empty()) throw Exception(invalid("gpu count", count, "at least 1"));
    return;
  }
  (void)gpus_.checked_amounts(gpus.each);
}

std::uint32_t NodeTable::intern_kind(const Shape& shape) {
  const bool share = shape.gpus.count == 1 && shape.gpu_each() < kGpuMilli;
  const std::int32_t gpus = share ? 0 : shape.gpus.count;
  const auto found = std::ranges::find(kind_gpus_, gpus);
  const auto kind = static_cast<std::uint32_t>(found - kind_gpus_.begin());
  if (found == kind_gpus_.end()) {
    kind_gpus_.push_back(gpus);
    Column& column = gpu_pods_of_.emplace_back();
    for (Row row = 0; row < rows(); ++row) column.push_back(0);
  }
  return kind;
}

bool NodeTable::fits(ShapeId id, Row row) const {
  const Interned& entry = shapes_[id];
  if (entry.admitted[row] == 0) return false;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    if (entry.shape.request[r] > free_[r][row] && entry.shape.request[r] > 0) return false;
  }
  return gpus_.fits(row, entry.shape.gpus);
}

void NodeTable::filter(ShapeId id, std::span<std::uint8_t> mask) const {
  const Interned& entry = shapes_[id];
  std::ranges::copy(entry.admitted, mask.begin());
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const std::int64_t request = entry.shape.request[r];
    if (request == 0) continue;
    const std::int64_t* column = free_[r].data();
    for (std::size_t row = 0; row < mask.size(); ++row) {
      mask[row] = static_cast<std::uint8_t>(mask[row] & (column[row] >= request));
    }
  }
  const devices::Request& gpus = entry.shape.gpus;
  if (gpus.count == 0) return;
  if (devices::DeviceTable::is_simple(gpus)) {
    const std::int64_t* largest = gpus_.largest_free().data();
    for (std::size_t row = 0; row < mask.size(); ++row) {
      mask[row] = static_cast<std::uint8_t>(mask[row] & (largest[row] >= gpus.each[0]));
    }
    return;
  }
  for (Row row = 0; row < mask.size(); ++row) {
    if (mask[row] != 0) mask[row] = gpus_.fits(row, gpus);
  }
}

}  // namespace koord::placement
