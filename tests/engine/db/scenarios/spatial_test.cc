// Tests of searches for places in an index tree. They find the same records as a look at each record, for every policy, tile size
// and kind of delete, and after a power loss.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <engine/spatial.h>
#include "base/random.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "engine/index/spatial/random_places.h"
#include "support/long_run.h"
#include "table/metadata.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr DatabaseId kIndex = index_tree(0, 1);
constexpr PlaceOrder kOrders[] = {PlaceOrder::kHilbert, PlaceOrder::kZOrder, PlaceOrder::kSimple};

Settings fleet_settings(std::uint64_t turn, PlaceOrder order) {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.wal_segment_size = 64 << 10;
  s.fsync = turn % 2 == 0 ? FsyncMode::kAlways : FsyncMode::kEverySecond;
  s.tree.delete_deadline = 3000;
  s.tree.stamp = StampMode::kExplicit;
  layout_of(turn / 2).set(&s.tree);
  s.overrides[kIndex] = s.tree;
  s.overrides[kIndex].file_size = 64 << 10;
  s.overrides[kIndex].filter_bits_per_key = 0;
  s.overrides[kIndex].points_at = points_offset(order);
  return s;
}

/// Records of database 0, whose values are the keys of their entries in the index tree.
struct Fleet {
  Harness& h;
  PlaceOrder order;
  Random& random;

  [[nodiscard]] std::map<std::string, std::string> records() const {
    std::map<std::string, std::string> out;
    auto it = h.db->iterate(h.db->lease(0), {});
    for (it->seek_to_first(); it->valid(); it->next()) out.emplace(it->key(), it->value());
    demand_ok(it->status(), "walk");
    return out;
  }
  /// Moves a record, deletes it, or puts it at its old place again.
  void change_one() {
    const std::string record = key_of(static_cast<int>(random.uniform(400)));
    const std::string old = h.get(0, record);
    WriteBatch batch;
    if (old != "(absent)") batch.del(kIndex, old);
    if (random.one_in(4)) {
      if (old != "(absent)") batch.del(0, record);
    } else {
      Place place = random_place(random);
      Bytes name;
      if (old != "(absent)" && random.one_in(3)) {
        REQUIRE(split_place_key(order, old, &place, &name));
        if (random.one_in(2)) place = nearby(random, place);
      }
      const std::string entry = place_key(order, place, record);
      const WriteBatch::PutOptions options{.stamp = random.one_in(4) ? kNoStamp : random.uniform(1000),
                                           .expiry = random.one_in(6) ? h.db->now() + 1 + random.uniform(4000) : 0};
      batch.put(kIndex, entry, "", options);
      batch.put(0, record, entry, options);
    }
    h.write(batch);
  }
  void delete_stamps() {
    const DeleteKey lo = random.uniform(1000), hi = lo + 1 + random.uniform(200);
    WriteBatch batch;
    batch.delete_stamps(0, lo, hi);
    batch.delete_stamps(kIndex, lo, hi);
    h.write(batch);
  }
  /// Deletes all records in a range of the index.
  void delete_range() {
    std::string start = place_key(order, random_place(random), ""), end = place_key(order, random_place(random), "");
    if (end < start) std::swap(start, end);
    WriteBatch batch;
    for (const auto& [record, entry] : records()) {
      if (start <= entry && entry < end) batch.del(0, record);
    }
    batch.delete_range(kIndex, start, end);
    h.write(batch);
  }
  void change() {
    if (random.one_in(60)) {
      delete_stamps();
    } else if (random.one_in(200)) {
      delete_range();
    } else {
      change_one();
    }
  }

  [[nodiscard]] PlaceSearch::Open open() const {
    return [this](const IteratorOptions& options) { return h.db->iterate(h.db->lease(kIndex), options); };
  }
  void check_shape(const PlaceShape& shape) const {
    std::vector<std::string> wanted, found;
    Place place;
    Bytes name;
    for (const auto& [record, entry] : records()) {
      REQUIRE(split_place_key(order, entry, &place, &name));
      if (shape.contains(place)) wanted.push_back(entry);
    }
    std::sort(wanted.begin(), wanted.end());
    PlaceSearchOptions options;
    options.order = order;
    options.max_steps = random.one_in(2) ? 0 : 5;
    PlaceSearch search(shape, options, open());
    for (search.next(); search.valid() || search.paused(); search.next()) {
      if (search.valid()) found.push_back(place_key(order, search.place(), search.record()));
    }
    demand_ok(search.status(), "search");
    REQUIRE(found == wanted);
    if (wanted.empty()) return;
    // A search that begins at an entry shows it and all later ones.
    const std::size_t from = random.uniform(wanted.size());
    options.from = wanted[from];
    PlaceSearch later(shape, options, open());
    std::size_t shown = 0;
    for (later.next(); later.valid() || later.paused(); later.next()) shown += later.valid() ? 1 : 0;
    REQUIRE(shown == wanted.size() - from);
  }
  void check_nearest(const Place& center, std::size_t count) const {
    std::vector<NearPlace> wanted;
    Place place;
    Bytes name;
    for (const auto& [record, entry] : records()) {
      REQUIRE(split_place_key(order, entry, &place, &name));
      wanted.push_back({place_distance(center, place), place, record});
    }
    std::sort(wanted.begin(), wanted.end(),
              [](const NearPlace& a, const NearPlace& b) { return std::tie(a.meters, a.record) < std::tie(b.meters, b.record); });
    wanted.resize(std::min(count, wanted.size()));
    PlaceSearchOptions options;
    options.order = order;
    const auto found = nearest_places(center, count, options, open());
    demand_ok(found.status(), "nearest");
    REQUIRE(found->size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE((*found)[i].record == wanted[i].record);
  }
  void check() const {
    const Place at = random_place(random), other = nearby(random, at);
    constexpr double kMeters[] = {1e4, 1e6, 5e6, 3e7};
    check_shape(*PlaceShape::circle(at, kMeters[random.uniform(4)]));
    check_shape(*PlaceShape::box(at.lon, std::min(at.lat, other.lat), other.lon, std::max(at.lat, other.lat)));
    check_shape(*PlaceShape::box(-180, -90, 180, 90));
    check_nearest(at, random.uniform(20));
  }
};

TEST_CASE("places are moved and deleted in every way, and power is lost: searches find what a scan of all records finds") {
  const std::uint64_t turns = number_from_env("EBBTIDE_SPATIAL_CRASHES", 48);
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    const PlaceOrder order = kOrders[turn % 3];
    INFO("turn " << turn);
    Harness h(fleet_settings(turn, order));
    h.open();
    Random random(first_seed() + turn);
    Fleet fleet{h, order, random};
    for (int crash = 0; crash < 2; ++crash) {
      for (int i = 0; i < 400; ++i) {
        fleet.change();
        if (random.one_in(10)) h.pool.run_one();
        if (random.one_in(20)) h.advance(random.uniform(1500));
        if (random.one_in(60)) demand_ok(h.db->flush(kIndex), "flush");
        if (random.one_in(25)) fleet.check();
      }
      h.crash(turn % 3 == 0 ? CrashMode::kNothing : CrashMode::kRandom, turn * 10 + static_cast<std::uint64_t>(crash));
      // So the tree has tables with and tables without bounds of points.
      if (random.one_in(3)) h.settings.overrides[kIndex].points_at = random.one_in(2) ? kNoPoints : points_offset(order);
      h.open();
      fleet.check();
    }
    h.settle();
    h.verify(kIndex);
    fleet.check();
    h.reopen();
    for (int i = 0; i < 5; ++i) fleet.check();
  }
}

TEST_CASE("small box is searched in a large index: the search reads few pages, and skips whole tables") {
  for (const PlaceOrder order : kOrders) {
    CAPTURE(static_cast<int>(order));
    Settings settings = fleet_settings(0, order);
    settings.overrides[kIndex].policy = {"tiering", {{"size_ratio", 3}}};
    Harness h(settings);
    h.open();
    Random random(7);
    for (int i = 0; i < 30'000; i += 100) {
      WriteBatch batch;
      for (int k = 0; k < 100; ++k) {
        const Place place = *make_place(random.fraction() * 360 - 180, random.fraction() * 180 - 90);
        batch.put(kIndex, place_key(order, place, key_of(i + k)), "");
      }
      h.write(batch);
      h.pool.run_one();
    }
    demand_ok(h.db->flush(kIndex), "flush");
    h.settle();
    h.reopen();
    const auto bytes_read_by = [&](const PlaceShape& shape, std::size_t* found) {
      std::uint64_t bytes = 0;
      h.watch->on_call = [&](const FileCall& call) {
        if (call.op == FileOp::kRead && call.path.ends_with(".data")) bytes += call.length;
      };
      PlaceSearchOptions options;
      options.order = order;
      PlaceSearch search(shape, options, [&](const IteratorOptions& o) { return h.db->iterate(h.db->lease(kIndex), o); });
      for (search.next(); search.valid(); search.next()) ++*found;
      demand_ok(search.status(), "search");
      h.watch->on_call = nullptr;
      return bytes;
    };
    std::size_t few = 0, all = 0;
    const std::uint64_t small = bytes_read_by(*PlaceShape::box(10, 40, 11, 41), &few);
    const std::uint64_t whole = bytes_read_by(*PlaceShape::box(-180, -90, 180, 90), &all);
    CHECK(all == 30'000);
    CHECK(few < 20);
    CHECK(small > 0);
    CAPTURE(small, whole, few);
    CHECK(small < whole / 40);
  }
}

TEST_CASE("options of an index tree are set: its next tables have bounds of points, and other settings are the database's") {
  Harness h;
  h.open();
  IndexTreeOptions options;
  options.points_at = points_offset(PlaceOrder::kHilbert);
  options.policy = PolicySettings{"tiering", {{"size_ratio", 3}}};
  demand_ok(h.db->set_index_options(kIndex, options), "options");
  auto put_places = [&, round = 0]() mutable {
    Random random(static_cast<std::uint64_t>(++round));
    WriteBatch batch;
    for (int i = 0; i < 500; ++i) batch.put(kIndex, place_key(PlaceOrder::kHilbert, random_place(random), key_of(i)), "");
    h.write(batch);
    demand_ok(h.db->flush(kIndex), "flush");
    h.settle();
  };
  const auto has_bounds = [&] {
    const auto paths = h.paths(".meta");
    REQUIRE(paths.size() == 1);
    const std::string path = paths.front();
    const auto number = static_cast<FileNum>(std::stoull(path.substr(path.rfind('/') + 1)));
    const auto metadata = TableMetadata::decode(read_file(*h.files, path).value(), number, path);
    REQUIRE(metadata.is_ok());
    return metadata->stats.points_at == 8 && !metadata->stats.points.empty();
  };
  put_places();
  CHECK(has_bounds());
  CHECK(h.db->tree_info(kIndex)->policy.find("tiering") != std::string::npos);
  // A change of the database's settings does not change the options.
  Settings changed = h.settings;
  changed.tree.page_size = 2048;
  demand_ok(h.db->reconfigure(changed), "reconfigure");
  WriteBatch batch;
  batch.flush_database(kIndex);
  h.write(batch);
  h.settle();
  put_places();
  CHECK(has_bounds());
  // A merge runs after a restart, before the options are set again.
  h.reopen();
  put_places();
  demand_ok(h.db->compact(kIndex, {}), "compact");
  h.settle();
  CHECK(has_bounds());
  CHECK(h.db->set_index_options(0, options).code() == Code::kInvalidArgument);
  options.points_at = 65;
  CHECK(h.db->set_index_options(kIndex, options).code() == Code::kInvalidArgument);
}

TEST_CASE("places at the edge of a table's bounds are deleted: after the deadline no bounds reach to them") {
  const Place far = *make_place(123.456789, -45.678901);
  enum Way : std::uint8_t { kStamp, kExpiry, kOne, kRange };
  for (std::uint64_t i = 0; i < 48; ++i) {
    const PlaceOrder order = kOrders[i % 3];
    const Way way = static_cast<Way>(i % 4);
    CAPTURE(i);
    Harness h(fleet_settings(2 * i, order));  // all policies, tiles of one page and of several
    h.open();
    Random random(i);
    const auto put = [&](const Place& place, int record, DeleteKey stamp, Millis expiry) {
      WriteBatch batch;
      batch.put(kIndex, place_key(order, place, key_of(record)), "", {.stamp = stamp, .expiry = expiry});
      h.write(batch);
    };
    for (int record = 0; record < 400; ++record) put({random.fraction() * 10, 50 + random.fraction() * 10}, record, 1, 0);
    put(far, 1000, way == kStamp ? 7 : 1, way == kExpiry ? h.db->now() + 500 : 0);
    demand_ok(h.db->flush(kIndex), "flush");
    h.settle();
    WriteBatch batch;
    const std::string key = place_key(order, far, key_of(1000));
    if (way == kStamp) batch.delete_stamps(kIndex, 7, 8);
    if (way == kOne) batch.del(kIndex, key);
    if (way == kRange) batch.delete_range(kIndex, key, key + "!");
    if (!batch.empty()) h.write(batch);
    for (int tick = 0; tick < 60; ++tick) {
      h.advance(100);
      h.settle();
      h.db->write_log();
      h.db->tick();
      h.settle();
    }
    PointBounds edge;
    edge.add(place_key(PlaceOrder::kSimple, far, ""), 0);
    for (const std::string& path : h.paths(".meta")) {
      const auto number = static_cast<FileNum>(std::stoull(path.substr(path.rfind('/') + 1)));
      const auto metadata = TableMetadata::decode(read_file(*h.files, path).value(), number, path);
      REQUIRE(metadata.is_ok());
      CHECK(metadata->stats.points.max_x < edge.min_x);
      CHECK(metadata->stats.points.min_y > edge.max_y);
    }
    CHECK(h.db->count(kIndex, {}).value() == 400);
  }
}

}  // namespace TEST_FILE
