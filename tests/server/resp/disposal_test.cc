#include "resp/disposal.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "resp/output_buffer.h"
#include "resp/parser.h"

namespace TEST_FILE {

using namespace ebbtide;

/// Keeps all memory that it should free.
struct KeepingDisposer final : Disposer {
  KeepingDisposer() { set_disposer(this); }
  ~KeepingDisposer() override { set_disposer(nullptr); }
  void dispose(std::shared_ptr<const void> garbage) override { kept.push_back(std::move(garbage)); }
  std::vector<std::shared_ptr<const void>> kept;
};

std::shared_ptr<const std::string> value_of(std::size_t bytes) { return std::make_shared<const std::string>(bytes, 'v'); }

TEST_CASE("large shared value leaves an output buffer: the disposer thread frees it, but a small value is freed at once") {
  KeepingDisposer disposer;
  OutputBuffer out;
  auto large = value_of(kDisposedBytes), small = value_of(kDisposedBytes - 1);
  const std::weak_ptr<const std::string> watched_large = large, watched_small = small;
  out.append_shared(std::exchange(large, nullptr), *watched_large.lock());
  out.append_shared(std::exchange(small, nullptr), *watched_small.lock());
  SECTION("values are sent in pieces") {
    for (int i = 0; i < 8; ++i) out.consume(out.size() / 2);
    out.consume(out.size());
  }
  SECTION("values are dropped") { out.clear(); }
  SECTION("values are sent from another buffer") {
    OutputBuffer other;
    other.take(out);
    other.consume(other.size());
  }
  CHECK(disposer.kept.size() == 1);
  CHECK_FALSE(watched_large.expired());
  CHECK(watched_small.expired());
}

TEST_CASE("command has a large argument: the disposer thread frees the argument, however the command ends") {
  KeepingDisposer disposer;
  ParserLimits limits;
  const std::string bytes(kDisposedBytes, 'a');
  const std::string command = "*2\r\n$4\r\nECHO\r\n$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
  auto parser = std::make_unique<RequestParser>();
  SECTION("command has run") {
    parser->feed(command, limits);
    REQUIRE(parser->parse(limits, 10) == 1);
    parser->release();
  }
  SECTION("client disconnects") {
    parser->feed(command, limits);
    REQUIRE(parser->parse(limits, 10) == 1);
    parser.reset();
  }
  SECTION("client disconnects before the whole argument has arrived") {
    parser->feed(command.substr(0, command.size() - 1), limits);
    REQUIRE(parser->parse(limits, 10) == 0);
    parser.reset();
  }
  SECTION("argument is refused for lack of memory") {
    parser->feed(command.substr(0, command.size() - 1), limits);
    REQUIRE(parser->parse(limits, 10) == 0);
    parser->refuse_big();
  }
  CHECK(disposer.kept.size() == 1);
}

TEST_CASE("no disposer is set: the calling thread frees large memory itself, at once") {
  auto value = value_of(kDisposedBytes);
  const std::weak_ptr<const std::string> watched = value;
  let_go(std::move(value), true);
  CHECK(watched.expired());
}

}  // namespace TEST_FILE
