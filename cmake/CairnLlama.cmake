# CairnLlama - finds or builds libllama. One switch, CAIRN_LLAMA:
#
#   npm     (default) prebuilt libraries of node_modules/@node-llama-cpp/linux-x64
#   source  llama.cpp built here by CMake from the same bundle (sanitizers, other CPUs, GPU tool kits)
#   system  a llama.cpp already on the machine: find_package(llama), with headers of common/ from the bundle
#
# The headers, chat templates and vocabularies come from node-llama-cpp's git bundle, checked out once into
# CAIRN_LLAMA_SRC (shared by all build folders of this checkout).
#
# Gives    llama::ggml, llama::llama, llama::common
#          CAIRN_LLAMA_LIB_DIR   folder with the CPU and GPU back ends, loaded at run time
#          CAIRN_LLAMA_DATA_DIR  folder with models/templates and models/ggml-vocab-*.gguf
#          CAIRN_LLAMA_BUILD     the version, for `cairn --version`
# src/engine and src/chat use cairn_llama_paths, which carries the same as compile definitions.

set(CAIRN_NODE_MODULES ${PROJECT_SOURCE_DIR}/node_modules CACHE PATH "Where npm put its packages")
set(CAIRN_LLAMA_SRC ${PROJECT_SOURCE_DIR}/build/llama-src CACHE PATH "Checkout of llama.cpp's source")
set(cairn_bundle ${CAIRN_NODE_MODULES}/node-llama-cpp/llama/gitRelease.bundle)
set(cairn_llama_info ${CAIRN_NODE_MODULES}/node-llama-cpp/llama/llama.cpp.info.json)

if(NOT EXISTS ${cairn_bundle})
  message(FATAL_ERROR "The npm packages are missing. Run `make setup` first (or `npm ci --ignore-scripts --omit=optional`).")
endif()
file(READ ${cairn_llama_info} cairn_llama_json)
string(JSON CAIRN_LLAMA_BUILD GET "${cairn_llama_json}" tag)

# Check out what is asked for, once; a stamp names the bundle and the extent. Safe when several configure at once.
function(cairn_llama_checkout extent)
  file(SIZE ${cairn_bundle} size)
  set(stamp_text "${CAIRN_LLAMA_BUILD} ${size} ${extent} 2")
  set(stamp ${CAIRN_LLAMA_SRC}/.git/cairn-stamp-${extent})
  file(MAKE_DIRECTORY ${CAIRN_LLAMA_SRC})
  file(LOCK ${CAIRN_LLAMA_SRC}.lock GUARD FUNCTION TIMEOUT 300)
  if(EXISTS ${stamp})
    file(READ ${stamp} have)
    if(have STREQUAL stamp_text)
      return()
    endif()
  endif()
  find_package(Git REQUIRED)
  message(STATUS "llama.cpp ${CAIRN_LLAMA_BUILD}: checking out ${extent} into ${CAIRN_LLAMA_SRC}")
  if(extent STREQUAL headers)
    set(paths LICENSE licenses include ggml/include src/llama-ext.h common models/templates
        models/ggml-vocab-qwen35.gguf)
  else()
    set(paths .)
  endif()
  set(git ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
          ${GIT_EXECUTABLE} -C ${CAIRN_LLAMA_SRC})
  execute_process(COMMAND ${git} init -q -b bundle . COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${git} fetch -q ${cairn_bundle} HEAD COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${git} checkout -q FETCH_HEAD -- ${paths} COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${stamp} "${stamp_text}")
endfunction()

function(cairn_llama_headers target)
  target_include_directories(${target} SYSTEM INTERFACE ${CAIRN_LLAMA_SRC}/include ${CAIRN_LLAMA_SRC}/ggml/include)
endfunction()

function(cairn_llama_import name file)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "${file} is missing. Run `make setup`; on another CPU than x86-64 configure with -DCAIRN_LLAMA=source.")
  endif()
  add_library(llama::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(llama::${name} PROPERTIES IMPORTED_LOCATION ${file})
  cairn_llama_headers(llama::${name})
endfunction()

if(CAIRN_LLAMA STREQUAL "npm")
  cairn_llama_checkout(headers)
  set(CAIRN_LLAMA_LIB_DIR ${CAIRN_NODE_MODULES}/@node-llama-cpp/linux-x64/bins/linux-x64)
  cairn_llama_import(ggml_base ${CAIRN_LLAMA_LIB_DIR}/libggml-base.so)
  cairn_llama_import(ggml ${CAIRN_LLAMA_LIB_DIR}/libggml.${CAIRN_LLAMA_BUILD}.so)
  cairn_llama_import(llama ${CAIRN_LLAMA_LIB_DIR}/libllama.${CAIRN_LLAMA_BUILD}.so)
  cairn_llama_import(common ${CAIRN_LLAMA_LIB_DIR}/libllama-common.so)
  set_property(TARGET llama::ggml PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml_base)
  set_property(TARGET llama::llama PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml)
elseif(CAIRN_LLAMA STREQUAL "source")
  cairn_llama_checkout(all)
  foreach(off LLAMA_BUILD_TESTS LLAMA_BUILD_TOOLS LLAMA_BUILD_EXAMPLES LLAMA_BUILD_SERVER LLAMA_BUILD_APP
              LLAMA_CURL LLAMA_OPENSSL LLAMA_BUILD_UI GGML_OPENMP) # as the prebuilt ones: ggml's own threads
    set(${off} OFF CACHE BOOL "llama.cpp: not needed by cairn" FORCE)
  endforeach()
  set(LLAMA_BUILD_COMMON ON CACHE BOOL "llama.cpp: the chat library" FORCE)
  set(BUILD_SHARED_LIBS ON)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(BUILD_TESTING_SAVED ${BUILD_TESTING})
  set(BUILD_TESTING OFF)
  add_subdirectory(${CAIRN_LLAMA_SRC} ${PROJECT_BINARY_DIR}/llama EXCLUDE_FROM_ALL)
  set(BUILD_TESTING ${BUILD_TESTING_SAVED})
  unset(BUILD_SHARED_LIBS)
  set(CAIRN_LLAMA_LIB_DIR ${PROJECT_BINARY_DIR}/bin)
  # Linked, but with their headers as system headers: our warnings are for our code.
  set(cairn_common_target common)
  if(TARGET llama-common)
    set(cairn_common_target llama-common)
  endif()
  foreach(pair ggml=ggml llama=llama common=${cairn_common_target})
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 target)
    add_library(llama::${name} INTERFACE IMPORTED GLOBAL)
    set_property(TARGET llama::${name} PROPERTY INTERFACE_LINK_LIBRARIES "$<LINK_ONLY:${target}>")
    cairn_llama_headers(llama::${name})
  endforeach()
  set_property(TARGET llama::llama APPEND PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml)
elseif(CAIRN_LLAMA STREQUAL "system")
  cairn_llama_checkout(headers)
  find_package(llama CONFIG QUIET)
  find_library(CAIRN_SYSTEM_LLAMA llama REQUIRED)
  find_library(CAIRN_SYSTEM_LLAMA_COMMON NAMES llama-common REQUIRED)
  find_library(CAIRN_SYSTEM_GGML ggml REQUIRED)
  find_library(CAIRN_SYSTEM_GGML_BASE ggml-base REQUIRED)
  find_path(CAIRN_SYSTEM_LLAMA_INCLUDE llama.h REQUIRED)
  foreach(pair ggml_base=GGML_BASE ggml=GGML llama=LLAMA common=LLAMA_COMMON)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 target)
    list(GET pair 1 variable)
    add_library(llama::${target} SHARED IMPORTED GLOBAL)
    set_target_properties(llama::${target} PROPERTIES IMPORTED_LOCATION ${CAIRN_SYSTEM_${variable}}
                          INTERFACE_INCLUDE_DIRECTORIES ${CAIRN_SYSTEM_LLAMA_INCLUDE})
  endforeach()
  set_property(TARGET llama::ggml PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml_base)
  set_property(TARGET llama::llama PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml)
  get_filename_component(CAIRN_LLAMA_LIB_DIR ${CAIRN_SYSTEM_GGML} DIRECTORY)
else()
  message(FATAL_ERROR "CAIRN_LLAMA is '${CAIRN_LLAMA}'; it must be npm, source or system")
endif()
set(CAIRN_LLAMA_DATA_DIR ${CAIRN_LLAMA_SRC})

target_include_directories(llama::common SYSTEM INTERFACE ${CAIRN_LLAMA_SRC}/common)
set_property(TARGET llama::common APPEND PROPERTY INTERFACE_LINK_LIBRARIES llama::llama)

add_library(cairn_llama_paths INTERFACE)
target_compile_definitions(cairn_llama_paths INTERFACE
  CAIRN_LLAMA_LIB_DIR_DEFAULT="${CAIRN_LLAMA_LIB_DIR}"
  CAIRN_LLAMA_DATA_DIR_DEFAULT="${CAIRN_LLAMA_DATA_DIR}"
  CAIRN_LLAMA_BUILD="${CAIRN_LLAMA_BUILD}"
  CAIRN_LLAMA_ORIGIN="${CAIRN_LLAMA}")
message(STATUS "libllama: ${CAIRN_LLAMA_BUILD} (${CAIRN_LLAMA}), ${CAIRN_LLAMA_LIB_DIR}")
