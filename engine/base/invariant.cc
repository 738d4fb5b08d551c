#include "base/invariant.h"

#include <cstdio>
#include <cstdlib>

namespace ebbtide {

void assertion_failed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s%s%s\n", file, line, condition, *message == '\0' ? "" : ": ", message);
  std::abort();
}

}  // namespace ebbtide
