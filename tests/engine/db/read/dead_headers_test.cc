// Tests of which headers of large collections are found dead, in memtables and in tables, and which pages are read for them.
#include "db/read/dead_headers.h"

#include "engine/db/read/read_fixture.h"

namespace ebbtide::test {
namespace TEST_FILE {

/// What a search has found: "key/generation/death" of each header, in order.
struct Findings {
  Status status;
  std::vector<std::string> dead;
  bool any = false;
};

Findings find_dead(ReadFixture& tree, Reaped after = {}) {
  Findings out;
  const auto visit = [&](const DeadHeader& header) {
    out.dead.push_back(std::string(header.key) + "/" + std::to_string(header.generation) + "/" + std::to_string(header.died));
    return Status::ok();
  };
  out.status = visit_dead_headers(tree.leased_view(), after, visit, &out.any);
  return out;
}
using Headers = std::vector<std::string>;

TEST_CASE("header has expired: the search for dead headers finds it, in the memtable and in a table") {
  const bool flushed = GENERATE(false, true);
  ReadFixture tree;
  tree.put_header("c1", 11, {.expiry = 900'000});
  tree.put_header("c2", 12, {.expiry = 1'100'000});
  tree.put_header("c3", 13);
  tree.put("s", "a string", {.expiry = 900'000});
  if (flushed) tree.flush();
  const Findings found = find_dead(tree);
  CHECK((found.status.is_ok() && found.any && found.dead == Headers{"c1/11/900000"}));
  tree.now = 1'100'000;
  CHECK(find_dead(tree).dead == Headers{"c1/11/900000", "c2/12/1100000"});
}

TEST_CASE("delete by stamp covers the stamp of a header: the search finds the header, dead since the delete's birth") {
  const bool flushed = GENERATE(false, true);
  ReadFixture tree;
  tree.put_header("c1", 11, {.stamp = 5});
  tree.put_header("c2", 12, {.stamp = 50});
  if (flushed) tree.flush();
  CHECK_FALSE(find_dead(tree).any);
  tree.now += 7;
  tree.del_stamps(0, 10);
  tree.now += 7;
  const Findings found = find_dead(tree);
  CHECK((found.any && found.dead == Headers{"c1/11/1000007"}));
}

TEST_CASE("header died before the progress of the last search: the search does not find it again") {
  const bool flushed = GENERATE(false, true);
  ReadFixture tree;
  tree.put_header("c1", 11, {.expiry = 900'000});
  tree.put_header("c2", 12, {.stamp = 5});
  tree.del_stamps(0, 10);
  if (flushed) tree.flush();
  CHECK(find_dead(tree).dead.size() == 2);
  CHECK(find_dead(tree, {.expiry = 899'999, .record = 2}).dead.size() == 2);
  const Findings found = find_dead(tree, {.expiry = 900'000, .record = 3});
  CHECK((found.dead.empty() && !found.any));
}

TEST_CASE("header was overwritten or deleted, or has a new generation: the search does not report it as dead") {
  ReadFixture tree;
  tree.put_header("c1", 11, {.expiry = 900'000});
  tree.put_header("c2", 12, {.expiry = 900'000});
  tree.put_header("c3", 13, {.expiry = 900'000});
  tree.flush();
  tree.put_header("c1", 21);
  tree.del("c2");
  tree.put("c3", "a string");
  const Findings found = find_dead(tree);
  CHECK((found.status.is_ok() && found.dead.empty() && found.any));
}

TEST_CASE("header was overwritten by one that has died, too: the search finds only the newer header") {
  ReadFixture tree;
  tree.put_header("c", 11, {.expiry = 900'000});
  tree.flush();
  tree.put_header("c", 12, {.expiry = 950'000});
  CHECK(find_dead(tree).dead == Headers{"c/12/950000"});
}

TEST_CASE("visit of a dead header returns an error: the search ends with that error") {
  ReadFixture tree;
  tree.put_header("c1", 11, {.expiry = 900'000});
  tree.put_header("c2", 12, {.expiry = 900'000});
  int visits = 0;
  bool any = false;
  const auto visit = [&](const DeadHeader&) { return ++visits, Status::aborted("closing"); };
  CHECK(visit_dead_headers(tree.leased_view(), {}, visit, &any).code() == Code::kAborted);
  CHECK((visits == 1 && any));
}

TEST_CASE("lease is revoked during the search for dead headers: the search ends with kRevoked") {
  ReadFixture tree;
  tree.put_header("c1", 11, {.expiry = 900'000});
  const ReadView view = tree.leased_view();
  ViewParts::lease(view)->revoke();
  bool any = false;
  CHECK(visit_dead_headers(
            view, {}, [](const DeadHeader&) { return Status::ok(); }, &any)
            .code() == Code::kRevoked);
}

TEST_CASE("header names no generation: the search for dead headers returns kCorruption") {
  ReadFixture tree;
  tree.put_header("c1", 0, {.expiry = 900'000});
  CHECK(find_dead(tree).status.code() == Code::kCorruption);
}

TEST_CASE("table has many pages: the search reads only pages with headers that may have died") {
  ReadFixture tree;
  for (int i = 0; i < 2'000; ++i) tree.put_header(numbered(i), 1, {.expiry = i == 777 ? Millis{900'000} : Millis{2'000'000}});
  tree.flush();
  const std::uint64_t before = tree.bench.cache.misses();
  const Findings found = find_dead(tree);
  CHECK(found.dead == Headers{numbered(777) + "/1/900000"});
  CHECK(tree.bench.cache.misses() - before <= 2);
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test
