#include "iter/visible_iterator.h"

#include <catch2/catch.hpp>

#include "deletes/tombstone_set.h"
#include "entries.h"

namespace ebbtide {
namespace TEST_FILE {

using testing::Owned;
using testing::Source;
using testing::VectorIterator;

VisibleIterator make_iterator(const std::vector<Source>& sources, VisibleOptions options) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  std::vector<TombstoneSource> tombstones;
  for (std::size_t age = 0; age < sources.size(); ++age) {
    children.push_back(std::make_unique<VectorIterator>(&sources[age].entries));
    if (age % 2 == 1) {
      if (sources[age].tombstones.empty()) continue;
      tombstones.push_back({age, {std::make_shared<FragmentedRangeTombstones>(std::span(sources[age].tombstones))}});
      continue;
    }
    TombstoneSet set;  // several sets of one age that overlap, as in a memtable
    for (const RangeTombstone& t : sources[age].tombstones) set.insert(t);
    for (SharedTombstones& run : set.runs()) tombstones.push_back({age, {std::move(run)}});
  }
  return {std::make_unique<MergingIterator>(std::move(children)), std::move(tombstones), std::move(options)};
}

std::vector<Owned> clip(std::vector<Owned> entries, const KeyRange& bounds) {
  std::erase_if(entries, [&](const Owned& e) { return !bounds.contains(e.key); });
  return entries;
}

/// Resumes after each pause until the move is done. Each resume must make progress.
void finish_forward(VisibleIterator& it) {
  std::string last;
  for (bool again = false; it.paused(); again = true) {
    REQUIRE_FALSE(it.valid());
    REQUIRE((!again || std::string(it.resume_key()) > last));
    last = it.resume_key();
    it.seek(it.resume_key());
  }
}
void finish_backward(VisibleIterator& it) {
  std::string last;
  for (bool again = false; it.paused(); again = true) {
    REQUIRE_FALSE(it.valid());
    REQUIRE((!again || std::string(it.resume_key()) < last));
    last = it.resume_key();
    it.seek_before(it.resume_key());
  }
}

void compare(VisibleIterator& it, const std::vector<Owned>& model, Random& random, std::uint64_t keys, int moves) {
  std::size_t at = model.size();
  const auto from = [&](const std::string& key) {
    return static_cast<std::size_t>(
        std::lower_bound(model.begin(), model.end(), key, [](const Owned& e, const std::string& k) { return e.key < k; }) -
        model.begin());
  };
  for (int i = 0; i < moves; ++i) {
    const std::uint64_t move = random.uniform(at < model.size() ? 20 : 4);
    if (move == 0) {
      it.seek_to_first();
      finish_forward(it);
      at = 0;
    } else if (move == 1) {
      it.seek_to_last();
      finish_backward(it);
      at = model.empty() ? 0 : model.size() - 1;
    } else if (move == 2) {
      const std::string key = testing::random_key(random, keys);
      it.seek(key);
      finish_forward(it);
      at = from(key);
    } else if (move == 3) {
      const std::string key = testing::random_key(random, keys);
      it.seek_before(key);
      finish_backward(it);
      at = from(key);
      at = at == 0 ? model.size() : at - 1;
    } else if (move < 12) {
      it.next();
      finish_forward(it);
      ++at;
    } else {
      it.prev();
      finish_backward(it);
      at = at == 0 ? model.size() : at - 1;
    }
    REQUIRE(it.status().is_ok());
    REQUIRE(it.valid() == (at < model.size()));
    if (it.valid()) REQUIRE(Owned::of(it.entry()) == model[at]);
  }
}

TEST_CASE("visible iterator has any view, direction, bounds and pauses: it shows what the model shows") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint64_t keys = seed % 4 == 0 ? 3 : 40;  // with few keys, each has many versions
    SeqNum last = 0;
    const auto sources = testing::random_sources(
        random, {.sources = 1 + seed % 5, .keys = keys, .versions = 80, .range_tombstones = seed % 4, .records = seed % 3 * 5},
        &last);
    VisibleOptions options{
        .view_seq = random.one_in(2) ? last : random.uniform(last + 1), .now = 1000, .max_steps = random.uniform(4)};
    for (const Source& source : sources) {
      if (!source.records.empty()) options.records.push_back(std::make_shared<const RecordSet>(source.records));
    }
    if (random.one_in(2)) options.bounds.start = testing::random_key(random, keys);
    if (random.one_in(2)) options.bounds.end = testing::random_key(random, keys);
    const auto model = clip(testing::visible(sources, options.view_seq, options.now), options.bounds);
    auto it = make_iterator(sources, options);
    REQUIRE_FALSE(it.valid());
    compare(it, model, random, keys, 150);
  }
}

TEST_CASE("scan pauses and is continued by a new iterator: no key is lost or repeated") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    SeqNum last = 0;
    const auto sources = testing::random_sources(random, {.sources = 4, .keys = 40, .versions = 60}, &last);
    const VisibleOptions options{.view_seq = last, .now = 1000, .max_steps = 1};
    std::vector<Owned> seen;
    std::string at;
    for (;;) {
      auto it = make_iterator(sources, options);
      it.seek(at);
      if (it.valid()) {
        seen.push_back(Owned::of(it.entry()));
        at = seen.back().key + '\0';
      } else if (it.paused()) {
        at = it.resume_key();
      } else {
        break;
      }
    }
    REQUIRE(seen == testing::visible(sources, last, 1000));
  }
}

TEST_CASE("older sources have many covered keys: the iterator skips these in few steps") {
  std::vector<Source> sources(3);
  sources[0].tombstones.push_back({"k1", "k9", 100'000, 7});
  sources[0].entries.push_back({.key = "k3", .seq = 100'001, .value = "new"});
  for (int i = 0; i < 20'000; ++i) {
    sources[1 + i % 2].entries.push_back(
        {.key = "k" + std::to_string(100'000 + i), .seq = static_cast<SeqNum>(1 + i), .value = "old"});
  }
  sources[2].entries.push_back({.key = "k99", .seq = 30'000, .value = "behind"});
  auto it = make_iterator(sources, {.view_seq = 200'000, .now = 1});
  it.seek_to_first();
  REQUIRE(it.entry().key == "k3");
  it.next();
  REQUIRE(it.entry().key == "k99");
  it.next();
  REQUIRE_FALSE(it.valid());
  REQUIRE(it.steps() < 100);

  it.seek_to_last();
  REQUIRE(it.entry().key == "k99");
  it.prev();
  REQUIRE(it.entry().key == "k3");
  it.prev();
  REQUIRE_FALSE(it.valid());
  REQUIRE(it.steps() < 200);

  SECTION("view is older than the tombstone: the iterator shows the keys") {
    auto old = make_iterator(sources, {.view_seq = 50'000, .now = 1});
    std::size_t n = 0;
    for (old.seek_to_first(); old.valid(); old.next()) ++n;
    REQUIRE(n == 20'001);
  }
}

TEST_CASE("key has 10,000 versions: a current view passes them in few steps") {
  std::vector<Source> sources(1);
  for (SeqNum seq = 10'000; seq > 0; --seq)
    sources[0].entries.push_back({.key = "hot", .seq = seq, .value = std::to_string(seq)});
  sources[0].entries.push_back({.key = "next", .seq = 20'000, .value = "n"});
  auto it = make_iterator(sources, {.view_seq = 20'000, .now = 1});
  it.seek_to_first();
  REQUIRE(it.entry().value == "10000");
  it.next();
  REQUIRE(it.entry().key == "next");
  it.prev();
  REQUIRE(it.entry().value == "10000");
  it.prev();
  REQUIRE_FALSE(it.valid());
  REQUIRE(it.steps() < 100);
}

TEST_CASE("source of a visible iterator has an error: the iterator ends with the error") {
  std::vector<Source> sources(2);
  for (int i = 0; i < 10; ++i) {
    sources[0].entries.push_back({.key = "k" + std::to_string(i), .seq = static_cast<SeqNum>(100 + i), .value = "v"});
    sources[1].entries.push_back(
        {.key = "k" + std::to_string(i), .seq = static_cast<SeqNum>(10 + i), .kind = EntryKind::kTombstone});
  }
  for (const bool forward : {true, false}) {
    for (int moves = 1; moves < 14; ++moves) {
      std::vector<std::unique_ptr<InternalIterator>> children;
      for (std::size_t i = 0; i < 2; ++i) {
        auto child = std::make_unique<VectorIterator>(&sources[i].entries);
        if (i == 1) child->fail_after(moves);
        children.push_back(std::move(child));
      }
      VisibleIterator it(std::make_unique<MergingIterator>(std::move(children)), {}, {.view_seq = 1000, .now = 1});
      std::size_t seen = 0;
      if (forward) {
        for (it.seek_to_first(); it.valid(); it.next()) ++seen;
      } else {
        for (it.seek_to_last(); it.valid(); it.prev()) ++seen;
      }
      CAPTURE(forward, moves, seen);
      REQUIRE((seen == 10 || !it.status().is_ok()));
    }
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide
