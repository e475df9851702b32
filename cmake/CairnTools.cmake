# CairnTools - targets format, format-check and tidy. The tools are pinned by name (version 14), as format differs by version.

find_program(CAIRN_CLANG_FORMAT clang-format-14)
find_program(CAIRN_CLANG_TIDY clang-tidy-14)

set(cairn_style_files "git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp'")
foreach(target format format-check)
  if(target STREQUAL "format")
    set(flags "-i")
  else()
    set(flags "--dry-run --Werror")
  endif()
  if(CAIRN_CLANG_FORMAT)
    add_custom_target(${target} VERBATIM WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMAND sh -c "${cairn_style_files} | xargs -r ${CAIRN_CLANG_FORMAT} ${flags}")
  else()
    add_custom_target(${target} COMMAND ${CMAKE_COMMAND} -E echo "install the package clang-format-14 first"
                      COMMAND ${CMAKE_COMMAND} -E false)
  endif()
endforeach()

if(CAIRN_CLANG_TIDY)
  add_custom_target(tidy VERBATIM WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND sh -c "git ls-files -- 'src/*.c' 'src/*.cpp' 'sim/*.c' 'bench/*.c' | xargs -r -n 4 -P 2 ${CAIRN_CLANG_TIDY} --quiet -p ${PROJECT_BINARY_DIR}")
else()
  add_custom_target(tidy COMMAND ${CMAKE_COMMAND} -E echo "install the package clang-tidy-14 first"
                    COMMAND ${CMAKE_COMMAND} -E false)
endif()
