// Tests that commits are published in seq order, and that the mapping of databases moves together with the visible seq.
#include "db/write/publication.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

/// Returns a stand-in for a tree, of which only the address matters.
Tree* tree_number(std::uintptr_t n) { return reinterpret_cast<Tree*>(n * 64); }  // NOLINT(performance-no-int-to-ptr)
std::uintptr_t number_of(const Tree* tree) { return reinterpret_cast<std::uintptr_t>(tree) / 64; }

TEST_CASE("commit is published: its operations are visible, and a remapped database has its new tree") {
  Publication published;
  published.start(10);
  CHECK(published.visible_seq() == 10);
  CHECK(published.tree(3) == nullptr);
  published.publish(10, 12, {});
  CHECK(published.visible_seq() == 12);
  const std::uint64_t version = published.mapping_version();
  CHECK(published.unchanged(version));
  const std::vector<std::pair<DatabaseId, Tree*>> remapped = {{3, tree_number(7)}};
  published.publish(12, 13, remapped);
  CHECK(published.visible_seq() == 13);
  CHECK(published.tree(3) == tree_number(7));
  CHECK_FALSE(published.unchanged(version));
  CHECK(published.unchanged(published.mapping_version()));
  published.await(13);
  published.await_settled(13);
}

TEST_CASE("earlier commits are not published yet: the publication of a commit waits for them", "[threads]") {
  constexpr SeqNum kCommits = 2'000;
  constexpr unsigned kThreads = 4;
  Publication published;
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (SeqNum seq = 1 + t; seq <= kCommits; seq += kThreads) {
        published.publish(seq - 1, seq, {});
        if (published.visible_seq() < seq) wrong = true;
      }
    });
  }
  published.await(kCommits);
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
  CHECK(published.visible_seq() == kCommits);
}

TEST_CASE("reader finds the mapping version unchanged: mapping and seq that it read are of the same commit", "[threads]") {
  constexpr SeqNum kCommits = 20'000;
  Publication published;
  std::atomic<bool> torn{false};
  std::atomic<int> consistent{0};
  std::thread reader([&] {
    while (published.visible_seq() < kCommits) {
      const std::uint64_t version = published.mapping_version();
      const Tree *a = published.tree(0), *b = published.tree(1);
      const SeqNum seq = published.visible_seq();
      if (!published.unchanged(version)) continue;
      consistent += 1;
      // Each commit maps both databases to the tree of its seq.
      if (number_of(a) != seq || number_of(b) != seq) torn = true;
    }
  });
  std::vector<std::thread> writers;
  for (unsigned t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      for (SeqNum seq = 1 + t; seq <= kCommits; seq += 2) {
        const std::vector<std::pair<DatabaseId, Tree*>> remapped = {{0, tree_number(seq)}, {1, tree_number(seq)}};
        published.publish(seq - 1, seq, remapped);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  reader.join();
  CHECK_FALSE(torn);
  published.await_settled(kCommits);
}

}  // namespace TEST_FILE
