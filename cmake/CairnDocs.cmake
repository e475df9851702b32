# CairnDocs - man pages and shell completions, made from the program's own --help (tools/command-docs), so that they
# can't say anything else. Not with sanitizers or fuzzing: such programs are not installed.
#
# libcairn(3) is made from the headers' comments (tools/api-docs).
#
# Gives    CAIRN_DOCS_DIR   folder with bash/cairn, zsh/_cairn, fish/cairn.fish, man/cairn-*.1, man3/libcairn.3

set(CAIRN_DOCS_DIR ${PROJECT_BINARY_DIR}/docs)
find_program(CAIRN_NODE node)
if(TARGET cairn AND CAIRN_NODE AND NOT CAIRN_SANITIZE AND NOT CAIRN_FUZZ)
  file(GLOB cairn_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/cairn/*.h)
  add_custom_command(OUTPUT ${CAIRN_DOCS_DIR}/bash/cairn
                     COMMAND ${CMAKE_COMMAND} -E rm -rf ${CAIRN_DOCS_DIR}
                     COMMAND ${CAIRN_NODE} ${PROJECT_SOURCE_DIR}/tools/command-docs $<TARGET_FILE:cairn> ${CAIRN_DOCS_DIR}
                     COMMAND ${CAIRN_NODE} ${PROJECT_SOURCE_DIR}/tools/api-docs --man ${CAIRN_DOCS_DIR}/man3/libcairn.3 ${PROJECT_VERSION}
                     DEPENDS cairn ${PROJECT_SOURCE_DIR}/tools/command-docs ${PROJECT_SOURCE_DIR}/tools/help_text.js
                             ${PROJECT_SOURCE_DIR}/tools/api-docs ${PROJECT_SOURCE_DIR}/tools/header_text.js ${cairn_headers}
                     COMMENT "Making man pages and completions" VERBATIM)
  add_custom_target(cairn_docs ALL DEPENDS ${CAIRN_DOCS_DIR}/bash/cairn)
  install(FILES ${CAIRN_DOCS_DIR}/bash/cairn DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
  install(FILES ${CAIRN_DOCS_DIR}/zsh/_cairn DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
  install(FILES ${CAIRN_DOCS_DIR}/fish/cairn.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
  install(DIRECTORY ${CAIRN_DOCS_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${CAIRN_DOCS_DIR}/man3/libcairn.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT library)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/cairn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
endif()
