# CairnLibrary - libcairn (base + core + store + cache, without libllama), and what `cmake --install` puts where.
#
#   bin/cairn   lib/libcairn.{a,so}   include/cairn/*.h   lib/pkgconfig/cairn.pc
#   lib/cairn/  llama.cpp's libraries when they came from npm; the program finds them by $ORIGIN/../lib/cairn
#   share/cairn/models  what `cairn model synth` is made from: a vocabulary and chat templates
#   share/doc (licences; README.md and docs/), share/man, completions (CairnDocs), lib/systemd/system/cairn.service
#
# Components: `program` and `library`; CairnPackage makes a Debian package of each.

set(cairn_parts)
set(cairn_part_deps)
foreach(folder base core store cache)
  if(TARGET cairn_${folder})
    list(APPEND cairn_parts $<TARGET_OBJECTS:cairn_${folder}>)
  endif()
endforeach()
list(APPEND cairn_part_deps PkgConfig::XXHASH PkgConfig::CRYPTO PkgConfig::SQLITE3 Threads::Threads m)
set(cairn_pc_optional)
set(cairn_pc_libs)
if(TARGET PkgConfig::HIREDIS)
  list(APPEND cairn_part_deps PkgConfig::HIREDIS)
  string(APPEND cairn_pc_optional " hiredis")
endif()
if(TARGET PkgConfig::CURL)
  list(APPEND cairn_part_deps PkgConfig::CURL)
  string(APPEND cairn_pc_libs " -lcurl") # not its .pc: a static link would ask for all that libcurl is made of
endif()

if(cairn_parts)
  add_library(cairn_static STATIC ${cairn_parts})
  add_library(cairn_shared SHARED ${cairn_parts})
  foreach(target cairn_static cairn_shared)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME cairn LINKER_LANGUAGE C)
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
    target_link_libraries(${target} PRIVATE ${cairn_part_deps})
  endforeach()
  set_target_properties(cairn_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/libcairn.map)
  target_link_options(cairn_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libcairn.map)
  if(NOT CAIRN_SANITIZE AND NOT CAIRN_FUZZ)
    target_link_options(cairn_shared PRIVATE -Wl,--no-undefined)
  endif()
  install(TARGETS cairn_static cairn_shared
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library)
endif()

# From its own folder, so that an installed folder may be moved.
file(RELATIVE_PATH cairn_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/cairn.pc.in ${PROJECT_BINARY_DIR}/cairn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cairn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libcairn-dev RENAME copyright COMPONENT library)

if(TARGET cairn)
  set_target_properties(cairn PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/cairn;$ORIGIN/../lib/cairn")
  install(TARGETS cairn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(FILES ${CAIRN_LLAMA_SRC}/models/ggml-vocab-qwen35.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/cairn/models
          COMPONENT program)
  install(DIRECTORY ${CAIRN_LLAMA_SRC}/models/templates DESTINATION ${CMAKE_INSTALL_DATADIR}/cairn/models
          COMPONENT program FILES_MATCHING PATTERN "*.jinja")
  # The unit names the program where it will be; CPack installs below a folder of its own first.
  install(CODE "
    set(prefix \"\${CMAKE_INSTALL_PREFIX}\")
    if(prefix MATCHES _CPack_Packages)
      set(prefix \"${CMAKE_INSTALL_PREFIX}\")
    endif()
    file(READ \"${PROJECT_SOURCE_DIR}/packaging/cairn.service\" unit)
    string(REPLACE \"ExecStart=/usr/bin/\" \"ExecStart=\${prefix}/${CMAKE_INSTALL_BINDIR}/\" unit \"\${unit}\")
    file(WRITE \"${PROJECT_BINARY_DIR}/cairn.service\" \"\${unit}\")
  " COMPONENT program)
  install(FILES ${PROJECT_BINARY_DIR}/cairn.service DESTINATION lib/systemd/system COMPONENT program)
  # What README.md, --help and error texts name as docs/..., at the same place below README.md. JSON is for tools.
  install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
  install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
          FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "grafana-dashboard.json" PATTERN "man" EXCLUDE)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)
  install(FILES THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
  if(CAIRN_LLAMA STREQUAL "npm")
    install(DIRECTORY ${CAIRN_LLAMA_LIB_DIR}/ DESTINATION lib/cairn COMPONENT program FILES_MATCHING PATTERN "lib*.so")
  elseif(CAIRN_LLAMA STREQUAL "source")
    foreach(target llama llama-common llama-common-base ggml ggml-base ggml-cpu)
      if(TARGET ${target})
        get_target_property(type ${target} TYPE)
        if(type STREQUAL "SHARED_LIBRARY")
          set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
          install(TARGETS ${target} LIBRARY DESTINATION lib/cairn COMPONENT program)
        endif()
      endif()
    endforeach()
  endif()
  if(NOT CAIRN_LLAMA STREQUAL "system")
    install(FILES ${CAIRN_LLAMA_SRC}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME llama.cpp-LICENSE
            COMPONENT program)
  endif()
endif()
