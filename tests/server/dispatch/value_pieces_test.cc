// Tests of values that are read in parts: the same bytes from a memtable and from a table, in limited memory, while the client is
// connected.
#include "dispatch/value_pieces.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

constexpr std::uint64_t kBytes = 3 * kValuePieceBytes + 1234;

Status nothing(Ctx& ctx) {
  ctx.reply.ok();
  return Status::ok();
}
constexpr CommandSpec kSpecs[] = {{.name = "nothing", .arity = exactly(1), .flags = kReadOnly, .run = nothing}};
constexpr std::span<const CommandSpec> kFamilies[] = {kSpecs};

std::string patterned() {
  std::string value(kBytes, '.');
  for (std::size_t i = 0; i < value.size(); i += 3) value[i] = static_cast<char>(i / 3 % 251);
  return value;
}

/// An attempt of a command off the loop, with a value at "k".
struct Run {
  explicit Run(bool on_disk) : server(kFamilies) {
    WriteBatch write;
    write.put(0, "k", value);
    REQUIRE(server.db->commit(write).is_ok());
    server.db->write_log();
    if (on_disk) {
      REQUIRE(server.db->flush(0).is_ok());
      server.settle();
      server.reopen();
    }
    ctx.emplace(Ctx{server.env, *server.table.find("nothing"), Args{}, {}, server.db->lease(0), batch, reply, session});
    ctx->off_loop = &off_loop;
    REQUIRE(ctx->view.locate({"k", hash_key("k")}, &found).is_ok());
    CHECK((found.large.table != nullptr) == on_disk);
  }

  const std::string value = patterned();
  CommandHarness server;
  WriteBatch batch;
  OutputBuffer out;
  Reply reply{&out};
  Session session;
  std::atomic<bool> gone{false};
  OffLoopCtx off_loop{.cancelled = &gone};
  std::optional<Ctx> ctx;
  Found found;
};

TEST_CASE("range of a large value is visited: the visitor gets every byte of it, in parts and in order") {
  Run run(GENERATE(false, true));
  const std::uint64_t first = 5, length = 2 * kValuePieceBytes + 100;
  std::vector<std::pair<std::uint64_t, std::size_t>> pieces;
  std::string seen;
  REQUIRE(visit_value(*run.ctx, run.found, first, length, [&](std::uint64_t at, Bytes piece) {
            pieces.emplace_back(at, piece.size());
            seen += piece;
            return Status::ok();
          }).is_ok());
  CHECK((seen == run.value.substr(first, length)));
  const std::vector<std::pair<std::uint64_t, std::size_t>> expected = {
      {5, kValuePieceBytes}, {5 + kValuePieceBytes, kValuePieceBytes}, {5 + 2 * kValuePieceBytes, 100}};
  CHECK(pieces == expected);
  CHECK(visit_value(*run.ctx, run.found, kBytes, 0, [](std::uint64_t, Bytes) { return Status::aborted("visited"); }).is_ok());
  std::string copied(kBytes, '\0');
  REQUIRE(copy_value(*run.ctx, run.found, copied.data()).is_ok());
  CHECK((copied == run.value));
  CHECK(run.server.db->stats().large_value_bytes == 0);
}

TEST_CASE("visitor of a value returns an error: the visit ends with this error") {
  Run run(GENERATE(false, true));
  int pieces = 0;
  const Status status = visit_value(*run.ctx, run.found, 0, kBytes,
                                    [&](std::uint64_t, Bytes) { return ++pieces == 2 ? Status::not_found() : Status::ok(); });
  CHECK(status.is_not_found());
  CHECK(pieces == 2);
}

TEST_CASE("client disconnects during a visit or copy of a large value: the visit or copy ends after one more part") {
  Run run(GENERATE(false, true));
  int pieces = 0;
  const Status status = visit_value(*run.ctx, run.found, 0, kBytes, [&](std::uint64_t, Bytes) {
    run.gone = ++pieces == 2;
    return Status::ok();
  });
  CHECK(status.code() == Code::kAborted);
  CHECK(pieces == 2);
  std::string copied(kBytes, '\0');
  CHECK(copy_value(*run.ctx, run.found, copied.data()).code() == Code::kAborted);
}

}  // namespace TEST_FILE
