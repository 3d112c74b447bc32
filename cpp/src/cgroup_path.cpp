// SPDX-License-Identifier: Apache-2.0
#include "koord/cgroup_path.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "text.hpp"

namespace koord::cgroup {
namespace {

// What systemd's unit names of containers begin with, by the scheme of the container id.
struct Runtime {
  std::string_view scheme;
  std::string_view prefix;
  bool has_inverse;
};
constexpr std::array<Runtime, 4> kRuntimes = {{{"docker", "docker-", true},
                                               {"containerd", "cri-containerd-", true},
                                               {"pouch", "pouch-", false},
                                               {"cri-o", "crio-", true}}};
constexpr std::string_view kScope = ".scope";
constexpr std::string_view kSlice = ".slice";

std::string_view systemd_stem(KubeQos qos) {
  switch (qos) {
    case KubeQos::kBurstable:
      return "kubepods-burstable";
    case KubeQos::kBestEffort:
      return "kubepods-besteffort";
    default:
      return "kubepods";
  }
}

std::string join(std::initializer_list<std::string_view> parts) {
  std::string path;
  for (const auto part : parts) {
    const auto bare = text::trim(part, "/");
    if (bare.empty()) continue;
    if (!path.empty()) path += '/';
    path += bare;
  }
  return path;
}

bool is_component(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

// Removes both ends when both are there and something lies between.
bool unwrap(std::string_view& name, std::string_view prefix, std::string_view suffix) {
  const bool fits = name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) &&
                    name.ends_with(suffix);
  if (fits) name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  return fits;
}

}  // namespace

std::string_view kubepods_directory(Driver driver) {
  return driver == Driver::kSystemd ? "kubepods.slice" : "kubepods";
}

std::string qos_directory(Driver driver, KubeQos qos) {
  const auto root = kubepods_directory(driver);
  if (qos == KubeQos::kGuaranteed) return std::string(root);
  if (driver == Driver::kSystemd) return join({root, std::string(systemd_stem(qos)) + ".slice"});
  return join({root, qos == KubeQos::kBurstable ? "burstable" : "besteffort"});
}

Result<std::string> pod_directory(Driver driver, KubeQos qos, std::string_view uid) {
  if (!is_component(uid)) return invalid("pod uid", uid, "a uid without '/'");
  if (driver == Driver::kCgroupfs)
    return join({qos_directory(driver, qos), "pod" + std::string(uid)});
  std::string name = std::string(systemd_stem(qos)) + "-pod" + std::string(uid);
  std::replace(name.end() - static_cast<std::ptrdiff_t>(uid.size()), name.end(), '-', '_');
  return join({qos_directory(driver, qos), name + std::string(kSlice)});
}

Result<std::string> container_name(Driver driver, std::string_view container_id) {
  constexpr std::string_view kForm = "docker://, containerd://, pouch:// or cri-o:// and a hash";
  const auto at = container_id.find("://");
  if (at == std::string_view::npos) return invalid("container id", container_id, kForm);
  const auto scheme = container_id.substr(0, at);
  const auto hash = container_id.substr(at + 3);
  const auto runtime = std::find_if(kRuntimes.begin(), kRuntimes.end(),
                                    [&](const Runtime& known) { return known.scheme == scheme; });
  if (runtime == kRuntimes.end() || !is_component(hash)) {
    return invalid("container id", container_id, kForm);
  }
  if (driver == Driver::kCgroupfs) return std::string(hash);
  return std::string(runtime->prefix) + std::string(hash) + std::string(kScope);
}

Result<std::string> container_directory(Driver driver, KubeQos qos, std::string_view uid,
                                        std::string_view container_id) {
  auto pod = pod_directory(driver, qos, uid);
  if (!pod) return pod;
  auto name = container_name(driver, container_id);
  if (!name) return name;
  return join({pod.value(), name.value()});
}

Result<std::string> pod_uid_of(Driver driver, std::string_view name) {
  std::string_view uid = name;
  if (driver == Driver::kCgroupfs) {
    if (unwrap(uid, "pod", "")) return std::string(uid);
    return invalid("pod directory", name, "podUID");
  }
  for (const auto prefix : {"kubepods-besteffort-pod", "kubepods-burstable-pod", "kubepods-pod"}) {
    if (unwrap(uid, prefix, kSlice)) return std::string(uid);
  }
  return invalid("pod directory", name, "kubepods[-burstable|-besteffort]-podUID.slice");
}

Result<std::string> container_hash_of(Driver driver, std::string_view name) {
  if (driver == Driver::kCgroupfs) {
    if (is_component(name)) return std::string(name);
    return invalid("container directory", name, "a hash");
  }
  std::string_view hash = name;
  for (const auto& runtime : kRuntimes) {
    if (runtime.has_inverse && unwrap(hash, runtime.prefix, kScope)) return std::string(hash);
  }
  // CRI-O's own conmon groups come without the suffix.
  if (unwrap(hash, "crio-", "")) return std::string(hash);
  return invalid("container directory", name, "docker-, cri-containerd- or crio-HASH.scope");
}

KubeQos qos_of_path(std::string_view path) {
  if (path.find("besteffort") != std::string_view::npos) return KubeQos::kBestEffort;
  if (path.find("burstable") != std::string_view::npos) return KubeQos::kBurstable;
  return KubeQos::kGuaranteed;
}

Result<std::string> host_application_directory(Driver driver, std::string_view name,
                                               std::string_view koord_qos,
                                               const std::optional<HostPath>& path) {
  if (path) {
    std::string base;
    if (path->base == "KubepodsBurstable") {
      base = qos_directory(driver, KubeQos::kBurstable);
    } else if (path->base == "KubepodsBesteffort") {
      base = qos_directory(driver, KubeQos::kBestEffort);
    } else if (path->base == "Kubepods") {
      base = kubepods_directory(driver);
    } else if (!path->base.empty() && path->base != "CgroupRoot") {
      return invalid("cgroupPath.base", path->base,
                     "CgroupRoot, Kubepods, KubepodsBurstable or KubepodsBesteffort");
    }
    return join({base, path->parent, path->relative});
  }
  if (!is_component(name)) return invalid("host application", name, "a name without '/'");
  if (koord_qos == "LSE" || koord_qos == "LSR" || koord_qos == "LS") {
    return join({"host-latency-sensitive", name});
  }
  return koord_qos == "BE" ? join({"host-best-effort", name}) : std::string(name);
}

}  // namespace koord::cgroup
