# SPDX-License-Identifier: Apache-2.0
# Three modules: wire (Cython; quantity and cpuset, what koord.api needs, no NumPy), core (pybind11;
# what one machine needs, one binding file a kernel) and cluster (the same for what only whoever
# decides over many machines needs).
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
# Where another machine's modules are compiled, the interpreter here has another suffix than theirs.
if(CMAKE_CROSSCOMPILING AND SKBUILD_SOABI)
  set(Python_SOABI ${SKBUILD_SOABI})
endif()
find_package(pybind11 CONFIG REQUIRED)
set(NATIVE ${CMAKE_CURRENT_SOURCE_DIR}/src/koord/_native)

foreach(module core cluster)
  file(GLOB SOURCES CONFIGURE_DEPENDS ${NATIVE}/${module}*.cpp)
  # NO_EXTRAS: link-time optimisation of thin bindings costs a minute and gains nothing.
  pybind11_add_module(${module} MODULE NO_EXTRAS ${SOURCES} ${NATIVE}/bindings.cpp)
  target_link_libraries(${module} PRIVATE koord)
  koord_target_flags(${module})
endforeach()

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

install(TARGETS core cluster wire LIBRARY DESTINATION koord/_native COMPONENT python)
