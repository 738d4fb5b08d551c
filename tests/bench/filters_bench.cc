// What filters spare: pages read by lookups of keys that do not exist, and of keys that do, at 0 to 16 bits a key, with Monkey's
// spread of them over the levels, with the same for all, and in RocksDB, while the data doubles and doubles again.
//
// After each doubling merges come to rest and the lookups are counted. The block cache is as good as none (a thousandth of the
// data), so a page that a lookup looks at is a page read; indexes and filters stay in memory. An existing key costs one page at
// least: what is above one was read for nothing, as is all of an absent one's. Absent keys lie between the others, scattered over
// the range of every file.
//
// Trees are alike (engines/engine.h: size_ratio): level 0 goes down at four runs, every further level is size_ratio times the one
// before. How many runs level 0 has at rest, none to three, is a matter of timing, and each costs lookups its share: compare over
// several sizes, or at one where trees are deep. Monkey's lookups are configured as `zero_result`, so that its figures are those of the paper's first problem; --measured
// has it go by the lookups that there were. What bits a key there are in memory in the end, each engine says itself.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::uint64_t entries = 2'000'000;
  std::uint64_t reads = 100'000;
  int doublings = 3;
  double size_ratio = 6;
  std::size_t value_bytes = 100;
  std::uint64_t memtable_bytes = std::uint64_t{1} << 20;
  unsigned background = 2;
  std::vector<double> bits = {0, 2, 4, 6, 8, 10, 12, 14, 16};
  std::vector<std::string> variants = {"monkey", "uniform", "rocksdb"};
  bool measured = false;
  std::string dir;

  [[nodiscard]] std::uint64_t data_bytes() const { return entries * (Key::kBytes + value_bytes); }
};

/// Lookups of one kind.
struct Reads {
  double pages = 0;  ///< a lookup
  PerOperation took;
};

struct Row {
  std::string variant;
  double bits = 0;
  std::uint64_t entries = 0;
  double bits_in_memory = 0;  ///< a key
  Reads absent, existing;
};

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), values_(p.value_bytes) {}

  std::vector<Row> run() {
    for (const double bits : p_.bits) {
      for (const std::string& variant : p_.variants) grow(variant, bits);
    }
    return std::move(rows_);
  }

 private:
  void grow(const std::string& variant, double bits) {
    std::filesystem::remove_all(p_.dir);
    std::filesystem::create_directories(p_.dir);
    EngineSetup setup;
    setup.dir = p_.dir;
    setup.memtable_bytes = p_.memtable_bytes;
    setup.cache_bytes = std::max<std::uint64_t>(p_.data_bytes() / 1000, 64 << 10);
    setup.entries = p_.entries;
    setup.merge_threads = p_.background;
    setup.size_ratio = p_.size_ratio;
    setup.filter_bits = bits;
    setup.monkey = variant == "monkey";
    setup.measured_lookups = p_.measured;
    {
      const auto engine = open_engine(variant == "rocksdb" ? "rocksdb" : "ebbtide", setup);
      std::uint64_t written = 0;
      for (int left = p_.doublings; left >= 0; --left) {
        fill(*engine, &written, p_.entries >> left, variant);
        engine->settle();
        Row row{variant, bits, written, engine->filter_bits_per_key(), {}, {}};
        row.absent = look_up(*engine, written, false);
        row.existing = look_up(*engine, written, true);
        print(row);
        rows_.push_back(row);
      }
    }
    std::filesystem::remove_all(p_.dir);
  }

  void fill(Engine& engine, std::uint64_t* written, std::uint64_t until, const std::string& variant) {
    Progress progress("filling " + variant);
    for (; *written < until; ++*written) {
      engine.put(Key::scattered(*written).view(), values_.at(*written));
      if (*written % 256 == 0) progress.at(*written, p_.entries);
    }
  }

  [[nodiscard]] Reads look_up(Engine& engine, std::uint64_t written, bool existing) const {
    Random random(existing ? 41 : 43);
    std::uint64_t hits = 0;
    const std::uint64_t pages = engine.pages_read();
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.reads; ++i) {
      const std::uint64_t number = existing ? random.uniform(written) : p_.entries + random.uniform(std::uint64_t{1} << 40);
      hits += engine.get(Key::scattered(number).view()) ? 1 : 0;
    }
    Reads reads;
    reads.took = watch.stop(p_.reads);
    reads.pages = static_cast<double>(engine.pages_read() - pages) / static_cast<double>(p_.reads);
    if (hits != (existing ? p_.reads : 0)) die(std::to_string(hits) + " of " + std::to_string(p_.reads) + " were found");
    return reads;
  }

  static void print(const Row& row) {
    const auto line_of = [](const Reads& reads) {
      return JsonLine().add("pages", reads.pages).add("per_second", reads.took.per_second).add("cpu_ns", reads.took.cpu_ns);
    };
    JsonLine()
        .add("variant", row.variant)
        .add("bits_per_key", row.bits)
        .add("entries", row.entries)
        .add("bits_in_memory", row.bits_in_memory)
        .add("absent", line_of(row.absent))
        .add("existing", line_of(row.existing))
        .print();
  }

  const Parameters& p_;
  const Values values_;
  std::vector<Row> rows_;
};

void show(const std::vector<Row>& rows) {
  std::printf("%-9s %5s %12s %10s %14s %14s %12s %12s\n", "filters", "bits", "entries", "in memory", "pages, absent",
              "pages, there", "cpu ns", "cpu ns");
  for (const Row& row : rows) {
    std::printf("%-9s %5.1f %12llu %10.2f %14.4f %14.4f %12.0f %12.0f\n", row.variant.c_str(), row.bits,
                static_cast<unsigned long long>(row.entries), row.bits_in_memory, row.absent.pages, row.existing.pages,
                row.absent.took.cpu_ns, row.existing.took.cpu_ns);
  }
  std::printf("\nPages read a lookup, with next to no block cache. bits: asked for, a key; in memory: what there is.\n");
}

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  bool quick = false;
  CLI::App app{"Pages that lookups read, by filter memory and by how it is spread"};
  app.add_flag("--quick", quick, "200 thousand entries, 0, 5 and 10 bits");
  app.add_option("--entries", p.entries, "in the end")->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--reads", p.reads, "lookups of each kind after each doubling")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--doublings", p.doublings, "before the end, at which lookups are counted, too")->check(CLI::Range(0, 10));
  app.add_option("--size-ratio", p.size_ratio)->check(CLI::Range(2, 32))->capture_default_str();
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable of each engine")->capture_default_str();
  app.add_option("--background", p.background, "background threads of each engine")->capture_default_str();
  app.add_option("--bits", p.bits, "a key")->check(CLI::Range(0, 32));
  app.add_option("--only", p.variants)->check(CLI::IsMember({"monkey", "uniform", "rocksdb"}));
  app.add_flag("--measured", p.measured, "Monkey for the lookups that there were");
  app.add_option("--dir", p.dir, "where the databases go while it runs");
  CLI11_PARSE(app, argc, argv);
  if (quick) {
    if (app.count("--entries") == 0) p.entries = 200'000;
    if (app.count("--reads") == 0) p.reads = 20'000;
    if (app.count("--bits") == 0) p.bits = {0, 5, 10};
    if (app.count("--memtable") == 0) p.memtable_bytes = 256 << 10;
  }
  if (p.dir.empty()) p.dir = default_dir();
  need_disk(p.dir, 4 * p.data_bytes() + (std::uint64_t{1} << 28));
  show(Bench(p).run());
  std::error_code not_empty;  // then it is not only ours
  std::filesystem::remove(p.dir, not_empty);
  return 0;
}
