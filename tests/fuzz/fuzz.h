// Shared parts of the fuzz programs. Each program has one LLVMFuzzerTestOneInput, which libFuzzer (clang) or driver.cc (any
// compiler) calls with one input after the other. It must not crash on any input, and checks its properties with FUZZ_CHECK.
//
// Checksums would refuse nearly every mutated file. So programs for files with checksums correct the checksums of half of the
// inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <engine/bytes.h>
#include "base/coding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

namespace ebbtide::fuzz {

/// Overwrites eight bytes with a u64.
inline void set_number(std::string* bytes, std::size_t at, std::uint64_t value) {
  std::string number;
  put_u64(&number, value);
  bytes->replace(at, number.size(), number);
}

/// Reads numbers and texts from the front of an input. At its end numbers are 0 and texts empty.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::uint32_t number() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }
  Bytes text(std::size_t length) {
    const Bytes taken = rest_.substr(0, length);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  Bytes rest() { return text(rest_.size()); }

 private:
  Bytes rest_;
};

}  // namespace ebbtide::fuzz
