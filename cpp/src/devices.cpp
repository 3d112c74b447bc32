// SPDX-License-Identifier: Apache-2.0
#include "koord/devices.hpp"

#include <algorithm>

namespace koord::devices {
namespace {

template <class Body>
void for_each_minor(MinorMask minors, Body body) {
  for (; minors != 0; minors &= minors - 1) body(std::countr_zero(minors));
}

}  // namespace

DeviceTable::DeviceTable(std::vector<std::string> resources) : resources_(std::move(resources)) {
  if (resources_.empty() || resources_.size() > kMaxResources) {
    throw Exception(invalid("device resources", std::to_string(resources_.size()), "1 to 8 names"));
  }
  total_.resize(resources_.size());
  used_.resize(resources_.size());
  free_.resize(resources_.size());
}

void DeviceTable::check_devices(std::span<const Device> devices) const {
  MinorMask seen = 0;
  for (const Device& device : devices) {
    const std::string minor = std::to_string(device.minor);
    if (device.minor < 0 || device.minor >= kMaxMinors) {
      throw Exception(invalid("device minor", minor, "0 to 63"));
    }
    const MinorMask bit = MinorMask{1} << device.minor;
    if ((seen & bit) != 0) throw Exception(invalid("device minor", minor, "each minor once"));
    seen |= bit;
    if (device.total.size() != resources_.size()) {
      throw Exception(invalid("device total", std::to_string(device.total.size()) + " amounts",
                              "one amount a resource"));
    }
    for (const std::int64_t amount : device.total) {
      if (amount < 0 || amount > kMaxAmount) {
        throw Exception(invalid("device total", std::to_string(amount), "0 to 2^50"));
      }
    }
  }
}

std::uint32_t DeviceTable::add_row(std::span<const Device> devices) {
  check_devices(devices);
  const auto row = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({.offset = topology_.size()});
  update_row(row, devices);
  return row;
}

void DeviceTable::update_row(std::uint32_t row, std::span<const Device> devices) {
  check_devices(devices);
  std::int32_t width = nodes_[row].width;
  for (const Device& device : devices) width = std::max(width, device.minor + 1);
  widen(row, width);
  const std::size_t offset = nodes_[row].offset;
  for (std::int32_t minor = 0; minor < width; ++minor) {
    for (auto& column : total_) column[offset + static_cast<std::size_t>(minor)] = 0;
  }
  for (const Device& device : devices) {
    const std::size_t slot = offset + static_cast<std::size_t>(device.minor);
    topology_[slot] = {device.numa_node, device.pcie, device.labels};
    if (!device.healthy) continue;
    for (std::size_t r = 0; r < resources_.size(); ++r) total_[r][slot] = device.total[r];
  }
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    for (std::size_t slot = offset; slot < offset + static_cast<std::size_t>(width); ++slot) {
      free_[r][slot] = std::max<std::int64_t>(0, total_[r][slot] - used_[r][slot]);
    }
  }
  summarise(row);
}

// A row that grows moves to the end of the columns; the few slots it leaves stay unused.
void DeviceTable::widen(std::uint32_t row, std::int32_t width) {
  Node& node = nodes_[row];
  if (width <= node.width) return;
  const std::size_t from = node.offset;
  const std::size_t to = topology_.size();
  const std::size_t size = to + static_cast<std::size_t>(width);
  topology_.resize(size);
  for (auto* columns : {&total_, &used_, &free_}) {
    for (auto& column : *columns) {
      column.resize(size);
      std::copy_n(column.begin() + static_cast<std::ptrdiff_t>(from), node.width,
                  column.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  std::copy_n(topology_.begin() + static_cast<std::ptrdiff_t>(from), node.width,
              topology_.begin() + static_cast<std::ptrdiff_t>(to));
  node.offset = to;
  node.width = width;
}

void DeviceTable::summarise(std::uint32_t row) {
  Node& node = nodes_[row];
  node.free_sum = node.total_sum = node.largest = 0;
  node.present = node.idle = 0;
  for (std::int32_t minor = 0; minor < node.width; ++minor) {
    const std::size_t slot = node.offset + static_cast<std::size_t>(minor);
    node.free_sum += free_[0][slot];
    node.total_sum += total_[0][slot];
    node.largest = std::max(node.largest, free_[0][slot]);
    bool exists = false;
    bool untouched = true;
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      exists |= total_[r][slot] > 0;
      untouched &= used_[r][slot] == 0;
    }
    if (!exists) continue;
    node.present |= MinorMask{1} << minor;
    if (untouched) node.idle |= MinorMask{1} << minor;
  }
}

MinorMask DeviceTable::fitting(std::uint32_t row, std::span<const std::int64_t> each) const {
  MinorMask fit = nodes_[row].present;
  for (std::size_t r = 0; r < each.size(); ++r) {
    if (each[r] == 0) continue;
    const auto amounts = free(row, r);
    MinorMask enough = 0;
    for (std::size_t minor = 0; minor < amounts.size(); ++minor) {
      enough |= MinorMask{amounts[minor] >= each[r]} << minor;
    }
    fit &= enough;
  }
  return fit;
}

MinorMask DeviceTable::choose(std::uint32_t row, const Request& request, Choice choice,
                              SplitMix64* random) const {
  const MinorMask fit = fitting(row, request.each);
  if (std::popcount(fit) < request.count) return 0;
  const auto left = free(row, 0);
  MinorMask chosen = 0;
  for (std::int32_t i = 0; i < request.count; ++i) {
    const MinorMask rest = fit & ~chosen;
    MinorMask pick = rest & (~rest + 1);
    const bool whole = (rest & ~nodes_[row].idle) == 0;
    if (choice == Choice::kRandom && !whole) {
      auto skip = random->below(static_cast<std::uint64_t>(std::popcount(rest)));
      MinorMask others = rest;
      while (skip-- > 0) others &= others - 1;
      pick = others & (~others + 1);
    } else if (choice == Choice::kBest || choice == Choice::kWorst) {
      std::size_t at = static_cast<std::size_t>(std::countr_zero(rest));
      for_each_minor(rest, [&](int minor) {
        const auto m = static_cast<std::size_t>(minor);
        if (choice == Choice::kBest ? left[m] < left[at] : left[m] > left[at]) at = m;
      });
      pick = MinorMask{1} << at;
    }
    chosen |= pick;
  }
  return chosen;
}

std::size_t DeviceTable::checked_resource(std::size_t resource) const {
  if (resource < resources_.size()) return resource;
  throw Exception(invalid("device resource", std::to_string(resource), "an index of the table"));
}

std::span<const std::int64_t> DeviceTable::checked_amounts(
    std::span<const std::int64_t> each) const {
  if (each.size() != resources_.size()) {
    throw Exception(invalid("device request", std::to_string(each.size()) + " amounts",
                            std::to_string(resources_.size()) + ", one a resource"));
  }
  for (const std::int64_t amount : each) {
    if (amount >= 0 && amount <= kMaxAmount) continue;
    throw Exception(invalid("device request", std::to_string(amount), "0 to 2^50"));
  }
  return each;
}

const Request& DeviceTable::checked_request(const Request& request) const {
  (void)checked_amounts(request.each);
  if (request.count >= 1 && request.count <= kMaxMinors) return request;
  throw Exception(invalid("device count", std::to_string(request.count), "1 to 64"));
}

void DeviceTable::check_minors(std::uint32_t row, MinorMask minors,
                               std::span<const std::int64_t> each) const {
  const auto width = static_cast<unsigned>(nodes_[row].width);
  if (width < 64 && (minors >> width) != 0) {
    throw Exception(invalid("device minors", std::to_string(minors), "minors of the node"));
  }
  (void)checked_amounts(each);
}

void DeviceTable::take(std::uint32_t row, MinorMask minors, std::span<const std::int64_t> each) {
  check_minors(row, minors, each);
  if ((minors & ~fitting(row, each)) != 0) {
    throw Exception(invalid("device minors", std::to_string(minors), "minors with enough free"));
  }
  const std::size_t offset = nodes_[row].offset;
  for_each_minor(minors, [&](int minor) {
    const std::size_t slot = offset + static_cast<std::size_t>(minor);
    for (std::size_t r = 0; r < each.size(); ++r) {
      used_[r][slot] += each[r];
      free_[r][slot] -= each[r];
    }
  });
  summarise(row);
}

void DeviceTable::give_back(std::uint32_t row, MinorMask minors,
                            std::span<const std::int64_t> each) {
  check_minors(row, minors, each);
  const std::size_t offset = nodes_[row].offset;
  for_each_minor(minors, [&](int minor) {
    const std::size_t slot = offset + static_cast<std::size_t>(minor);
    for (std::size_t r = 0; r < each.size(); ++r) {
      if (used_[r][slot] >= each[r]) continue;
      throw Exception(invalid("released amount", std::to_string(each[r]), "at most what is used"));
    }
  });
  for_each_minor(minors, [&](int minor) {
    const std::size_t slot = offset + static_cast<std::size_t>(minor);
    for (std::size_t r = 0; r < each.size(); ++r) {
      used_[r][slot] -= each[r];
      free_[r][slot] = std::max<std::int64_t>(0, total_[r][slot] - used_[r][slot]);
    }
  });
  summarise(row);
}

}  // namespace koord::devices
