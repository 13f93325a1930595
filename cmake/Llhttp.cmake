# llhttp as a library where the system has one (trixie), else built from the C sources that Debian bookworm ships, in strict mode:
# 8.1's default would let any byte after CR pass for LF.
pkg_check_modules(LLHTTP QUIET IMPORTED_TARGET libllhttp)
if(LLHTTP_FOUND)
  add_library(einmal_llhttp INTERFACE)
  target_link_libraries(einmal_llhttp INTERFACE PkgConfig::LLHTTP)
else()
  find_path(LLHTTP_INCLUDE_DIR llhttp.h PATH_SUFFIXES llhttp PATHS /usr/share/include REQUIRED)
  find_path(LLHTTP_SOURCE_DIR llhttp.c PATHS /usr/share/llhttp REQUIRED)
  add_library(einmal_llhttp STATIC "${LLHTTP_SOURCE_DIR}/llhttp.c" "${LLHTTP_SOURCE_DIR}/api.c" "${LLHTTP_SOURCE_DIR}/http.c")
  target_include_directories(einmal_llhttp SYSTEM PUBLIC "${LLHTTP_INCLUDE_DIR}")
  target_compile_definitions(einmal_llhttp PUBLIC LLHTTP_STRICT_MODE=1)
  target_compile_options(einmal_llhttp PRIVATE -w)
endif()
