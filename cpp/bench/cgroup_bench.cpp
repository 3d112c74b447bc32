// SPDX-License-Identifier: Apache-2.0
// 500 containers x 6 files on a tree of plain files: a bare loop of openat, read and close beside
// ours with descriptors opened each time and with kept ones, and one descriptor a file beside kept
// ones.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "bench.hpp"
#include "koord/cgroup.hpp"

namespace {

using koord::cgroup::Hierarchy;
using koord::cgroup::Reader;
using koord::cgroup::ResourceSpec;
using koord::cgroup::Version;

constexpr int kContainers = 500;
constexpr std::array<std::string_view, 6> kKeys = {"cpu.stat",
                                                   "cpu.shares",
                                                   "cpu.cfs_quota_us",
                                                   "memory.stat",
                                                   "memory.usage_in_bytes",
                                                   "memory.limit_in_bytes"};
constexpr std::array<std::string_view, 6> kTexts = {
    "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\nnr_periods 100\nnr_throttled 5\n"
    "throttled_usec 12345\n",
    "39\n",
    "200000 100000\n",
    "anon 1048576\nfile 2097152\nkernel 4096\nshmem 0\ninactive_anon 1048576\nactive_anon 4096\n"
    "inactive_file 1048576\nactive_file 1048576\nunevictable 0\nslab 65536\npgfault 100000\n",
    "3145728\n",
    "max\n"};

// Built once, when the first benchmark runs; removed when the program ends.
struct Tree {
  std::filesystem::path path;
  std::vector<std::string> directories;
  std::vector<std::string> files;  // relative, in the order in which ours reads
  std::vector<const ResourceSpec*> resources;
  std::shared_ptr<const Hierarchy> hierarchy;

  Tree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "koord-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
    for (const auto key : kKeys) {
      resources.push_back(koord::cgroup::find_resource(key).value());
    }
    for (int i = 0; i < kContainers; ++i) {
      const std::string id = std::to_string(i);
      directories.push_back("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + id +
                            ".slice/cri-containerd-" + id + ".scope");
      std::filesystem::create_directories(path / directories.back());
      for (std::size_t k = 0; k < kKeys.size(); ++k) {
        files.push_back(directories.back() + "/" + std::string(resources[k]->v2.file));
        std::ofstream(path / files.back()) << kTexts[k];
      }
    }
    hierarchy = Hierarchy::open(path, Version::kV2).value();
  }
  ~Tree() { std::filesystem::remove_all(path); }
};

const Tree& tree() {
  static const Tree built;
  return built;
}

void bare_loop() {
  static const int root = ::open(tree().path.c_str(), O_PATH | O_DIRECTORY);
  std::array<char, 4096> buffer{};
  for (const auto& file : tree().files) {
    const int fd = ::openat(root, file.c_str(), O_RDONLY | O_CLOEXEC);
    koord::bench::keep(::read(fd, buffer.data(), buffer.size()));
    ::close(fd);
  }
}

void read_with(Reader& reader) {
  koord::bench::keep(reader.read(tree().directories, tree().resources));
}

const koord::bench::Register kBare("cgroup/bare openat read close, 500 x 6", bare_loop);
const koord::bench::Register kCold("cgroup/read cold, 500 x 6", [] {
  static Reader reader(tree().hierarchy, 0);
  read_with(reader);
});
const koord::bench::Register kWarm("cgroup/read kept, 500 x 6", [] {
  static Reader reader(tree().hierarchy, 3000);
  read_with(reader);
});

}  // namespace
