// Tests of marks on keys: which writes break them, which writers wait for them, and when those run.
#include <catch2/catch.hpp>
#include <vector>

#include <engine/read_view.h>

#include "dispatch/intents.h"
#include "resp/client.h"

namespace TEST_FILE {

using namespace ebbtide;

class Loop final : public ClientLoop {
 public:
  void post(std::function<void()> task) override { task(); }
  void resume(std::uint64_t client_id) override { resumed.push_back(client_id); }
  Client* find(std::uint64_t) override { return nullptr; }
  void touch(Client*) override {}
  int index() const override { return 0; }
  void for_each(const std::function<void(Client&)>&) override {}
  std::vector<std::uint64_t> resumed;
};

std::shared_ptr<Intents::Marks> marks_on(std::initializer_list<const char*> keys, DatabaseId database = 0) {
  auto marks = std::make_shared<Intents::Marks>();
  for (const char* key : keys) marks->keys.add(database, hash_key(key));
  marks->keys.seal();
  return marks;
}

KeySet put(const char* key, DatabaseId database = 0) {
  WriteBatch batch;
  batch.put(database, key, "v");
  return KeySet(batch);
}

TEST_CASE("client writes a key that a long write has marked: this breaks the marks, unlike writes of other keys") {
  Intents intents;
  Loop loop;
  const auto marks = marks_on({"a", "b"});
  CHECK_FALSE(intents.any());
  REQUIRE(intents.mark(marks, false, {}));
  CHECK(intents.any());
  intents.committed(put("c"), nullptr);
  intents.committed(put("a", 1), nullptr);
  intents.committed(put("a"), marks.get());
  CHECK_FALSE(intents.is_broken(*marks));
  CHECK_FALSE(intents.must_wait(put("a"), nullptr, {&loop, 1}));
  intents.committed(put("b"), nullptr);
  CHECK(intents.is_broken(*marks));
  intents.unmark(marks);
  CHECK_FALSE(intents.any());
  REQUIRE(intents.mark(marks, false, {}));  // marked again
  CHECK_FALSE(intents.is_broken(*marks));
}

TEST_CASE("long write marks a whole database: a write of any key breaks the marks, or waits if the marks are firm") {
  Intents intents;
  Loop loop;
  const auto marks = std::make_shared<Intents::Marks>();
  marks->keys.add_all(1);
  marks->keys.seal();
  REQUIRE(intents.mark(marks, false, {}));
  intents.committed(put("a"), nullptr);
  CHECK_FALSE(intents.is_broken(*marks));
  intents.committed(put("a", 1), nullptr);
  CHECK(intents.is_broken(*marks));
  intents.unmark(marks);

  REQUIRE(intents.mark(marks, true, {}));
  CHECK_FALSE(intents.must_wait(put("a"), nullptr, {&loop, 1}));
  CHECK(intents.must_wait(put("b", 1), nullptr, {&loop, 2}));
  const auto others = marks_on({"b"}, 1);
  CHECK_FALSE(intents.mark(others, true, {&loop, 3}));
  WriteBatch flush;
  flush.flush_database(1);
  CHECK_FALSE(intents.must_wait(KeySet(flush), nullptr, {&loop, 4}));
  intents.committed(KeySet(flush), nullptr);
  CHECK(intents.is_broken(*marks));
  intents.unmark(marks);
  CHECK(loop.resumed == std::vector<std::uint64_t>{2, 3});
}

TEST_CASE("long write has firm marks on keys: other writes of these keys wait until the marks are removed") {
  Intents intents;
  Loop loop;
  const auto marks = marks_on({"a", "b"});
  REQUIRE(intents.mark(marks, true, {}));
  CHECK_FALSE(intents.must_wait(put("c"), nullptr, {&loop, 1}));
  CHECK_FALSE(intents.must_wait(put("a", 1), nullptr, {&loop, 1}));
  CHECK_FALSE(intents.must_wait(put("a"), marks.get(), {&loop, 1}));
  CHECK(intents.must_wait(put("a"), nullptr, {&loop, 2}));
  CHECK(intents.must_wait(put("b"), nullptr, {&loop, 3}));
  CHECK(loop.resumed.empty());
  intents.unmark(marks);
  CHECK(loop.resumed == std::vector<std::uint64_t>{2, 3});
  intents.unmark(marks);
  CHECK(loop.resumed.size() == 2);
}

TEST_CASE("range delete, FLUSHDB or SWAPDB commits: it does not wait for marks, and breaks all marks in its databases") {
  const bool firm = GENERATE(false, true);
  WriteBatch batch;
  const int kind = GENERATE(0, 1, 2, 3);
  if (kind == 0) batch.delete_range(1, "a", "b");
  if (kind == 1) batch.delete_stamps(1, 3, 4);
  if (kind == 2) batch.flush_database(1);
  if (kind == 3) batch.swap_databases(0, 1);
  const KeySet written(batch);
  Intents intents;
  Loop loop;
  const auto there = marks_on({"x"}, 1), elsewhere = marks_on({"x"}, 2);
  REQUIRE(intents.mark(there, firm, {}));
  REQUIRE(intents.mark(elsewhere, firm, {}));
  CHECK_FALSE(intents.must_wait(written, nullptr, {&loop, 1}));
  intents.committed(written, nullptr);
  CHECK(intents.is_broken(*there));
  CHECK_FALSE(intents.is_broken(*elsewhere));
  CHECK_FALSE(intents.must_wait(put("x", 1), nullptr, {&loop, 1}));  // writers do not wait for broken marks
}

TEST_CASE("two long writes need firm marks on one key: one gets its marks, and the other waits and holds none") {
  Intents intents;
  Loop loop;
  const auto first = marks_on({"a", "b"}), second = marks_on({"b", "c"}), soft = marks_on({"b"});
  REQUIRE(intents.mark(first, true, {&loop, 1}));
  CHECK_FALSE(intents.mark(second, true, {&loop, 2}));
  CHECK_FALSE(intents.must_wait(put("c"), nullptr, {&loop, 3}));  // a holder sets all of its marks or none
  CHECK(intents.mark(soft, false, {&loop, 4}));
  intents.unmark(first);
  CHECK(loop.resumed == std::vector<std::uint64_t>{2});
  CHECK(intents.mark(second, true, {&loop, 2}));
}

TEST_CASE("small set of keys is compared with a large one: a common key is found") {
  KeySet few, many, others;
  few.add(0, 7);
  few.add(0, 70'007);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    many.add(0, i * 10 + 7);
    others.add(0, i * 10 + 1);
  }
  for (KeySet* set : {&few, &many, &others}) set->seal();
  CHECK(few.meets(many));
  CHECK(many.meets(few));
  CHECK_FALSE(few.meets(others));
  CHECK_FALSE(many.meets(others));
  CHECK(many.meets(many));
}

TEST_CASE("keys of a second key set are added: the first set has the keys of both") {
  KeySet set, more;
  set.add(0, 5);
  more.add(0, 7);
  more.add(1, 5);
  for (KeySet* each : {&set, &more}) each->seal();
  CHECK(set.has_keys_of(KeySet()));
  CHECK_FALSE(set.has_keys_of(more));
  set.add_all_of(more);
  set.seal();
  CHECK(set.size() == 3);
  CHECK(set.has_keys_of(more));
  CHECK_FALSE(more.has_keys_of(set));
  KeySet whole;
  whole.add_all(1);
  whole.seal();
  CHECK(set.meets(whole));  // a key of database 1 was added with the other keys
}

}  // namespace TEST_FILE
