// Measures the cost of one table: building it, lookups of existing and absent keys, and a walk. Pages are in the cache.
//
//   bench_table --keys 500000 --value 100 --pages-per-tile 8 --compression 1 --dir /tmp/x
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/random.h"
#include "cache/block_cache.h"
#include "io/memory_fs.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace {

using namespace ebbtide;

struct Arguments {
  std::uint64_t keys = 500'000;
  std::size_t value_bytes = 100;
  std::uint32_t page_size = 4096;
  unsigned compression = 1;
  std::string dir;  // empty: a file system in memory
};

// Measures CPU time, since a busy machine disturbs it less than wall time.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  double start_ = now();
};

std::string key_of(std::uint64_t i) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "key:%012llu", static_cast<unsigned long long>(2 * i));
  return buffer;
}

[[noreturn]] void fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

// Returns the nanoseconds per lookup of keys in random order, `ahead` of which are prefetched together.
double lookups(const TableReader& table, Epoch& epoch, const std::vector<std::string>& keys, Lookup expected, std::size_t ahead) {
  ReadCounters counters;
  Entry entry;
  std::shared_ptr<const void> pin;
  Status status;
  std::vector<LookupKey> hashed(ahead == 0 ? 1 : ahead);
  std::vector<LookupState> states(hashed.size());
  std::vector<char> denied(hashed.size());
  Stopwatch watch;
  for (std::size_t i = 0; i + hashed.size() <= keys.size(); i += hashed.size()) {
    EpochGuard guard(epoch);
    for (std::size_t n = 0; n < hashed.size(); ++n) hashed[n] = {keys[i + n], hash_key(keys[i + n])};
    for (int stage = 0; ahead != 0 && stage < TableReader::kPrefetchStages; ++stage) {
      for (std::size_t n = 0; n < hashed.size(); ++n) {
        if (stage < 2 || denied[n] == 0) denied[n] = table.prefetch(hashed[n], stage, &states[n]) ? 0 : 1;
      }
    }
    for (std::size_t n = 0; n < hashed.size(); ++n) {
      const LookupState* const known = ahead != 0 ? &states[n] : nullptr;
      const Lookup found = ahead != 0 && denied[n] != 0
                               ? Lookup::kAbsent
                               : table.get(hashed[n], kMaxSeqNum, nullptr, &entry, &pin, &counters, &status, known);
      if (found != expected) fail(Status::aborted("wrong answer"));
    }
  }
  const double ns = watch.seconds() * 1e9 / static_cast<double>(keys.size());
  if (counters.pages_read > 0)
    std::printf("     (%llu pages were not cached)\n", static_cast<unsigned long long>(counters.pages_read));
  return ns;
}

double walk(const TableReader& table, bool fill_cache) {
  TableIteratorOptions options;
  options.fill_cache = fill_cache;
  auto it = table.new_iterator(options);
  std::uint64_t entries = 0, bytes = 0;
  Stopwatch watch;
  for (it->seek_to_first(); it->valid(); it->next()) {
    ++entries;
    bytes += it->entry().value.size();
  }
  if (!it->status().is_ok()) fail(it->status());
  return watch.seconds() * 1e9 / static_cast<double>(entries);
}

void measure(FileSystem& fs, const Arguments& arguments, std::uint32_t h) {
  Epoch epoch;
  BlockCache cache(std::uint64_t{2} << 30, epoch);
  TableBuilderOptions options;
  options.fs = &fs;
  options.dir = arguments.dir.empty() ? "bench" : arguments.dir;
  options.data_file = 2 * h + 1;
  options.metadata_file = 2 * h + 2;
  options.page_size = arguments.page_size;
  options.pages_per_tile = h;
  options.compression = static_cast<Compression>(arguments.compression);
  Random random(h);
  std::string pool(1 << 20, '\0');
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<char>(i % 2 == 0 ? random.uniform(256) : 'a' + i / 64 % 26);
  Stopwatch build_watch;
  TableBuilder builder(options);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < arguments.keys; ++i) {
    const std::string key = key_of(i);
    Entry entry;
    entry.key = key;
    entry.value = Bytes(pool).substr(random.uniform(pool.size() - arguments.value_bytes), arguments.value_bytes);
    entry.seq = 1 + random.uniform(arguments.keys);
    entry.delete_key = 1'700'000'000'000 + entry.seq;
    bytes += key.size() + entry.value.size();
    if (Status s = builder.add(entry); !s.is_ok()) fail(s);
  }
  auto built = builder.finish();
  if (!built.is_ok()) fail(built.status());
  const double build_seconds = build_watch.seconds();
  Stopwatch open_watch;
  auto table =
      TableReader::open({&fs, &cache, options.dir}, {built->data_file, built->metadata_file, built->data_bytes,
                                                     built->metadata_bytes, built->data_checksum, built->metadata_checksum});
  if (!table.is_ok()) fail(table.status());
  const double open_seconds = open_watch.seconds();
  const double cold = walk(**table, true);
  std::vector<std::string> present, absent, hot;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) present.push_back(key_of(random.uniform(arguments.keys)));
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    absent.push_back(key_of(random.uniform(arguments.keys)));
    ++absent.back().back();
  }
  for (std::uint64_t i = 0; i < 1'000'000; ++i) hot.push_back(present[random.uniform(1000)]);
  std::printf("h=%-2u build %4.0f MB/s, data %.1f MB for %.1f MB, memory %.2f MB, open %.1f ms\n", h,
              static_cast<double>(bytes) / build_seconds / 1e6, static_cast<double>(built->data_bytes) / 1e6,
              static_cast<double>(bytes) / 1e6, static_cast<double>((*table)->memory_bytes()) / 1e6, open_seconds * 1e3);
  const double warm = walk(**table, true);
  const double hit = lookups(**table, epoch, present, Lookup::kFound, 0);
  const double hit_ahead = lookups(**table, epoch, present, Lookup::kFound, 16);
  const double hit_hot = lookups(**table, epoch, hot, Lookup::kFound, 0);
  const double miss = lookups(**table, epoch, absent, Lookup::kAbsent, 0);
  const double miss_ahead = lookups(**table, epoch, absent, Lookup::kAbsent, 16);
  cache.erase_file(built->data_file);
  const double beside = walk(**table, false);
  std::printf(
      "     ns of CPU: get hit %.0f (16 prefetched %.0f, 1000 hot keys %.0f), miss %.0f (prefetched %.0f), next %.0f (cold %.0f, "
      "beside the cache %.0f)\n",
      hit, hit_ahead, hit_hot, miss, miss_ahead, warm, cold, beside);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::uint32_t> tiles = {1, 8};
  CLI::App app("One table: build, get, walk");
  app.add_option("--keys", arguments.keys);
  app.add_option("--value", arguments.value_bytes, "bytes of a value");
  app.add_option("--page-size", arguments.page_size);
  app.add_option("--compression", arguments.compression, "0 none, 1 lz4, 2 zstd");
  app.add_option("--pages-per-tile", tiles);
  app.add_option("--dir", arguments.dir, "an empty directory; default: in memory");
  CLI11_PARSE(app, argc, argv);
  MemoryFileSystem memory;
  FileSystem& fs = arguments.dir.empty() ? static_cast<FileSystem&>(memory) : *posix_file_system();
  if (Status s = fs.create_dir(arguments.dir.empty() ? "bench" : arguments.dir); !s.is_ok()) fail(s);
  for (const std::uint32_t h : tiles) measure(fs, arguments, h);
}
