# CairnPage - the page at `/`, made of web/ by node and esbuild, as a C file in the build tree, and its licences.
#
#   cairn_page_source(<variable>)    the C file, for a target's SOURCES

find_program(CAIRN_NODE node)

function(cairn_page_source variable)
  if(NOT CAIRN_NODE)
    message(FATAL_ERROR "node is missing; the page is made with it. Run: make setup")
  endif()
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/node_modules/esbuild-wasm)
    message(FATAL_ERROR "The page's npm packages are missing. Run: make setup")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*.html ${PROJECT_SOURCE_DIR}/web/*.css
       ${PROJECT_SOURCE_DIR}/web/*.mjs ${PROJECT_SOURCE_DIR}/web/src/*.js)
  set(out ${PROJECT_BINARY_DIR}/web/page_bytes.c)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/web)
  add_custom_command(OUTPUT ${out} ${PROJECT_BINARY_DIR}/web/page.html ${PROJECT_BINARY_DIR}/web/page_licenses.txt
                     COMMAND ${CAIRN_NODE} ${PROJECT_SOURCE_DIR}/web/build.mjs ${PROJECT_BINARY_DIR}/web
                     DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/package-lock.json
                     COMMENT "Making the page" VERBATIM)
  install(FILES ${PROJECT_BINARY_DIR}/web/page_licenses.txt DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
  set(${variable} ${out} PARENT_SCOPE)
endfunction()
