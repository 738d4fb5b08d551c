// Measures the cost of a memtable: ns of CPU time per insertion, point read and step of a walk, over all threads, with the sizes
// of engine/docs/decisions/0001-memtable-index.md. A busy machine disturbs CPU time less than wall time.
//
//   memtable_bench [keys = 500000] [rounds = 3]      prints the best round of each, and bytes per key
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "memtable/memtable.h"

namespace ebbtide {
namespace {

constexpr std::size_t kValueBytes = 100;

constexpr std::size_t kKeyBytes = 16;

/// Stores keys of one length side by side, in the order of use, so that reading them costs hardly anything.
class KeyList {
 public:
  /// Makes the keys number `numbers[0]`, `numbers[1]`, ...: "key:" and 12 digits, as in benchmarks of key-value servers, so that
  /// the first 8 bytes distinguish few keys.
  explicit KeyList(const std::vector<std::size_t>& numbers) {
    char text[32];
    for (const std::size_t number : numbers) {
      std::snprintf(text, sizeof text, "key:%012zu", number);
      bytes_.append(text, kKeyBytes);
    }
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / kKeyBytes; }
  Bytes operator[](std::size_t i) const { return Bytes(bytes_).substr(i * kKeyBytes, kKeyBytes); }

 private:
  std::string bytes_;
};

std::vector<std::size_t> numbers(std::size_t count, std::size_t add, bool shuffle) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < count; i++) out.push_back(i * 2 + add);
  Random random(1 + add);
  for (std::size_t i = shuffle ? count : 0; i > 1; i--) std::swap(out[i - 1], out[random.uniform(i)]);
  return out;
}

struct Keys {
  explicit Keys(std::size_t count)
      : in_order(numbers(count, 0, false)), shuffled(numbers(count, 0, true)), absent(numbers(count, 1, true)) {}
  KeyList in_order, shuffled, absent;
};

double ns_per_op(std::size_t ops, const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) * (1e9 / CLOCKS_PER_SEC) / static_cast<double>(ops);
}

class Bench {
 public:
  Bench(const Keys& keys, int rounds) : keys_(keys), rounds_(rounds) {}

  void run() {
    for (int round = 0; round < rounds_; round++) {
      seq_ = 1;
      auto table = fresh();
      record("insert, random order", [&] { fill(*table, keys_.shuffled, 0, 1); });
      bytes_ = table->memory_bytes();
      record("overwrite, random order", [&] { fill(*table, keys_.shuffled, 0, 1); });
      record("get, hit", [&] { get_all(*table, keys_.shuffled); });
      record("get, miss", [&] { get_all(*table, keys_.absent); });
      record("get, hit, prefetched in spans of 16", [&] { get_spans(*table, keys_.shuffled); });
      record("seek", [&] { seek_all(*table); });
      table = fresh();
      fill(*table, keys_.shuffled, 0, 1);
      record("iterate", [&] { iterate(*table, true); });
      record("iterate backwards", [&] { iterate(*table, false); });
      table = fresh();
      record("insert, in order", [&] { fill(*table, keys_.in_order, 0, 1); });
      in_order_bytes_ = table->memory_bytes();
      table = fresh();
      record("insert, random order, two writers", [&] {
        std::thread other([&] { fill(*table, keys_.shuffled, 1, 2); });
        fill(*table, keys_.shuffled, 0, 2);
        other.join();
      });
    }
    for (const auto& [name, ns] : results_) std::printf("%-40s %8.1f ns/op\n", name.c_str(), ns);
    const double n = static_cast<double>(keys_.in_order.size());
    std::printf("%-40s %8.1f bytes/key\n", "memory, random order", static_cast<double>(bytes_) / n);
    std::printf("%-40s %8.1f bytes/key\n", "memory, in order", static_cast<double>(in_order_bytes_) / n);
    if (sink_ == 42) std::printf("\n");
  }

 private:
  [[nodiscard]] std::unique_ptr<MemTable> fresh() const { return std::make_unique<MemTable>(keys_.in_order.size() * 200); }

  void record(const char* name, const std::function<void()>& work) {
    const double ns = ns_per_op(keys_.in_order.size(), work);
    for (auto& [known, best] : results_) {
      if (known == name) {
        best = std::min(best, ns);
        return;
      }
    }
    results_.emplace_back(name, ns);
  }
  void fill(MemTable& table, const KeyList& keys, std::size_t from, std::size_t step) {
    Entry e;
    const std::string value(kValueBytes, 'v');
    e.value = value;
    SeqNum seq = seq_ + from;
    for (std::size_t i = from; i < keys.size(); i += step, seq += step) {
      e.seq = seq;
      e.delete_key = seq;
      table.insert({keys[i], hash_key(keys[i])}, e);
    }
    if (from == 0) seq_ += keys.size();
  }
  void get_all(const MemTable& table, const KeyList& keys) {
    Entry e;
    for (std::size_t i = 0; i < keys.size(); i++) {
      if (table.get({keys[i], hash_key(keys[i])}, kMaxSeqNum, &e)) sink_ += static_cast<unsigned char>(e.value[0]);
    }
  }
  void get_spans(const MemTable& table, const KeyList& keys) {
    constexpr std::size_t kSpan = 16;
    Entry e;
    LookupKey span[kSpan];
    for (std::size_t i = 0; i + kSpan <= keys.size(); i += kSpan) {
      for (std::size_t j = 0; j < kSpan; j++) span[j] = {keys[i + j], hash_key(keys[i + j])};
      for (int stage = 0; stage < 2; stage++) {
        for (const LookupKey& key : span) table.prefetch(key, stage);
      }
      for (const LookupKey& key : span) {
        if (table.get(key, kMaxSeqNum, &e)) sink_ += static_cast<unsigned char>(e.value[0]);
      }
    }
  }
  void seek_all(const MemTable& table) {
    auto it = table.new_iterator();
    for (std::size_t i = 0; i < keys_.shuffled.size(); i++) {
      it->seek(keys_.shuffled[i]);
      sink_ += it->entry().seq;
    }
  }
  void iterate(const MemTable& table, bool forward) {
    auto it = table.new_iterator();
    for (forward ? it->seek_to_first() : it->seek_to_last(); it->valid(); forward ? it->next() : it->prev()) {
      sink_ += it->entry().key.size() + static_cast<unsigned char>(it->entry().value[0]);
    }
  }

  const Keys& keys_;
  const int rounds_;
  SeqNum seq_ = 1;
  std::uint64_t sink_ = 0;
  std::size_t bytes_ = 0, in_order_bytes_ = 0;
  std::vector<std::pair<std::string, double>> results_;
};

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500'000;
  const ebbtide::Keys keys(count);
  ebbtide::Bench(keys, argc > 2 ? std::atoi(argv[2]) : 3).run();
}
