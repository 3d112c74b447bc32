// SPDX-License-Identifier: Apache-2.0
#include "core_cgroup.hpp"
#include "koord/cgroup_path.hpp"

namespace koord::python {
namespace {

using cgroup::Driver;
using cgroup::KubeQos;
using std::string_view;

// The faces' enumerations are strings, in this order.
Driver driver_of(string_view name) {
  return name == "systemd" ? Driver::kSystemd : Driver::kCgroupfs;
}

KubeQos qos_of(string_view name) {
  if (name == "Burstable") return KubeQos::kBurstable;
  return name == "BestEffort" ? KubeQos::kBestEffort : KubeQos::kGuaranteed;
}

string_view name_of(KubeQos qos) {
  if (qos == KubeQos::kBurstable) return "Burstable";
  return qos == KubeQos::kBestEffort ? "BestEffort" : "Guaranteed";
}

using HostPathParts = std::tuple<std::string, std::string, std::string>;

}  // namespace

void register_cgroup_paths(py::module_& m) {
  m.def("qos_directory", [](string_view driver, string_view qos) {
    return cgroup::qos_directory(driver_of(driver), qos_of(qos));
  });
  m.def("pod_directory", [](string_view driver, string_view qos, string_view uid) {
    return cgroup::pod_directory(driver_of(driver), qos_of(qos), uid).value();
  });
  m.def("container_name", [](string_view driver, string_view container_id) {
    return cgroup::container_name(driver_of(driver), container_id).value();
  });
  m.def("container_directory", [](string_view driver, string_view qos, string_view uid,
                                  string_view container_id) {
    return cgroup::container_directory(driver_of(driver), qos_of(qos), uid, container_id).value();
  });
  m.def("pod_uid_of", [](string_view driver, string_view name) {
    return cgroup::pod_uid_of(driver_of(driver), name).value();
  });
  m.def("container_hash_of", [](string_view driver, string_view name) {
    return cgroup::container_hash_of(driver_of(driver), name).value();
  });
  m.def("qos_of_path", [](string_view path) { return name_of(cgroup::qos_of_path(path)); });
  m.def("host_application_directory", [](string_view driver, string_view name,
                                         string_view koord_qos,
                                         const std::optional<HostPathParts>& path) {
    std::optional<cgroup::HostPath> parts;
    if (path) parts = {std::get<0>(*path), std::get<1>(*path), std::get<2>(*path)};
    return cgroup::host_application_directory(driver_of(driver), name, koord_qos, parts).value();
  });
}

}  // namespace koord::python
