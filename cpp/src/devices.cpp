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
  for (auto* columns : {&free_sums_, &total_sums_, &largest_}) columns->resize(resources_.size());
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
  nodes_.push_back({.offset = places_.size()});
  for (auto* columns : {&free_sums_, &total_sums_, &largest_}) {
    for (auto& column : *columns) column.push_back(0);
  }
  dominant_.push_back(0);
  for (auto* masks : {&present_, &idle_, &listed_}) masks->push_back(0);
  groups_.emplace_back();
  partitions_.emplace_back();
  honours_.push_back(0);
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
  listed_[row] = 0;
  for (const Device& device : devices) {
    const std::size_t slot = offset + static_cast<std::size_t>(device.minor);
    listed_[row] |= MinorMask{1} << device.minor;
    places_[slot] = {device.numa_node, device.pcie, device.labels};
    if (!device.healthy) continue;
    for (std::size_t r = 0; r < resources_.size(); ++r) total_[r][slot] = device.total[r];
  }
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    for (std::size_t slot = offset; slot < offset + static_cast<std::size_t>(width); ++slot) {
      free_[r][slot] = std::max<std::int64_t>(0, total_[r][slot] - used_[r][slot]);
    }
  }
  group(row);
  summarise(row);
}

// A row that grows moves to the end of the columns; the few slots it leaves stay unused.
void DeviceTable::widen(std::uint32_t row, std::int32_t width) {
  Slots& node = nodes_[row];
  if (width <= node.width) return;
  const std::size_t from = node.offset;
  const std::size_t to = places_.size();
  const std::size_t size = to + static_cast<std::size_t>(width);
  places_.resize(size);
  for (auto* columns : {&total_, &used_, &free_}) {
    for (auto& column : *columns) {
      column.resize(size);
      std::copy_n(column.begin() + static_cast<std::ptrdiff_t>(from), node.width,
                  column.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  std::copy_n(places_.begin() + static_cast<std::ptrdiff_t>(from), node.width,
              places_.begin() + static_cast<std::ptrdiff_t>(to));
  node.offset = to;
  node.width = width;
}

void DeviceTable::summarise(std::uint32_t row) {
  for (auto* columns : {&free_sums_, &total_sums_, &largest_}) {
    for (auto& column : *columns) column[row] = 0;
  }
  MinorMask present = 0;
  MinorMask idle = 0;
  for (std::int32_t minor = 0; minor < width(row); ++minor) {
    const std::size_t slot = nodes_[row].offset + static_cast<std::size_t>(minor);
    bool exists = false;
    bool untouched = true;
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      free_sums_[r][row] += free_[r][slot];
      total_sums_[r][row] += total_[r][slot];
      largest_[r][row] = std::max(largest_[r][row], free_[r][slot]);
      exists |= total_[r][slot] > 0;
      untouched &= used_[r][slot] == 0;
    }
    present |= MinorMask{exists} << minor;
    idle |= MinorMask{exists && untouched} << minor;
  }
  present_[row] = present;
  idle_[row] = idle;
  dominant_[row] = find_dominant(row) ? 1 : 0;
}

bool DeviceTable::find_dominant(std::uint32_t row) const {
  for (std::int32_t minor = 0; minor < width(row); ++minor) {
    const std::size_t slot = nodes_[row].offset + static_cast<std::size_t>(minor);
    bool all = true;
    for (std::size_t r = 0; r < resources_.size(); ++r) all &= free_[r][slot] == largest_[r][row];
    if (all) return true;
  }
  return false;
}

MinorMask DeviceTable::fitting(std::uint32_t row, std::span<const std::int64_t> each) const {
  MinorMask fit = present_[row];
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
  if (choice == Choice::kBest && is_simple(request)) return tightest(row, request.each[0]);
  MinorMask rest = fitting(row, request.each);
  if (std::popcount(rest) < request.count) return 0;
  MinorMask chosen = 0;
  for (std::int32_t i = 0; i < request.count; ++i) {
    const bool whole = (rest & ~idle_[row]) == 0;
    const int minor = pick(row, rest, whole ? Choice::kFirst : choice, random);
    chosen |= MinorMask{1} << minor;
    rest &= ~chosen;
  }
  return chosen;
}

int DeviceTable::pick(std::uint32_t row, MinorMask rest, Choice choice, SplitMix64* random) const {
  if (choice == Choice::kRandom) {
    auto skip = random->below(static_cast<std::uint64_t>(std::popcount(rest)));
    while (skip-- > 0) rest &= rest - 1;
  }
  int picked = std::countr_zero(rest);
  if (choice == Choice::kFirst || choice == Choice::kRandom) return picked;
  const auto left = free(row, 0);
  for_each_minor(rest, [&](int minor) {
    const std::int64_t gain =
        left[static_cast<std::size_t>(minor)] - left[static_cast<std::size_t>(picked)];
    if (choice == Choice::kBest ? gain < 0 : gain > 0) picked = minor;
  });
  return picked;
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

void DeviceTable::check_request(const Request& request) const {
  (void)checked_amounts(request.each);
  if (request.count >= 1 && request.count <= kMaxMinors) return;
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

void DeviceTable::charge(std::uint32_t row, std::int32_t minor,
                         std::span<const std::int64_t> each) {
  if (minor < 0 || minor >= kMaxMinors) {
    throw Exception(invalid("device minor", std::to_string(minor), "0 to 63"));
  }
  (void)checked_amounts(each);
  widen(row, minor + 1);
  const std::size_t slot = nodes_[row].offset + static_cast<std::size_t>(minor);
  for (std::size_t r = 0; r < each.size(); ++r) {
    used_[r][slot] += each[r];
    free_[r][slot] = std::max<std::int64_t>(0, total_[r][slot] - used_[r][slot]);
  }
  summarise(row);
}

void DeviceTable::discharge(std::uint32_t row, std::int32_t minor,
                            std::span<const std::int64_t> each) {
  if (minor < 0 || minor >= width(row)) {
    throw Exception(invalid("device minor", std::to_string(minor), "a minor that is charged"));
  }
  give_back(row, MinorMask{1} << minor, each);
}

}  // namespace koord::devices
