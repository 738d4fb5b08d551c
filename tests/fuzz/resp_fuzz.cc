// Fuzzes the request parser: it gives the same commands and the same error if the input arrives whole, in pieces, or byte by
// byte.
#include <functional>
#include <vector>

#include "base/random.h"
#include "fuzz.h"
#include "resp/parser.h"

namespace {

using namespace ebbtide;

struct Outcome {
  std::vector<std::vector<std::string>> commands;
  RequestParser::Failure failure = RequestParser::Failure::kNone;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

void drain(RequestParser& parser, const ParserLimits& limits, std::size_t at_once, Outcome* out) {
  while (parser.parse(limits, at_once) > 0) {
    for (std::size_t i = 0; i < parser.ready(); ++i) {
      const Args args = parser.command(i);
      auto& command = out->commands.emplace_back();
      for (std::size_t a = 0; a < args.size(); ++a) command.emplace_back(args[a]);
    }
    parser.release();
    if (parser.failure() != RequestParser::Failure::kNone) break;
  }
  out->failure = parser.failure();
  out->error = parser.error();
}

/// Parses the input in pieces. `piece` returns the next size.
Outcome parse(Bytes input, const ParserLimits& limits, const std::function<std::size_t()>& piece, std::size_t at_once) {
  Outcome out;
  RequestParser parser;
  while (!input.empty() && out.failure == RequestParser::Failure::kNone) {
    const Bytes part = input.substr(0, piece());
    input.remove_prefix(part.size());
    parser.feed(part, limits);
    drain(parser, limits, at_once, &out);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  ParserLimits limits;
  limits.stranger = (flags & 1) != 0;
  limits.max_bulk = (flags & 2) != 0 ? 1000 : std::int64_t{1} << 20;
  Random random(flags);
  const Bytes bytes = input.rest();
  const Outcome whole = parse(
      bytes, limits, [&] { return bytes.size(); }, 1000);
  FUZZ_CHECK(parse(
                 bytes, limits, [] { return std::size_t{1}; }, 1000) == whole);
  FUZZ_CHECK(parse(
                 bytes, limits, [&] { return 1 + random.uniform(40); }, 1 + random.uniform(3)) == whole);
  return 0;
}
