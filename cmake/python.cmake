# SPDX-License-Identifier: Apache-2.0
# Two modules: wire (Cython; quantity and cpuset, what koord.api needs, no NumPy) and core
# (pybind11; every other kernel, one binding file each).
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
# Where another machine's modules are compiled, the interpreter here has another suffix than theirs.
if(CMAKE_CROSSCOMPILING AND SKBUILD_SOABI)
  set(Python_SOABI ${SKBUILD_SOABI})
endif()
find_package(pybind11 CONFIG REQUIRED)
set(NATIVE ${CMAKE_CURRENT_SOURCE_DIR}/src/koord/_native)

file(GLOB CORE_SOURCES CONFIGURE_DEPENDS ${NATIVE}/core*.cpp)
# NO_EXTRAS: link-time optimisation of thin bindings costs a minute and gains nothing.
pybind11_add_module(core MODULE NO_EXTRAS ${CORE_SOURCES})
target_link_libraries(core PRIVATE koord)
koord_target_flags(core)

file(GLOB WIRE_PARTS CONFIGURE_DEPENDS ${NATIVE}/wire*.pyx ${NATIVE}/*.pxd ${NATIVE}/*.pxi)
set(WIRE_CPP ${CMAKE_CURRENT_BINARY_DIR}/wire.cpp)
add_custom_command(OUTPUT ${WIRE_CPP}
  COMMAND ${Python_EXECUTABLE} -m cython --cplus -3 -I ${NATIVE} --module-name koord._native.wire
          ${NATIVE}/wire.pyx -o ${WIRE_CPP}
  DEPENDS ${WIRE_PARTS} VERBATIM)
Python_add_library(wire MODULE WITH_SOABI ${WIRE_CPP})
target_link_libraries(wire PRIVATE koord)
# Generated code is not held to our warnings.
target_compile_options(wire PRIVATE -w -ffp-contract=off -fvisibility=hidden)
koord_harden(wire)

install(TARGETS core wire LIBRARY DESTINATION koord/_native COMPONENT python)
