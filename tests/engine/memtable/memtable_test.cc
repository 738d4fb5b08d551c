#include "memtable/memtable.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "memtable/hash_index.h"

namespace ebbtide {
namespace TEST_FILE {

LookupKey lookup(Bytes key) { return {key, hash_key(key)}; }

Entry make_entry(SeqNum seq, Bytes value) {
  Entry e;
  e.seq = seq;
  e.value = value;
  e.delete_key = seq * 2;
  return e;
}

struct ModelVersion {
  EntryKind kind;
  std::string value;
  Millis expiry;
  DeleteKey delete_key;
};
/// The order of an iterator: keys ascend, versions of a key descend by seq.
struct ModelOrder {
  bool operator()(const std::pair<std::string, SeqNum>& a, const std::pair<std::string, SeqNum>& b) const {
    return version_before(a.first, a.second, b.first, b.second);
  }
};
using Model = std::map<std::pair<std::string, SeqNum>, ModelVersion, ModelOrder>;

void same(const Entry& entry, const Model::value_type& want) {
  REQUIRE(entry.key == want.first.first);
  REQUIRE(entry.seq == want.first.second);
  REQUIRE(entry.kind == want.second.kind);
  REQUIRE(entry.value == want.second.value);
  REQUIRE(entry.expiry == want.second.expiry);
  REQUIRE(entry.delete_key == want.second.delete_key);
}

/// Returns keys that have long common prefixes, are prefixes of each other, have zeros, or are empty.
std::string random_key(Random& random, std::uint64_t spread) {
  static const char* const kHeads[] = {"", "user:", "user:000000000000000000000000000000000000000000000000", "\xff\xff", "z"};
  std::string key = kHeads[random.uniform(5)];
  for (std::uint64_t n = random.uniform(4); n > 0; n--)
    key.push_back(static_cast<char>(random.one_in(4) ? 0 : 'a' + random.uniform(spread)));
  if (random.one_in(3)) key += std::to_string(random.uniform(spread * 50));
  return key;
}

void fill(MemTable* table, Model* model, Random& random, SeqNum count, std::uint64_t spread) {
  for (SeqNum seq = model->size() + 1, end = seq + count; seq < end; seq++) {
    const std::string key = random_key(random, spread);
    Entry e;
    e.key = key;
    e.seq = seq;
    std::string value;
    if (random.one_in(5)) {
      e.kind = EntryKind::kTombstone;
    } else {
      e.kind = random.one_in(5) ? EntryKind::kHeader : EntryKind::kValue;
      value = std::string(random.uniform(40), static_cast<char>('a' + seq % 26));
      if (random.one_in(3)) e.expiry = 1 + random.uniform(1000);
    }
    e.delete_key = random.uniform(1000);
    e.value = value;
    table->insert(lookup(key), e);
    model->emplace(std::pair(key, seq), ModelVersion{e.kind, value, e.expiry, e.delete_key});
  }
}

TEST_CASE("memtable is empty: lookups and iterators find nothing") {
  MemTable table(1 << 20);
  Entry e;
  CHECK(table.empty());
  CHECK_FALSE(table.get(lookup("k"), kMaxSeqNum, &e));
  CHECK(table.range_tombstones()->empty());
  CHECK(table.range_tombstone_runs().empty());
  CHECK(table.oldest_birth() == 0);
  CHECK(table.min_expiry() == 0);
  auto it = table.new_iterator();
  it->seek_to_first();
  CHECK_FALSE(it->valid());
  it->seek_to_last();
  CHECK_FALSE(it->valid());
  it->seek("a");
  CHECK_FALSE(it->valid());
  it->seek_before("a");
  CHECK_FALSE(it->valid());
  CHECK(table.memory_bytes() < (1 << 20) / 4);
}

TEST_CASE("memtable has no key or one key: it takes under 5 or 16 KiB, whatever its final size may be") {
  for (const std::size_t expected : {std::size_t{0}, std::size_t{1} << 20, std::size_t{64} << 20, std::size_t{1} << 30}) {
    CAPTURE(expected);
    MemTable table(expected);
    CHECK(table.memory_bytes() < 5 << 10);
    table.insert(lookup("k"), make_entry(1, "v"));
    CHECK(table.memory_bytes() < 16 << 10);
  }
}

TEST_CASE("keys are added to a hash index: it grows to the size for the expected keys, and no further") {
  Arena arena;
  HashIndex index(64 << 10, arena);
  const std::size_t first = index.buckets();
  CHECK(first <= 32);
  std::vector<std::pair<std::string, KeyNode*>> keys;
  for (int i = 0; i < 200'000; ++i) {
    const std::string key = std::to_string(i);
    KeyNode* const node = KeyNode::create(arena.allocate(KeyNode::bytes_for(key.size())), key);
    REQUIRE(index.find(lookup(key)) == nullptr);
    index.add(lookup(key), node);
    keys.emplace_back(key, node);
    const auto& [old_key, old_node] = keys[static_cast<std::size_t>(i) * 7919 % keys.size()];
    REQUIRE(index.find(lookup(old_key)) == old_node);
    REQUIRE(index.find_to_write(lookup(key)) == node);
  }
  CHECK(index.buckets() == 16 << 10);
  std::size_t found = 0;
  for (const auto& [key, node] : keys) found += index.find(lookup(key)) == node ? 1 : 0;
  CHECK(found == keys.size());
}

// There are more writers than processors, so some are interrupted inside an insertion. When such a writer resumes, the table has
// been replaced, and other writers have found its node in the old table. Some keys are common to all writers.
TEST_CASE("hash index grows under many writers: each writer finds the versions that it has inserted", "[threads]") {
  constexpr std::size_t kTables = 400, kKeys = 400, kWriters = 8;
  std::vector<std::unique_ptr<MemTable>> tables;
  for (std::size_t i = 0; i < kTables; ++i) tables.push_back(std::make_unique<MemTable>(4 << 20));
  std::atomic<SeqNum> next_seq{1};
  std::atomic<std::size_t> missed{0};
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      std::vector<SeqNum> mine(kKeys);
      std::vector<std::string> names;
      for (std::size_t k = 0; k < kKeys; ++k) names.push_back((k % 4 != 0 ? std::to_string(w) : "") + ":" + std::to_string(k));
      for (const auto& table : tables) {
        for (std::size_t i = 0; i < kKeys; ++i) {
          const std::size_t k = (i + w * 11) % kKeys;
          Entry entry = make_entry(next_seq.fetch_add(1), "v");
          mine[k] = entry.seq;
          table->insert(lookup(names[k]), entry);
        }
        for (std::size_t k = 0; k < kKeys; ++k) {
          Entry entry;
          if (!table->get(lookup(names[k]), kMaxSeqNum, &entry) || entry.seq < mine[k]) missed.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(missed.load() == 0);
}

TEST_CASE("random versions are inserted: gets and iterators agree with an ordered map") {
  for (std::uint64_t seed = 1; seed <= 40; seed++) {
    CAPTURE(seed);
    Random random(seed);
    MemTable table(random.one_in(2) ? 0 : 1 << 20);  // too small for its keys, or with room to spare
    Model model;
    const std::uint64_t spread = 2 + random.uniform(20);
    fill(&table, &model, random, 1 + random.uniform(3000), spread);
    REQUIRE(table.entries() == model.size());

    for (int i = 0; i < 500; i++) {
      const std::string key = random_key(random, spread);
      const SeqNum view = random.uniform(model.size() + 2);
      auto want = model.lower_bound({key, view});
      const bool present = want != model.end() && want->first.first == key;
      Entry e;
      for (int stage = 0; stage < 2; stage++) table.prefetch(lookup(key), stage);
      REQUIRE(table.get(lookup(key), view, &e) == present);
      if (present) same(e, *want);
    }

    auto it = table.new_iterator();
    auto at = model.begin();
    for (it->seek_to_first(); it->valid(); it->next(), ++at) {
      REQUIRE(at != model.end());
      same(it->entry(), *at);
    }
    REQUIRE(at == model.end());
    for (it->seek_to_last(); it->valid(); it->prev()) {
      REQUIRE(at != model.begin());
      --at;
      same(it->entry(), *at);
    }
    REQUIRE(at == model.begin());
  }
}

TEST_CASE("iterators change direction anywhere, also during insertions: they show the same entries as the model") {
  for (std::uint64_t seed = 1; seed <= 40; seed++) {
    CAPTURE(seed);
    Random random(seed);
    MemTable table(1 << 16);
    Model model;
    const std::uint64_t spread = 2 + random.uniform(8);
    fill(&table, &model, random, 400, spread);
    for (int round = 0; round < 60; round++) {
      auto it = table.new_iterator();
      const std::string key = random_key(random, spread);
      Model::iterator at;
      if (random.one_in(2)) {
        it->seek(key);
        at = model.lower_bound({key, kMaxSeqNum});
      } else {
        it->seek_before(key);
        at = model.lower_bound({key, kMaxSeqNum});
        at = at == model.begin() ? model.end() : std::prev(at);
      }
      for (int step = 0; step < 30; step++) {
        REQUIRE(it->valid() == (at != model.end()));
        if (!it->valid()) break;
        same(it->entry(), *at);
        if (random.one_in(2)) {
          it->next();
          ++at;
        } else {
          it->prev();
          at = at == model.begin() ? model.end() : std::prev(at);
        }
      }
    }
    // An open iterator never loses its position: it shows every entry that existed when it was opened, whatever is inserted
    // meanwhile.
    auto it = table.new_iterator();
    const Model before = model;
    std::size_t shown = 0;
    for (it->seek_to_first(); it->valid(); it->next()) {
      if (before.count({std::string(it->entry().key), it->entry().seq}) != 0) shown++;
      fill(&table, &model, random, 1, spread);
      if (model.size() > 3000) break;
    }
    if (!it->valid()) REQUIRE(shown == before.size());
  }
}

TEST_CASE("entries are added: the memtable counts them, and has their oldest birth and smallest expiry") {
  MemTable table(1 << 20);
  Entry e = make_entry(1, "v");
  e.expiry = 500;
  table.insert(lookup("a"), e);
  e.seq = 2;
  e.expiry = 300;
  table.insert(lookup("b"), e);
  CHECK(table.min_expiry() == 300);
  CHECK(table.oldest_birth() == 0);
  Entry dead = make_entry(3, "");
  dead.kind = EntryKind::kTombstone;
  dead.delete_key = 90;
  table.insert(lookup("a"), dead);
  CHECK(table.oldest_birth() == 90);
  table.insert_range({"a", "b", 4, 70});
  CHECK(table.oldest_birth() == 70);
  CHECK(table.entries() == 3);
  CHECK(table.tombstones() == 1);
  CHECK_FALSE(table.empty());
  FragmentedRangeTombstones::Cover cover{};
  CHECK(table.newest_cover("a", 4, &cover));
  CHECK(cover.seq == 4);
  CHECK(cover.birth == 70);
  CHECK_FALSE(table.newest_cover("a", 3, &cover));
  CHECK_FALSE(table.newest_cover("b", 4, &cover));
  CHECK(table.range_tombstones()->fragments().size() == 1);
}

TEST_CASE("memtable has a compact entry or a header: has_collections() is true") {
  const auto kind = GENERATE(EntryKind::kValue, EntryKind::kTombstone, EntryKind::kCompact, EntryKind::kHeader);
  MemTable table(1 << 20);
  CHECK_FALSE(table.has_collections());
  Entry e = make_entry(1, "v");
  e.kind = kind;
  table.insert(lookup("a"), e);
  e = make_entry(2, "");
  e.kind = EntryKind::kTombstone;
  table.insert(lookup("a"), e);
  CHECK(table.has_collections() == is_collection(kind));
}

TEST_CASE("put has a delete debt: the memtable's oldest birth becomes the debt's birth, which reads back with the put") {
  MemTable table(1 << 20);
  Entry e = make_entry(1, "v");
  e.kind = EntryKind::kCompact;
  e.debt = 300;
  table.insert(lookup("a"), e);
  CHECK(table.oldest_birth() == 300);
  e.seq = 2;
  e.debt = 200;
  table.insert(lookup("b"), e);
  e.seq = 3;
  e.debt = 0;
  table.insert(lookup("b"), e);  // a newer version without a debt does not remove the older debt
  CHECK(table.oldest_birth() == 200);
  CHECK(table.tombstones() == 0);
  Entry got;
  REQUIRE(table.get(lookup("a"), 9, &got));
  CHECK(got.kind == EntryKind::kCompact);
  CHECK(got.debt == 300);
}

TEST_CASE("memtable has only range tombstones: empty() is false") {
  MemTable table(1 << 20);
  table.insert_range({"a", "", 4, 70});
  CHECK_FALSE(table.empty());
  CHECK(table.entries() == 0);
}

TEST_CASE("value is over 64 KiB: the memtable shares its memory instead of copying it") {
  auto large = std::make_shared<const std::string>(kLargeValueBytes + 1, 'L');
  auto small = std::make_shared<const std::string>(kLargeValueBytes, 'S');
  {
    MemTable table(1 << 20);
    const std::size_t before = table.memory_bytes();
    Entry e = make_entry(1, *large);
    e.shared = &large;
    table.insert(lookup("large"), e);
    CHECK(large.use_count() == 2);
    CHECK(table.memory_bytes() > before + kLargeValueBytes);
    e = make_entry(2, *small);
    e.shared = &small;
    table.insert(lookup("small"), e);
    CHECK(small.use_count() == 1);
    const std::string lone(kLargeValueBytes + 5, 'N');
    table.insert(lookup("lone"), make_entry(3, lone));

    Entry got;
    REQUIRE(table.get(lookup("large"), 5, &got));
    REQUIRE(got.shared != nullptr);
    CHECK(got.shared->get() == large.get());
    CHECK(got.value.data() == large->data());
    REQUIRE(table.get(lookup("small"), 5, &got));
    CHECK(got.shared == nullptr);
    CHECK(got.value == *small);
    REQUIRE(table.get(lookup("lone"), 5, &got));
    REQUIRE(got.shared != nullptr);
    CHECK(got.value == lone);
  }
  CHECK(large.use_count() == 1);
}

TEST_CASE("entry has an expiry, a delete debt, the flag `first` and kind header: all of them read back") {
  MemTable table(1 << 20);
  Entry e = make_entry(9, "value");
  e.kind = EntryKind::kHeader;
  e.expiry = 77;
  e.debt = 55;
  e.first = true;
  e.delete_key = kNoStamp;
  table.insert(lookup("k"), e);
  Entry got;
  REQUIRE(table.get(lookup("k"), 9, &got));
  CHECK(got.kind == EntryKind::kHeader);
  CHECK(got.expiry == 77);
  CHECK(got.debt == 55);
  CHECK(got.first);
  CHECK(got.delete_key == kNoStamp);
  CHECK(got.value == "value");
}

TEST_CASE("versions of a key are inserted in any order: they are read in descending order of seqs") {
  for (std::uint64_t seed = 1; seed <= 50; seed++) {
    CAPTURE(seed);
    Random random(seed);
    MemTable table(1 << 16);
    std::vector<SeqNum> seqs;
    for (SeqNum seq = 1; seq <= 60; seq++) seqs.push_back(seq * 2);
    for (std::size_t i = seqs.size(); i > 1; i--) std::swap(seqs[i - 1], seqs[random.uniform(i)]);
    for (const SeqNum seq : seqs) table.insert(lookup("k"), make_entry(seq, std::to_string(seq)));
    for (SeqNum view = 0; view <= 122; view++) {
      const SeqNum want = std::min<SeqNum>(view / 2 * 2, 120);
      Entry got;
      REQUIRE(table.get(lookup("k"), view, &got) == (want != 0));
      if (want != 0) REQUIRE(got.seq == want);
      if (want != 0) REQUIRE(got.value == std::to_string(want));
    }
    auto it = table.new_iterator();
    SeqNum want = 120;
    for (it->seek_to_first(); it->valid(); it->next(), want -= 2) REQUIRE(it->entry().seq == want);
    REQUIRE(want == 0);
  }
}

TEST_CASE("writers race for the same keys: every version is in its key's chain, in order", "[threads]") {
  constexpr unsigned kWriters = 4;
  constexpr SeqNum kEach = 4000;
  constexpr unsigned kKeys = 37;
  MemTable table(1 << 14);
  std::atomic<SeqNum> next_seq{1};
  std::atomic<unsigned> running{kWriters};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWriters; w++) {
    threads.emplace_back([&, w] {
      Random random(w + 1);
      for (SeqNum i = 0; i < kEach; i++) {
        const SeqNum seq = next_seq.fetch_add(1);
        const std::string key = "shared-prefix-" + std::to_string(random.uniform(random.one_in(4) ? 5000 : kKeys));
        const std::string value = key + "/" + std::to_string(seq);
        table.insert(lookup(key), make_entry(seq, value));
        // When insert() returns, gets and iterators find the writer's version.
        Entry got;
        if (!table.get(lookup(key), seq, &got) || got.value != value) failed = true;
        auto it = table.new_iterator();
        it->seek(key);
        while (it->valid() && it->entry().key == key && it->entry().seq > seq) it->next();
        if (!it->valid() || it->entry().key != key || it->entry().seq != seq) failed = true;
      }
      running--;
    });
  }
  for (int reader = 0; reader < 2; reader++) {
    threads.emplace_back([&, reader] {
      while (running.load() != 0) {
        auto it = table.new_iterator();
        std::string last_key;
        SeqNum last_seq = 0;
        bool any = false;
        for (reader == 0 ? it->seek_to_first() : it->seek_to_last(); it->valid(); reader == 0 ? it->next() : it->prev()) {
          const Entry& e = it->entry();
          if (e.value != std::string(e.key) + "/" + std::to_string(e.seq)) failed = true;
          const bool in_order =
              reader == 0 ? version_before(last_key, last_seq, e.key, e.seq) : version_before(e.key, e.seq, last_key, last_seq);
          if (any && !in_order) failed = true;
          any = true;
          last_key = e.key;
          last_seq = e.seq;
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK_FALSE(failed);
  CHECK(table.entries() == kWriters * kEach);
  std::vector<bool> seen(kWriters * kEach + 1);
  auto it = table.new_iterator();
  for (it->seek_to_first(); it->valid(); it->next()) {
    REQUIRE_FALSE(seen[it->entry().seq]);
    seen[it->entry().seq] = true;
  }
  for (SeqNum seq = 1; seq <= kWriters * kEach; seq++) REQUIRE(seen[seq]);
}

TEST_CASE("several writers insert ascending keys at once: no entry is lost", "[threads]") {
  constexpr unsigned kWriters = 3;
  constexpr unsigned kEach = 6000;
  MemTable table(1 << 20);
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWriters; w++) {
    threads.emplace_back([&, w] {
      for (unsigned i = 0; i < kEach; i++) {
        const std::string key = "key" + std::to_string(10'000'000 + i * kWriters + w);
        table.insert(lookup(key), make_entry(SeqNum{i} * kWriters + w + 1, key));
      }
    });
  }
  for (auto& t : threads) t.join();
  auto it = table.new_iterator();
  unsigned i = 0;
  for (it->seek_to_first(); it->valid(); it->next(), i++) REQUIRE(it->entry().key == "key" + std::to_string(10'000'000 + i));
  CHECK(i == kWriters * kEach);
  for (it->seek_to_last(); it->valid(); it->prev()) i--;
  CHECK(i == 0);
}

TEST_CASE("memtable of a large batch is adopted by a tree: its entries get seqs, births and stamps of the commit") {
  const auto mode = GENERATE(StampMode::kWriteTime, StampMode::kExpireTime, StampMode::kExplicit);
  constexpr SeqNum kFirst = 500;
  constexpr Millis kTime = 10'000;
  MemTable m(4096);
  const auto insert = [&](Bytes key, SeqNum index, EntryKind kind, DeleteKey stamp, Millis expiry) {
    Entry e;
    e.seq = index;
    e.kind = kind;
    e.delete_key = kind == EntryKind::kTombstone ? 0 : stamp;
    e.expiry = expiry;
    e.value = kind == EntryKind::kTombstone ? "" : "value";
    m.insert(lookup(key), e);
  };
  insert("a", 0, EntryKind::kValue, 7, 0);
  insert("b", 1, EntryKind::kValue, 8, kTime + 50);
  insert("a", 2, EntryKind::kTombstone, 0, 0);
  insert("c", 3, EntryKind::kValue, 9, kTime - 50);  // the entry expired before the batch had a time
  insert("h", 4, EntryKind::kHeader, kNoStamp, 0);
  insert("s", 5, EntryKind::kCompact, 10, 0);
  insert("t", 6, EntryKind::kCompact, 11, kTime - 50);
  m.set_place({.first_seq = kFirst, .time = kTime, .stamp = mode});

  Entry e;
  CHECK_FALSE(m.get(lookup("a"), kFirst - 1, &e));
  REQUIRE(m.get(lookup("a"), kFirst, &e));
  CHECK(e.seq == kFirst);
  CHECK(e.value == "value");
  CHECK(e.delete_key == (mode == StampMode::kWriteTime ? kTime : mode == StampMode::kExplicit ? 7 : kNoStamp));
  REQUIRE(m.get(lookup("a"), kMaxSeqNum, &e));
  CHECK(e.seq == kFirst + 2);
  CHECK(e.is_tombstone());
  CHECK(e.birth() == kTime);
  REQUIRE(m.get(lookup("b"), kMaxSeqNum, &e));
  CHECK(e.expiry == kTime + 50);
  CHECK(e.delete_key == (mode == StampMode::kWriteTime ? kTime : mode == StampMode::kExplicit ? 8 : kTime + 50));
  REQUIRE(m.get(lookup("c"), kMaxSeqNum, &e));
  CHECK(e.is_tombstone());
  CHECK(e.birth() == kTime);
  CHECK(e.expiry == 0);
  CHECK(e.value.empty());
  REQUIRE(m.get(lookup("h"), kMaxSeqNum, &e));
  CHECK(e.kind == EntryKind::kHeader);
  REQUIRE(m.get(lookup("s"), kMaxSeqNum, &e));
  CHECK(e.kind == EntryKind::kCompact);
  CHECK(e.delete_key == (mode == StampMode::kWriteTime ? kTime : mode == StampMode::kExplicit ? 10 : kNoStamp));
  REQUIRE(m.get(lookup("t"), kMaxSeqNum, &e));
  CHECK(e.is_tombstone());

  CHECK(m.oldest_birth() == kTime);
  CHECK(m.min_expiry() == kTime);  // "c" is a delete that was born with the batch, so the minimum is not before that
  std::string seen;
  const auto walk = m.new_iterator();
  for (walk->seek_to_first(); walk->valid(); walk->next()) {
    const Entry& entry = walk->entry();
    seen += std::string(entry.key) + std::to_string(entry.seq) + (entry.is_tombstone() ? "- " : "+ ");
  }
  CHECK(seen == "a502- a500+ b501+ c503- h504+ s505+ t506- ");
  seen.clear();
  for (walk->seek_to_last(); walk->valid(); walk->prev()) seen += std::to_string(walk->entry().seq) + " ";
  CHECK(seen == "506 505 504 503 501 500 502 ");
}

TEST_CASE("put of a large batch has a delete debt: the debt is born at the commit, also if the batch deletes nothing else") {
  constexpr Millis kTime = 10'000;
  const bool expired = GENERATE(false, true);
  MemTable m(4096);
  Entry e = make_entry(0, "value");
  e.debt = kUnbornDebt;
  e.expiry = expired ? kTime - 1 : 0;
  m.insert(lookup("a"), e);
  e = make_entry(1, "value");
  m.insert(lookup("b"), e);
  m.set_place({.first_seq = 500, .time = kTime, .stamp = StampMode::kExplicit});
  CHECK(m.oldest_birth() == kTime);
  REQUIRE(m.get(lookup("a"), kMaxSeqNum, &e));
  CHECK(e.is_tombstone() == expired);
  CHECK(e.debt == (expired ? 0 : kTime));
  if (expired) CHECK(e.birth() == kTime);
  REQUIRE(m.get(lookup("b"), kMaxSeqNum, &e));
  CHECK(e.debt == 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
