// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "koord/cgroup.hpp"
#include "koord/cgroup_path.hpp"
#include "text.hpp"

namespace koord::cgroup {
namespace {

constexpr std::array<std::string_view, 7> kSubsystems = {"cpu",   "cpuacct", "cpuset",    "memory",
                                                         "blkio", "net_cls", "perf_event"};

Version version_at(const std::string& path) {
  struct statfs about{};
  const bool known = ::statfs(path.c_str(), &about) == 0;
  return known && about.f_type == CGROUP2_SUPER_MAGIC ? Version::kV2 : Version::kV1;
}

std::string joined(std::string_view a, std::string_view b) {
  if (a.empty()) return std::string(b);
  std::string path(a);
  if (!b.empty()) path.append("/").append(b);
  return path;
}

}  // namespace

Result<std::shared_ptr<const Hierarchy>> Hierarchy::open(const std::string& path,
                                                         std::optional<Version> version,
                                                         std::string kubepods) {
  auto root = Root::open(path);
  if (!root) return root.error();
  auto hierarchy = std::shared_ptr<Hierarchy>(
      new Hierarchy(std::move(root).value(), version ? *version : version_at(path)));
  if (hierarchy->version_ == Version::kV1) hierarchy->read_links();
  if (kubepods.empty()) {
    const std::string systemd(kubepods_directory(Driver::kSystemd));
    const FileSpec cpu{hierarchy->version_ == Version::kV1 ? "cpu" : "", "", {}, {}, {}};
    const bool there = hierarchy->root_.exists(hierarchy->directory_of(cpu, systemd));
    kubepods = there ? systemd : std::string(kubepods_directory(Driver::kCgroupfs));
  }
  hierarchy->kubepods_ = std::move(kubepods);
  return std::shared_ptr<const Hierarchy>(std::move(hierarchy));
}

void Hierarchy::read_links() {
  for (const auto name : kSubsystems) {
    std::array<char, NAME_MAX + 1> target{};
    const std::string link = joined(root_.path(), name);
    const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
    const std::string_view text(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    // Only a neighbour: a link that leads elsewhere stays refused.
    if (text.empty() || text == "." || text == ".." || text.find('/') != std::string_view::npos) {
      continue;
    }
    links_.emplace_back(name, text);
  }
}

std::string_view Hierarchy::subsystem(std::string_view name) const {
  for (const auto& [link, target] : links_) {
    if (link == name) return target;
  }
  return name;
}

std::string Hierarchy::directory_of(const FileSpec& file, std::string_view directory) const {
  return joined(subsystem(file.directory), directory);
}

std::string Hierarchy::path_of(const FileSpec& file, std::string_view directory) const {
  return joined(directory_of(file, directory), file.file);
}

}  // namespace koord::cgroup
