// Fuzzes globs: the matcher ends in time, and properties computed from a pattern alone agree with its matches.
#include "fuzz.h"
#include "store/glob.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebbtide;
  fuzz::Input input(data, size);
  const bool ignore_case = (input.byte() & 1) != 0;
  const Bytes pattern = input.text(input.byte()), text = input.rest();
  const bool matches = glob_match(pattern, text, ignore_case);
  if (matches && !ignore_case) FUZZ_CHECK(text.starts_with(glob_literal_prefix(pattern)));
  if (glob_is_literal(pattern) && !ignore_case) FUZZ_CHECK(matches == (text == glob_literal_prefix(pattern)));
  if (matches && pattern.find('[') == Bytes::npos) FUZZ_CHECK(glob_match(pattern, text, true));
  FUZZ_CHECK(glob_match("*", text));
  std::string quoted;
  for (const char c : text) {
    quoted += '\\';
    quoted += c;
  }
  FUZZ_CHECK(glob_match(quoted, text));
  FUZZ_CHECK(glob_match(std::string(pattern) + "*", text, ignore_case) || !matches || pattern.find('[') != Bytes::npos ||
             pattern.ends_with('\\'));
  return 0;
}
