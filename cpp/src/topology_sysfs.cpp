// SPDX-License-Identifier: Apache-2.0
// Reads a machine as Linux describes it below sys/devices/system (Documentation/ABI/stable/
// sysfs-devices-system-cpu and sysfs-devices-node). Every file is optional, for kernels, containers
// and dumps leave some out; a file that is there must make sense.
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "koord/topology.hpp"
#include "topology_files.hpp"

namespace koord {
namespace {

using detail::numbered_entries;
using detail::read_int;
using detail::read_set;

constexpr int kL3 = 3;

// What one cpuN directory tells; the numbers in it are made unique later.
struct RawCpu {
  CpuInfo info;
  int core_leader = kUnknown;  // lowest CPU of its core
  int l3_leader = kUnknown;    // lowest CPU under its L3, or the cache's id where no set is told
  int l3_id = kUnknown;        // the kernel's number of its L3
};

// A set that lacks the CPU it belongs to tells nothing: some kernels print 0 for offline CPUs.
int leader(const CpuSet& set, int cpu) { return set.contains(cpu) ? set.first() : kUnknown; }

// A negative number is how firmware that does not know is passed on.
int known(std::optional<int> value) { return value && *value >= 0 ? *value : kUnknown; }

void read_core(const std::string& directory, RawCpu& raw) {
  const std::string topology = directory + "/topology/";
  raw.info.socket = known(read_int(topology + "physical_package_id"));
  raw.info.core = known(read_int(topology + "core_id"));
  auto threads = read_set(topology + "core_cpus_list", topology + "core_cpus");
  if (!threads) {
    threads = read_set(topology + "thread_siblings_list", topology + "thread_siblings");
  }
  if (threads) raw.core_leader = leader(*threads, raw.info.cpu);
}

void read_l3(const std::string& directory, RawCpu& raw) {
  for (const int index : numbered_entries(directory + "/cache", "index")) {
    const std::string cache = directory + "/cache/index" + std::to_string(index) + "/";
    if (read_int(cache + "level") != kL3) continue;
    raw.l3_id = known(read_int(cache + "id"));
    const auto shared = read_set(cache + "shared_cpu_list", cache + "shared_cpu_map");
    raw.l3_leader = shared ? leader(*shared, raw.info.cpu) : raw.l3_id;
    return;
  }
}

CpuSet present_cpus(const std::string& cpus) {
  CpuSet present;
  if (const auto told = read_set(cpus + "/present", "")) present |= *told;
  for (const int cpu : numbered_entries(cpus, "cpu")) {
    if (cpu > CpuSet::kMaxId) {
      throw Exception(invalid(cpus, "cpu" + std::to_string(cpu), "ids of at most 8191"));
    }
    present.insert(cpu);
  }
  return present;
}

// cpu0 often has no `online` file, for it cannot be taken offline.
bool is_online(const std::string& directory, const std::optional<CpuSet>& online, int cpu) {
  if (online) return online->contains(cpu);
  const std::string path = directory + "/online";
  const auto told = read_int(path);
  if (told && *told != 0 && *told != 1) {
    throw Exception(invalid(path, std::to_string(*told), "0 or 1"));
  }
  return !told || *told == 1;
}

std::vector<RawCpu> read_cpus(const std::string& cpus) {
  const auto online = read_set(cpus + "/online", "");
  std::vector<RawCpu> raw;
  for (const int cpu : present_cpus(cpus)) {
    const std::string directory = cpus + "/cpu" + std::to_string(cpu);
    RawCpu& one = raw.emplace_back();
    one.info.cpu = cpu;
    one.info.online = is_online(directory, online, cpu);
    read_core(directory, one);
    read_l3(directory, one);
    const auto nodes = numbered_entries(directory, "node");
    if (nodes.size() == 1) one.info.node = nodes.front();
  }
  return raw;
}

// The node's own list wins over the link in the CPU's directory, which dumps often lose.
void read_nodes(const std::string& nodes, std::vector<RawCpu>& raw) {
  std::map<int, int> node_of;
  for (const int node : numbered_entries(nodes, "node")) {
    const std::string directory = nodes + "/node" + std::to_string(node);
    const auto cpus = read_set(directory + "/cpulist", directory + "/cpumap");
    if (!cpus) continue;
    for (const int cpu : *cpus) {
      if (node_of.try_emplace(cpu, node).second) continue;
      throw Exception(invalid(
          directory, "cpu" + std::to_string(cpu),
          "each cpu on one node, this one is on node" + std::to_string(node_of[cpu]) + " too"));
    }
  }
  for (RawCpu& one : raw) {
    if (const auto found = node_of.find(one.info.cpu); found != node_of.end()) {
      one.info.node = found->second;
    }
  }
}

// Core ids repeat between sockets, and on some machines between the nodes of one; only the sibling
// sets are sure. Where they are told they decide, and the ids give no more than the order.
void number_cores(std::vector<RawCpu>& raw) {
  using Key = std::tuple<int, int, int, int>;
  std::map<int, Key> by_leader;
  std::map<Key, int> numbers;
  const auto key_of = [&](const RawCpu& one) {
    const auto& info = one.info;
    if (one.core_leader == kUnknown) return Key{info.socket, info.core, info.node, kUnknown};
    const Key own{info.socket, info.core, kUnknown, one.core_leader};
    return by_leader.try_emplace(one.core_leader, own).first->second;
  };
  const auto told = [](const RawCpu& one) {
    return one.core_leader != kUnknown || one.info.core != kUnknown;
  };
  for (const RawCpu& one : raw) {
    if (told(one)) numbers.try_emplace(key_of(one));
  }
  int next = 0;
  for (auto& [key, number] : numbers) number = next++;
  std::vector<int> cores;
  cores.reserve(raw.size());
  for (const RawCpu& one : raw) cores.push_back(told(one) ? numbers[key_of(one)] : kUnknown);
  for (std::size_t i = 0; i < raw.size(); ++i) raw[i].info.core = cores[i];
}

// The kernel's cache ids are what resctrl speaks of, so they are kept where each domain has its
// own.
void number_l3(std::vector<RawCpu>& raw) {
  std::map<int, int> numbers;
  std::set<int> ids;
  bool kernel_ids = true;
  for (const RawCpu& one : raw) {
    if (one.l3_leader == kUnknown) continue;
    const auto [domain, added] = numbers.try_emplace(one.l3_leader, one.l3_id);
    if (added) kernel_ids &= one.l3_id != kUnknown && ids.insert(one.l3_id).second;
    kernel_ids &= domain->second == one.l3_id;
  }
  int next = 0;
  if (!kernel_ids) {
    for (auto& [domain, number] : numbers) number = next++;
  }
  for (RawCpu& one : raw) {
    if (one.l3_leader != kUnknown) one.info.l3 = numbers[one.l3_leader];
  }
}

std::string system_directory(const std::string& root) {
  struct stat status{};
  if (::stat(root.c_str(), &status) != 0) throw Exception(system_error("read", root, errno));
  std::string system = root + (root.ends_with('/') ? "" : "/") + "sys/devices/system";
  if (::stat((system + "/cpu").c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) {
      throw Exception(system_error("read", system + "/cpu", errno));
    }
    throw Exception(invalid("root", root, "a directory that contains sys/devices/system/cpu"));
  }
  return system;
}

}  // namespace

Result<Topology> Topology::from_sysfs(const std::string& root) {
  try {
    const std::string system = system_directory(root);
    std::vector<RawCpu> raw = read_cpus(system + "/cpu");
    read_nodes(system + "/node", raw);
    number_cores(raw);
    number_l3(raw);
    std::vector<CpuInfo> cpus;
    cpus.reserve(raw.size());
    for (const RawCpu& one : raw) cpus.push_back(one.info);
    auto topology = from_cpus(std::move(cpus));
    if (topology) return topology;
    Error error = topology.error();
    error.field = root + ": " + error.field;
    return error;
  } catch (const Exception& exception) {
    return exception.error();
  }
}

}  // namespace koord
