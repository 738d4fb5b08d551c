// Loads an index of places under one merge policy, then inserts and searches in turn: what papers/places.py compares (Mao's thesis,
// chapter 4).
//
// Half of the places are loaded first. The rest is inserted in rounds; after each round come searches of boxes around places that
// were inserted. Pages are those that a search uses, from the disk or from the cache. Write amplification is the bytes of flushes and
// merges, divided by those of flushes.
//
// Prints `progress: TEXT` lines and one line `figure: {...}`.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <engine/db.h>
#include <engine/spatial.h>
#include "base/random.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

constexpr DatabaseId kTree = index_tree(0, 0);
constexpr int kRounds = 5;
constexpr std::uint64_t kBatch = 64;  // places of a batch
constexpr std::uint64_t kEntry = 48;  // bytes of an entry in a memtable, roughly

struct Parameters {
  std::string policy = "binomial", order = "hilbert", data = "uniform", dir;
  std::vector<std::string> parameters;
  std::uint64_t places = 1'000'000;
  std::uint64_t flushes = 1'200;
  std::uint64_t searches = 1'000;  // of each size, in all rounds together
  std::uint64_t dump = 0;          // prints places instead
};

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

// Makes the places of a data set, always the same ones.
class Places {
 public:
  // uniform: longitudes and latitudes are uniform. clustered, a likeness of OpenStreetMap: nine of ten places are around one of 2,000
  // cities, with a normal distribution. City number i has a weight of 1 / i. Two thirds of the cities are in the United States and
  // western Europe.
  explicit Places(bool clustered) : random_(4), clustered_(clustered) {
    if (!clustered) return;
    double sum = 0;
    for (int i = 0; i < kCities; ++i) {
      const double region = real();
      const PlaceBox& box = region < 0.33 ? kAmerica : region < 0.67 ? kEurope : kWorld;
      cities_.push_back({{between(box.west, box.east), between(box.south, box.north)}, between(0.02, 0.4)});
      weights_.push_back(sum += 1.0 / (1 + i));
    }
  }

  Place next() {
    if (clustered_ && real() < 0.9) {
      const auto at = std::lower_bound(weights_.begin(), weights_.end(), real() * weights_.back()) - weights_.begin();
      const City& city = cities_[static_cast<std::size_t>(at)];
      const double radius = city.spread * std::sqrt(-2 * std::log(1 - real())), angle = 2 * std::numbers::pi * real();
      if (const auto place = make_place(city.center.lon + radius * std::cos(angle), city.center.lat + radius * std::sin(angle)))
        return *place;
    }
    return {between(-180, 180), between(-90, 90)};
  }

 private:
  struct City {
    Place center;
    double spread;  // standard deviation in degrees
  };
  static constexpr int kCities = 2000;
  static constexpr PlaceBox kAmerica{-125, 25, -67, 49}, kEurope{-10, 36, 20, 60}, kWorld{-179, -55, 179, 70};

  double real() { return static_cast<double>(random_.uniform(std::uint64_t{1} << 53)) / 0x1p53; }
  double between(double low, double high) { return low + (high - low) * real(); }

  Random random_;
  const bool clustered_;
  std::vector<City> cities_;
  std::vector<double> weights_;  // sums
};

PlaceOrder order_of(const std::string& name) {
  return name == "hilbert" ? PlaceOrder::kHilbert : name == "zorder" ? PlaceOrder::kZOrder : PlaceOrder::kSimple;
}

Settings settings_of(const Parameters& p) {
  Settings settings;
  settings.dir = p.dir;
  settings.fsync = FsyncMode::kNo;
  settings.block_cache = std::uint64_t{8} << 20;
  settings.memory_budget = std::uint64_t{512} << 20;
  settings.background_threads = 1;
  TreeSettings tree = settings.tree;
  tree.policy = {p.policy, parameters_of(p.parameters)};
  tree.memtable_size = std::max<std::uint64_t>(3 * p.places * kEntry / p.flushes, 64 << 10);  // flushes come before it is full
  tree.file_size = std::max<std::uint64_t>(p.places * kEntry / p.flushes, 64 << 10);
  tree.compression = tree.compression_last_level = Compression::kNone;
  tree.filter_bits_per_key = 0;
  tree.points_at = points_offset(order_of(p.order));
  settings.overrides[kTree] = tree;
  return settings;
}

std::string record_of(std::uint64_t number) {
  std::string record(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8) record[static_cast<std::size_t>(i)] = static_cast<char>(number);
  return record;
}

struct Found {
  std::uint64_t searches = 0, places = 0, pages = 0;
  double seconds = 0;
};

class Run {
 public:
  explicit Run(const Parameters& p)
      : p_(p), order_(order_of(p.order)), source_(p.data == "clustered"), progress_(p.policy + ", " + p.order + ", " + p.data) {
    auto opened = Db::open(settings_of(p), Components{});
    check(opened.status());
    db_ = std::move(opened).value();
  }

  void all() {
    insert(p_.places / 2);
    for (int round = 0; round < kRounds; ++round) {
      insert(p_.places / 2 / kRounds);
      search(3, &large_);
      search(5, &small_);
    }
    print();
    check(db_->close());
  }

 private:
  Status flush() {
    flushes_ = places_.size() * p_.flushes / p_.places;
    return db_->flush(kTree);
  }

  void rest() {
    wait_for_rest(kLooks, [&] { return db_->stats().compactions_running != 0; });
  }

  void insert(std::uint64_t count) {
    const Stopwatch watch;
    const double cpu = cpu_seconds();
    for (std::uint64_t done = 0; done < count;) {
      WriteBatch batch;
      for (std::uint64_t i = 0; i < kBatch && done < count; ++i, ++done) {
        places_.push_back(source_.next());
        batch.put(kTree, place_key(order_, places_.back(), record_of(places_.size())), "");
      }
      check(db_->commit(batch));
      if (places_.size() * p_.flushes / p_.places != flushes_) check(flush());
      progress_.at(places_.size(), p_.places);
    }
    rest();
    insert_seconds_ += watch.seconds() - kLooks * std::chrono::duration<double>(kLookInterval).count();
    insert_cpu_ += cpu_seconds() - cpu;
  }

  // Searches boxes of 360 * 10^-sigma by 180 * 10^-sigma degrees.
  void search(int sigma, Found* found) {
    const double width = 360 * std::pow(10, -sigma), height = width / 2;
    const Stats before = db_->stats();
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.searches / kRounds; ++i) {
      const Place& at = places_[picks_.uniform(places_.size())];
      const double west = std::max(at.lon - width / 2, -180.0), south = std::max(at.lat - height / 2, -90.0);
      const auto shape = PlaceShape::box(west, south, std::min(west + width, 180.0), std::min(south + height, 90.0));
      if (!shape) die("a box is out of range");
      PlaceSearchOptions options;
      options.order = order_;
      PlaceSearch walk(*shape, options, [this](const IteratorOptions& of) { return db_->iterate(db_->lease(kTree), of); });
      for (walk.next(); walk.valid(); walk.next()) ++found->places;
      check(walk.status());
      ++found->searches;
    }
    found->seconds += watch.seconds();
    const Stats after = db_->stats();
    found->pages += after.pages_read + after.cache_hits - before.pages_read - before.cache_hits;
  }

  static JsonLine line_of(const Found& found) {
    const auto searches = static_cast<double>(found.searches);
    JsonLine line;
    line.add("places", static_cast<double>(found.places) / searches).add("pages", static_cast<double>(found.pages) / searches);
    line.add("us", found.seconds / searches * 1e6);
    return line;
  }

  void print() {
    const auto info = db_->tree_info(kTree);
    check(info.status());
    const Stats stats = db_->stats();
    const auto flushed = static_cast<double>(stats.flush_bytes_written), count = static_cast<double>(places_.size());
    JsonLine()
        .add("flushes", stats.flushes)
        .add("runs", std::uint64_t{info->runs.size()})
        .add("write_amplification", (flushed + static_cast<double>(stats.compaction_bytes_written)) / flushed)
        .add("bytes_an_entry", static_cast<double>(stats.table_live_bytes) / count)
        .add("inserts_per_second", count / insert_seconds_)
        .add("insert_cpu_us", insert_cpu_ / count * 1e6)
        .add("large", line_of(large_))
        .add("small", line_of(small_))
        .print();
  }

  static constexpr int kLooks = 20;
  const Parameters& p_;
  const PlaceOrder order_;
  Places source_;
  Random picks_{7};
  Progress progress_;
  std::unique_ptr<Db> db_;
  std::vector<Place> places_;
  std::uint64_t flushes_ = 0;
  double insert_seconds_ = 0, insert_cpu_ = 0;
  Found large_, small_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One policy of ./dev bench paper mao --only 4; ./dev bench paper --help explains more"};
  app.add_option("--policy", p.policy, "name of a merge policy");
  app.add_option("--set", p.parameters, "NAME=NUMBER: a parameter of the policy")->delimiter(',');
  app.add_option("--order", p.order)->check(CLI::IsMember({"hilbert", "zorder", "simple"}));
  app.add_option("--data", p.data)->check(CLI::IsMember({"uniform", "clustered"}));
  app.add_option("--places", p.places)->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--flushes", p.flushes, "of all places, roughly")->check(CLI::Range(std::uint64_t{10}, std::uint64_t{100'000}));
  app.add_option("--searches", p.searches, "of each size")->check(CLI::Range(std::uint64_t{kRounds}, std::uint64_t{1'000'000}));
  app.add_option("--dump", p.dump, "print so many places of the data set, and nothing else")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  if (p.dump != 0) {
    Places places(p.data == "clustered");
    for (std::uint64_t i = 0; i < p.dump; ++i) {
      const Place place = places.next();
      std::printf("%.17g %.17g\n", place.lon, place.lat);
    }
    return 0;
  }
  in_empty_dir(&p.dir, 4 * kEntry * p.places + (std::uint64_t{1} << 28), [&] { Run(p).all(); });
  return 0;
}
