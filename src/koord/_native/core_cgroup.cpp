// SPDX-License-Identifier: Apache-2.0
// The I/O half of the cgroup kernel. Reading and writing release the GIL: they touch no Python
// object, and Reader and Writer serialise their callers with a lock of their own.
#include "core_cgroup.hpp"

#include "bindings.hpp"

namespace koord::python {
namespace {

using cgroup::Directories;
using cgroup::Hierarchy;
using cgroup::Reader;
using cgroup::Table;
using cgroup::Writer;
using cgroup::WriteRequest;
using cgroup::WriteResult;
using HierarchyPointer = std::shared_ptr<Hierarchy>;
using DirectoriesPointer = std::shared_ptr<Directories>;
using PythonRequest = std::tuple<std::string, std::string, std::string>;

py::tuple to_python(Table&& table) {
  const auto rows = static_cast<py::ssize_t>(table.error.size());
  const auto kind = table.resource->kind;
  const auto integer_names = cgroup::integer_columns(kind);
  const auto real_names = cgroup::real_columns(kind);
  py::list texts;
  for (const auto& text : table.texts) texts.append(decoded(text));
  const auto integers = static_cast<py::ssize_t>(integer_names.size());
  const auto reals = static_cast<py::ssize_t>(real_names.size());
  return py::make_tuple(table.resource->key, to_array(std::move(table.error), {rows}),
                        std::vector(integer_names.begin(), integer_names.end()),
                        to_array(std::move(table.integers), {rows, integers}),
                        std::vector(real_names.begin(), real_names.end()),
                        to_array(std::move(table.reals), {rows, reals}), texts,
                        std::move(table.messages));
}

template <class Given>
py::list read(Reader& reader, const Given& directories, const std::vector<std::string>& keys) {
  std::vector<const cgroup::ResourceSpec*> resources;
  for (const auto& key : keys) resources.push_back(cgroup::find_resource(key).value());
  std::vector<Table> tables;
  {
    const py::gil_scoped_release released;
    tables = reader.read(directories, resources);
  }
  py::list result;
  for (auto& table : tables) result.append(to_python(std::move(table)));
  return result;
}

std::vector<WriteRequest> to_requests(const std::vector<PythonRequest>& given) {
  std::vector<WriteRequest> requests;
  for (const auto& [key, directory, value] : given) {
    requests.push_back({cgroup::find_resource(key).value(), directory, value});
  }
  return requests;
}

py::list to_python(const std::vector<WriteResult>& results) {
  py::list list;
  for (const auto& result : results) {
    list.append(py::make_tuple(static_cast<int>(result.outcome), result.sys_errno,
                               decoded(result.message)));
  }
  return list;
}

py::list write(Writer& writer, const std::vector<PythonRequest>& given, double now_seconds) {
  const auto requests = to_requests(given);
  std::vector<WriteResult> results;
  {
    const py::gil_scoped_release released;
    results = writer.write(requests, now_seconds);
  }
  return to_python(results);
}

py::list write_leveled(Writer& writer, const std::vector<std::vector<PythonRequest>>& given,
                       double now_seconds) {
  std::vector<std::vector<WriteRequest>> levels;
  for (const auto& level : given) levels.push_back(to_requests(level));
  std::vector<std::vector<WriteResult>> results;
  {
    const py::gil_scoped_release released;
    results = writer.write_leveled(levels, now_seconds);
  }
  py::list list;
  for (const auto& level : results) list.append(to_python(level));
  return list;
}

py::tuple add_ids(const Hierarchy& hierarchy, const std::string& path,
                  std::vector<std::int32_t> ids) {
  const auto count = [&] {
    const py::gil_scoped_release released;
    return cgroup::add_ids(hierarchy.root(), path, std::move(ids)).value();
  }();
  return py::make_tuple(count.added, count.gone, count.failed, count.first_errno);
}

py::list catalogue() {
  py::list rows;
  for (const auto& spec : cgroup::catalogue()) {
    py::dict row;
    row["key"] = spec.key;
    row["base"] = static_cast<int>(spec.base);
    row["writable"] = spec.writable;
    for (const auto version : {cgroup::Version::kV1, cgroup::Version::kV2}) {
      const auto& file = spec.in(version);
      const char* name = version == cgroup::Version::kV1 ? "v1" : "v2";
      if (file.support == cgroup::Support::kNotRegistered) {
        row[name] = py::none();
        continue;
      }
      const auto range = file.range ? py::object(py::make_tuple(file.range->min, file.range->max))
                                    : py::object(py::none());
      row[name] = py::make_tuple(file.directory, file.file, static_cast<int>(file.support), range,
                                 file.field);
    }
    rows.append(row);
  }
  return rows;
}

void register_files(py::module_& m) {
  py::class_<Hierarchy, HierarchyPointer>(m, "Hierarchy")
      .def(py::init([](const std::string& path, int version, const std::string& kubepods) {
             std::optional<cgroup::Version> known;
             if (version != 0) known = to_version(version);
             // Python has no const; the class has no method that changes anything.
             return std::const_pointer_cast<Hierarchy>(
                 Hierarchy::open(path, known, kubepods).value());
           }),
           py::arg("path"), py::arg("version"), py::arg("kubepods"))
      .def_property_readonly("version",
                             [](const Hierarchy& self) { return static_cast<int>(self.version()); })
      .def_property_readonly("kubepods", &Hierarchy::kubepods)
      .def("path_of",
           [](const Hierarchy& self, const std::string& key, const std::string& directory) {
             const auto& file = cgroup::find_resource(key).value()->in(self.version());
             return self.path_of(file, directory);
           })
      .def("read_text", [](const Hierarchy& self, const std::string& path) {
        const std::string text = [&] {
          const py::gil_scoped_release released;
          return self.root().read(path).value();
        }();
        return py::bytes(text);
      });
  // Only made here and never changed; the class shows nothing but its size.
  py::class_<Directories, DirectoriesPointer>(m, "Directories")
      .def(py::init([](std::vector<std::string> paths) { return Directories{std::move(paths)}; }),
           py::arg("directories"))
      .def("__len__", [](const Directories& self) { return self.paths.size(); });
  py::class_<Reader>(m, "Reader")
      .def(py::init<HierarchyPointer, std::size_t>(), py::arg("hierarchy"), py::arg("kept_max"))
      .def("read", read<DirectoriesPointer>, py::arg("directories"), py::arg("resources"))
      .def("read", read<std::vector<std::string>>, py::arg("directories"), py::arg("resources"))
      .def_property_readonly("kept", &Reader::kept)
      .def("close_kept", &Reader::close_kept);
  py::class_<Writer>(m, "Writer")
      .def(py::init([](HierarchyPointer hierarchy, double force_after, double forget_after) {
             return Writer(std::move(hierarchy), {force_after, forget_after});
           }),
           py::arg("hierarchy"), py::arg("force_after_seconds"), py::arg("forget_after_seconds"))
      .def("write", write, py::arg("requests"), py::arg("now_seconds"))
      .def("write_leveled", write_leveled, py::arg("levels"), py::arg("now_seconds"))
      .def("forget", &Writer::forget, py::arg("directory"));
  m.def("add_ids", add_ids, py::arg("hierarchy"), py::arg("path"), py::arg("ids"));
}

}  // namespace

void register_cgroup(py::module_& m) {
  register_files(m);
  register_cgroup_parsers(m);
  register_cgroup_paths(m);
  m.def("catalogue", catalogue);
  m.def("file_text", [](const std::string& key, int version, std::string_view value) {
    return cgroup::file_text(*cgroup::find_resource(key).value(), to_version(version), value)
        .value();
  });
  m.def("says_same",
        [](const std::string& key, int version, std::string_view text, std::string_view current) {
          return cgroup::says_same(*cgroup::find_resource(key).value(), to_version(version), text,
                                   current);
        });
  m.def("loosened", [](const std::string& key, int version, std::string_view text,
                       std::string_view current) {
    return cgroup::loosened(*cgroup::find_resource(key).value(), to_version(version), text, current)
        .value();
  });
}

}  // namespace koord::python
