# SPDX-License-Identifier: Apache-2.0
# One place for compiler flags. No -march=native and no contraction: the same input gives the same
# output on every machine, and scores that truncate would otherwise differ in the last bit.
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
endfunction()
