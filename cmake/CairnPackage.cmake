# CairnPackage - `make deb`: what CPack makes of the install rules. Two packages:
#
#   cairn          the program with llama.cpp's libraries in lib/cairn, man pages, completions, the service's unit
#   libcairn-dev   the library, its headers and pkg-config file
#
# What they depend on is computed by dpkg-shlibdeps from the files themselves.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cairn)
set(CPACK_PACKAGE_VENDOR cairn)
set(CPACK_PACKAGE_CONTACT "the authors of cairn <cairn@localhost>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CAIRN_LLAMA_LIB_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME cairn)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION net)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
"A server for language models with OpenAI's, Anthropic's and llama.cpp's API.
A prompt that parts from what was seen is resumed from a saved state before
that point instead of being read again; also with hybrid and recurrent models.
The package carries the llama.cpp libraries it was built and checked with.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libcairn-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"The prompt cache of cairn as a C library, for engines of one's own: static and
shared library, headers, pkg-config file. Needs no llama.cpp.")
# What cairn.pc asks for.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libc6-dev, libssl-dev, libsqlite3-dev, libxxhash-dev, zlib1g-dev")
if(HIREDIS_FOUND)
  string(APPEND CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS ", libhiredis-dev")
endif()
if(CURL_FOUND)
  string(APPEND CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS ", libcurl4-openssl-dev")
endif()
include(CPack)
