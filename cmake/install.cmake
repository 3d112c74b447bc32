# SPDX-License-Identifier: Apache-2.0
# `cmake --install` lays out a tree in which find_package(koord) works.
include(CMakePackageConfigHelpers)
set(KOORD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/koord)
install(TARGETS koord EXPORT koordTargets COMPONENT library)
install(DIRECTORY cpp/include/koord DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT koordTargets NAMESPACE koord:: DESTINATION ${KOORD_CMAKE_DIR} COMPONENT library)
configure_package_config_file(cmake/koordConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/koordConfig.cmake
  INSTALL_DESTINATION ${KOORD_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/koordConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/koordConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/koordConfigVersion.cmake
  DESTINATION ${KOORD_CMAKE_DIR} COMPONENT library)
