# CairnOptions - language levels, warnings, sanitizers. Sets cairn_warnings (an INTERFACE target) for own code.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the same objects make libcairn.a and libcairn.so
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

add_library(cairn_warnings INTERFACE)
target_compile_options(cairn_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wundef -Wformat=2 -Werror
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
# C11 leaves POSIX out; the folders that may use it (the layer check knows them) see the 2008 edition.
target_compile_definitions(cairn_warnings INTERFACE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
target_compile_options(cairn_warnings INTERFACE -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -ffp-contract=off)
if(CAIRN_EXPECT_ABORTS)
  target_compile_definitions(cairn_warnings INTERFACE CAIRN_EXPECT_ABORTS=1)
else()
  target_compile_definitions(cairn_warnings INTERFACE CAIRN_EXPECT_ABORTS=0)
endif()

if(CAIRN_SANITIZE)
  add_compile_options(-fsanitize=${CAIRN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${CAIRN_SANITIZE})
endif()
if(CAIRN_COVERAGE)
  add_compile_options(--coverage -O0 -g)
  add_link_options(--coverage)
endif()
if(CAIRN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CAIRN_FUZZ needs clang: use the preset 'fuzz'")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
