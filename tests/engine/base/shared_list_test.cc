#include "base/shared_list.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

struct Total {
  int sum = 0;
  static Total of(std::span<const int> items) { return {std::accumulate(items.begin(), items.end(), 0)}; }
};
using List = SharedList<int, Total>;

std::vector<int> items_of(const List& list) { return {list.begin(), list.end()}; }
int total_of(const List& list) {
  int sum = 0;
  list.for_each_sums([&](const Total& total) { sum += total.sum; });
  return sum;
}
std::vector<int> numbers(int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}
std::size_t common_chunks(const List& a, const List& b) {
  std::size_t common = 0;
  for (std::size_t i = 0; i < a.chunks(); ++i) {
    for (std::size_t j = 0; j < b.chunks(); ++j) common += &a.at_chunk(i) == &b.at_chunk(j) ? 1 : 0;
  }
  return common;
}

TEST_CASE("copy of a list is changed: the original stays, and one chunk is copied") {
  const List before(numbers(10'000));
  List after = before;
  CHECK(common_chunks(before, after) == before.chunks());
  after.insert(after.begin() + 5000, -1);
  after.erase(after.begin() + 5003);
  after.replace(after.begin() + 5010, -2);
  CHECK(items_of(before) == numbers(10'000));
  CHECK(after[5000] == -1);
  CHECK(after[5003] == 5003);
  CHECK(after[5010] == -2);
  CHECK(after.size() == 10'000);
  CHECK(common_chunks(before, after) + 2 >= before.chunks());
}

TEST_CASE("list is changed before or after seal() has stored the chunks' sums: total_of() includes the new items") {
  List list(numbers(1000));
  CHECK(total_of(list) == 499'500);
  list.seal();
  CHECK(total_of(list) == 499'500);
  list.edit(700) += 10;
  CHECK_FALSE(list.at_chunk(2).sealed);
  CHECK(total_of(list) == 499'510);
  list.seal();
  CHECK(list.at_chunk(2).sealed);
  CHECK(total_of(list) == 499'510);
  List copy = list;
  copy.erase_if([](int i) { return i % 2 == 0; });
  CHECK(total_of(copy) == 250'000);
  CHECK(total_of(list) == 499'510);
}

TEST_CASE("list and vector get the same random operations: they have the same items") {
  Random random(7);
  std::vector<int> model;
  List list;
  std::vector<std::pair<List, std::vector<int>>> copies;
  for (int step = 0; step < 6000; ++step) {
    const auto at = static_cast<std::ptrdiff_t>(random.uniform(model.size() + 1));
    const auto value = static_cast<int>(random.uniform(1000));
    const std::uint64_t what = random.uniform(step < 4000 ? 10 : 30);
    if (what < 6 && what != 0) {
      model.insert(model.begin() + at, value);
      list.insert(list.begin() + at, value);
    } else if (what == 0) {
      model.push_back(value);
      list.push_back(value);
    } else if (what == 6 && random.one_in(200)) {
      const auto gone = [value](int i) { return i % 3 == value % 3; };
      std::erase_if(model, gone);
      list.erase_if(gone);
    } else if (what == 7 && random.one_in(20)) {
      list.seal();
    } else if (what == 8 && random.one_in(100)) {
      copies.emplace_back(list, model);
    } else if (at < static_cast<std::ptrdiff_t>(model.size())) {
      if (what == 9) {
        model[static_cast<std::size_t>(at)] = value;
        list.replace(list.begin() + at, value);
      } else {
        model.erase(model.begin() + at);
        list.erase(list.begin() + at);
      }
    }
    REQUIRE(list.size() == model.size());
    if (step % 50 == 0) {
      REQUIRE(items_of(list) == model);
      REQUIRE(total_of(list) == std::accumulate(model.begin(), model.end(), 0));
      for (std::size_t c = 0; c < list.chunks(); ++c) REQUIRE(list.at_chunk(c).items.size() <= List::kMostItems);
    }
  }
  for (const auto& [copy, then] : copies) CHECK(items_of(copy) == then);
  // Iterators are moved by any distance.
  for (int i = 0; i < 100 && !model.empty(); ++i) {
    const auto a = static_cast<std::ptrdiff_t>(random.uniform(model.size()));
    const auto b = static_cast<std::ptrdiff_t>(random.uniform(model.size()));
    const auto it = list.begin() + a;
    CHECK((it + (b - a)) - list.begin() == b);
    CHECK(*(it + (b - a)) == model[static_cast<std::size_t>(b)]);
    CHECK(((it < list.begin() + b) == (a < b)));
  }
}

TEST_CASE("list is partitioned: partition_point() returns the same as std::partition_point() of its items") {
  const List list(numbers(3000));
  for (const int bound : {-1, 0, 1, 255, 256, 257, 1500, 2999, 3000}) {
    const auto at = list.partition_point([bound](int i) { return i < bound; });
    CHECK(at - list.begin() == std::clamp(bound, 0, 3000));
  }
  const List empty;
  CHECK(empty.partition_point([](int) { return true; }) == empty.end());
}

TEST_CASE("chunks of a list are added to a second list: the second has the items, and its changes leave the first") {
  List from(numbers(600));
  from.seal();
  List to;
  for (std::size_t c = 0; c < from.chunks(); ++c) to.push_chunk(from.chunk(c));
  CHECK(to == from);
  to.replace(to.begin(), 5);
  CHECK(from.front() == 0);
  CHECK(to.front() == 5);
}

// Only the thread sanitizer finds a missing order here.
TEST_CASE("thread reads a copy of a list and drops the copy: the list changes the shared chunk in place only after the drop",
          "[threads]") {
  int in_place = 0;
  for (int round = 0; round < 100; ++round) {
    List list(numbers(10));
    const List::Chunk* const before = &list.at_chunk(0);
    int sum = 0;
    std::atomic<bool> dropped{false};  // relaxed, so that it orders nothing itself
    std::thread reader([&sum, &dropped, copy = list]() mutable {
      for (const int i : copy) sum += i;
      copy.clear();
      dropped.store(true, std::memory_order_relaxed);
    });
    while (!dropped.load(std::memory_order_relaxed)) std::this_thread::yield();
    list.edit(3) = 100;
    in_place += &list.at_chunk(0) == before ? 1 : 0;
    reader.join();
    CHECK(sum == 45);
    CHECK(total_of(list) == 142);
  }
  CHECK(in_place > 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
