// SPDX-License-Identifier: Apache-2.0
// Columns as NumPy arrays that own or share their memory: nothing is copied.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace koord::python {

/// An array that takes a vector over.
template <class T>
pybind11::array_t<T> moved_array(std::vector<T>&& values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  const auto size = static_cast<pybind11::ssize_t>(owner->size());
  T* data = owner->data();
  pybind11::capsule base(owner.release(), [](void* p) { delete static_cast<std::vector<T>*>(p); });
  return pybind11::array_t<T>(size, data, base);
}

/// A read-only array over a block that it keeps alive.
template <class T>
pybind11::array_t<T> shared_view(std::shared_ptr<const T[]> block, std::size_t size) {
  auto owner = std::make_unique<std::shared_ptr<const T[]>>(std::move(block));
  const T* data = owner->get();
  pybind11::capsule base(owner.release(),
                         [](void* p) { delete static_cast<std::shared_ptr<const T[]>*>(p); });
  pybind11::array_t<T> array(static_cast<pybind11::ssize_t>(size), data, base);
  pybind11::detail::array_proxy(array.ptr())->flags &=
      ~pybind11::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

/// The elements of a one-dimensional array, as they lie in memory.
template <class T>
std::span<const T> span_of(const pybind11::array_t<T, pybind11::array::c_style>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

/// An argument as an array; what is none of this type is converted. As a parameter, an array would
/// be made empty first by pybind11, which costs more than what is done with it where it is short.
template <class Array>
Array array_of(const pybind11::object& given) {
  return Array::check_(given) ? pybind11::reinterpret_borrow<Array>(given) : Array(given);
}

}  // namespace koord::python
