# Compiler settings of all our own code. Asserts stay on in every build: NDEBUG is never defined.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

# Rooms see one another's code in what is installed: a passed request costs a twelfth fewer instructions.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  include(CheckIPOSupported)
  check_ipo_supported(RESULT einmal_ipo LANGUAGES C OUTPUT einmal_ipo_why)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ${einmal_ipo})
endif()

add_library(einmal_options INTERFACE)
target_include_directories(einmal_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(einmal_options INTERFACE _GNU_SOURCE "EINMAL_VERSION=\"${PROJECT_VERSION}\"")
target_compile_options(einmal_options INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                       -Wwrite-strings -Wvla -Wpointer-arith -fno-omit-frame-pointer)
if(EINMAL_WERROR)
  target_compile_options(einmal_options INTERFACE -Werror)
endif()
if(EINMAL_CRASH_POINTS)
  target_compile_definitions(einmal_options INTERFACE EINMAL_CRASH_POINTS)
endif()
# Also for code that is not ours but runs inside (llhttp): a bad read there must be seen, and coverage must reach it.
add_library(einmal_instrumented INTERFACE)
if(EINMAL_SANITIZE)
  target_compile_options(einmal_instrumented INTERFACE -fsanitize=${EINMAL_SANITIZE} -fno-sanitize-recover=undefined)
  target_link_options(einmal_instrumented INTERFACE -fsanitize=${EINMAL_SANITIZE})
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(einmal_instrumented INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
                         -fstack-clash-protection -fPIE)
  target_link_options(einmal_instrumented INTERFACE -pie -Wl,-z,relro,-z,now)
endif()
if(EINMAL_FUZZ)
  target_compile_options(einmal_instrumented INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_libraries(einmal_options INTERFACE einmal_instrumented)
