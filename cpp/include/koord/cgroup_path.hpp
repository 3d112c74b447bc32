// SPDX-License-Identifier: Apache-2.0
// Where kubelet and container runtimes put the cgroups of QoS classes, pods and containers. Paths
// are relative to a hierarchy, without a slash at either end. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "koord/error.hpp"

namespace koord::cgroup {

/// Kubelet's --cgroup-driver.
enum class Driver { kSystemd, kCgroupfs };
/// status.qosClass of a pod.
enum class KubeQos { kGuaranteed, kBurstable, kBestEffort };

/// "kubepods.slice" or "kubepods".
KOORD_API std::string_view kubepods_directory(Driver driver);
/// The directory of a QoS class; Guaranteed has none of its own and gives kubepods_directory().
KOORD_API std::string qos_directory(Driver driver, KubeQos qos);
/// kInvalid when the uid is empty or holds a slash.
KOORD_API Result<std::string> pod_directory(Driver driver, KubeQos qos, std::string_view uid);
/// The last component of a container's directory, from its id `scheme://hash`; scheme is docker,
/// containerd, pouch or cri-o.
KOORD_API Result<std::string> container_name(Driver driver, std::string_view container_id);
KOORD_API Result<std::string> container_directory(Driver driver, KubeQos qos, std::string_view uid,
                                                  std::string_view container_id);

/// The uid in the last component of a pod's directory. Systemd names keep `_` for `-`.
KOORD_API Result<std::string> pod_uid_of(Driver driver, std::string_view name);
/// The hash in the last component of a container's directory.
KOORD_API Result<std::string> container_hash_of(Driver driver, std::string_view name);
/// From anywhere in the path: besteffort, else burstable, else Guaranteed.
KOORD_API KubeQos qos_of_path(std::string_view path);

/// cgroupPath of a host application: base, then parent, then relative.
struct HostPath {
  std::string
      base;  ///< CgroupRoot, Kubepods, KubepodsBurstable or KubepodsBesteffort; "" is the first
  std::string parent;
  std::string relative;
};
/// The directory of an application outside Kubernetes; `koord_qos` is LSE, LSR, LS, BE or other.
KOORD_API Result<std::string> host_application_directory(Driver driver, std::string_view name,
                                                         std::string_view koord_qos,
                                                         const std::optional<HostPath>& path);

}  // namespace koord::cgroup
