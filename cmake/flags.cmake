# SPDX-License-Identifier: Apache-2.0
# One place for compiler flags. No -march=native and no contraction: the same input gives the same
# output on every machine, and scores that truncate would otherwise differ in the last bit.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-ftrivial-auto-var-init=zero KOORD_HAS_AUTO_VAR_INIT)
check_cxx_compiler_flag(-fstack-protector-strong KOORD_HAS_STACK_PROTECTOR)

# What a defect in native code can do, made smaller: checked stack frames and buffer sizes, no
# variable that holds what a call before left, no table of functions that can be written after start.
function(koord_harden target)
  # Sanitizers see these defects themselves, and sizes are not checked beneath them.
  if(NOT KOORD_HARDENING OR KOORD_SANITIZE)
    return()
  endif()
  # Sizes are known only where the compiler optimises; a value from the environment gives way to ours.
  target_compile_options(${target} PRIVATE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>
    $<$<BOOL:${KOORD_HAS_STACK_PROTECTOR}>:-fstack-protector-strong>
    $<$<BOOL:${KOORD_HAS_AUTO_VAR_INIT}>:-ftrivial-auto-var-init=zero>)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  endif()
endfunction()

# koord_keep_uninitialized(FILE...): sources whose benchmarks zeroed variables slow down. Not those that
# read what others wrote.
function(koord_keep_uninitialized)
  if(KOORD_HARDENING AND KOORD_HAS_AUTO_VAR_INIT AND NOT KOORD_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY
      COMPILE_OPTIONS -ftrivial-auto-var-init=uninitialized)
  endif()
endfunction()

# koord_vectorize(FILE...): sources whose loops compare doubles. Compilers turn those into vectors only where
# nobody waits for a floating-point trap; what is computed is the same.
function(koord_vectorize)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-trapping-math)
endfunction()

function(koord_target_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -ffp-contract=off -fvisibility=hidden $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -march=x86-64-v2)
  endif()
  if(KOORD_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(KOORD_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
  koord_harden(${target})
endfunction()
