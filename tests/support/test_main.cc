#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

// Settings of the sanitizers; ASAN_OPTIONS and TSAN_OPTIONS come first. The stacks of allocations have five frames instead of thirty,
// which saves a tenth of the time. Reports have lines also where llvm-symbolizer is not installed.
extern "C" const char* __asan_default_options() { return "malloc_context_size=5:allow_addr2line=1"; }  // NOLINT: the runtime's name
extern "C" const char* __tsan_default_options() { return "allow_addr2line=1"; }                        // NOLINT
