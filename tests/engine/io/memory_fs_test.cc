// Tests of the states that power loss may leave and those that it must not: fixed examples, then seeds and the rules at the head
// of memory_fs.h.
#include "io/memory_fs.h"

#include <engine/durable_rename.h>
#include <catch2/catch.hpp>

#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "engine/io/rooms.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kSector = MemoryFileSystem::kSectorBytes;
constexpr std::uint64_t kSeeds = 400;

std::optional<std::string> content_of(FileSystem& fs, const std::string& path) {
  if (!fs.exists(path)) return std::nullopt;
  return value_of(read_file(fs, path));
}

/// Returns the contents of `path` after each of many crashes.
std::set<std::optional<std::string>> outcomes(const MemoryFileSystem& fs, const std::string& path) {
  std::set<std::optional<std::string>> seen;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) seen.insert(content_of(*fs.crash_clone(seed), path));
  return seen;
}

TEST_CASE("file is replaced by a durable rename: it has the new content after any crash") {
  MemoryRoom room;
  write_file(room.fs(), room.path("file"), "old");
  require_ok(room.fs().sync_dir(room.dir()));
  write_file(room.fs(), room.path("file.new"), "new, and longer", false);
  require_ok(rename_durably(&room.fs(), room.path("file.new"), room.path("file")));
  REQUIRE(outcomes(room.fs(), room.path("file")) == std::set<std::optional<std::string>>{"new, and longer"});
  REQUIRE(outcomes(room.fs(), room.path("file.new")) == std::set<std::optional<std::string>>{std::nullopt});

  REQUIRE(rename_durably(&room.fs(), room.path("missing"), room.path("file")).is_not_found());
  REQUIRE(outcomes(room.fs(), room.path("file")) == std::set<std::optional<std::string>>{"new, and longer"});
}

TEST_CASE("crash after unsynced calls: an unsynced name may be lost, and unsynced data may be missing") {
  MemoryRoom room;
  write_file(room.fs(), room.path("data only"), "x");
  REQUIRE(outcomes(room.fs(), room.path("data only")) == std::set<std::optional<std::string>>{std::nullopt, "x"});

  write_file(room.fs(), room.path("name only"), "y", false);
  require_ok(room.fs().sync_dir(room.dir()));
  const auto seen = outcomes(room.fs(), room.path("name only"));
  REQUIRE(seen == std::set<std::optional<std::string>>{"", std::string(1, '\0'), "y"});

  REQUIRE(outcomes(room.fs(), room.path("data only")) ==
          std::set<std::optional<std::string>>{"x"});  // name and data are durable now
}

TEST_CASE("crash mode is kNothing or kEverything: the clone has none or all of the unsynced state") {
  MemoryRoom room;
  write_file(room.fs(), room.path("a"), "old");
  require_ok(room.fs().sync_dir(room.dir()));
  require_ok(room.fs().truncate(room.path("a"), 1));
  require_ok(room.fs().rename(room.path("a"), room.path("b")));
  write_file(room.fs(), room.path("c"), "new");
  const auto nothing = room.fs().crash_clone(1, CrashMode::kNothing);
  REQUIRE(nothing->tree() == std::vector<std::string>{"room/", "room/a"});
  REQUIRE(value_of(read_file(*nothing, room.path("a"))) == "old");
  const auto everything = room.fs().crash_clone(1, CrashMode::kEverything);
  REQUIRE(everything->tree() == std::vector<std::string>{"room/", "room/b", "room/c"});
  REQUIRE(value_of(read_file(*everything, room.path("b"))) == "o");
  REQUIRE(everything->crash_clone(2, CrashMode::kNothing)->tree() == everything->tree());  // a clone is durable
  REQUIRE(value_of(read_file(room.fs(), room.path("b"))) == "o");                          // the original continues
}

TEST_CASE("directory is created: it is durable after a sync of its parent") {
  MemoryFileSystem fs;
  require_ok(fs.create_dir("d"));
  write_file(fs, "d/f", "x");
  require_ok(fs.sync_dir("d"));
  REQUIRE(outcomes(fs, "d/f") == std::set<std::optional<std::string>>{std::nullopt, "x"});
  require_ok(fs.sync_dir("."));
  REQUIRE(outcomes(fs, "d/f") == std::set<std::optional<std::string>>{"x"});
}

TEST_CASE("crash after an unsynced rename: the rename has happened as a whole, or not at all") {
  MemoryRoom room;
  write_file(room.fs(), room.path("CURRENT"), "old");
  require_ok(room.fs().sync_dir(room.dir()));
  write_file(room.fs(), room.path("CURRENT.tmp"), "new");
  require_ok(room.fs().rename(room.path("CURRENT.tmp"), room.path("CURRENT")));
  REQUIRE(outcomes(room.fs(), room.path("CURRENT")) == std::set<std::optional<std::string>>{"old", "new"});
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto clone = room.fs().crash_clone(seed);
    const bool renamed = value_of(read_file(*clone, room.path("CURRENT"))) == "new";
    if (renamed) REQUIRE_FALSE(clone->exists(room.path("CURRENT.tmp")));
  }
}

TEST_CASE("crash after a rename and an unlink: the unlink may survive alone, unless a sync was in between") {
  const bool sync_between = GENERATE(false, true);
  MemoryRoom room;
  write_file(room.fs(), room.path("CURRENT"), "1");
  write_file(room.fs(), room.path("MANIFEST-000001"), "");
  write_file(room.fs(), room.path("CURRENT.tmp"), "2");
  require_ok(room.fs().sync_dir(room.dir()));
  require_ok(room.fs().rename(room.path("CURRENT.tmp"), room.path("CURRENT")));
  if (sync_between) require_ok(room.fs().sync_dir(room.dir()));
  require_ok(room.fs().unlink(room.path("MANIFEST-000001")));
  unsigned broken = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto clone = room.fs().crash_clone(seed);
    broken += value_of(read_file(*clone, room.path("CURRENT"))) == "1" && !clone->exists(room.path("MANIFEST-000001"));
  }
  REQUIRE((broken == 0) == sync_between);
}

TEST_CASE("crash after several changes of one directory entry: none, some or all changes survive, the earliest first") {
  MemoryRoom room;
  // The calls are create, unlink, create, rename over. Whatever survives is one of the states that the entry had.
  write_file(room.fs(), room.path("f"), "1");
  require_ok(room.fs().unlink(room.path("f")));
  write_file(room.fs(), room.path("f"), "2");
  write_file(room.fs(), room.path("g"), "3");
  require_ok(room.fs().rename(room.path("g"), room.path("f")));
  REQUIRE(outcomes(room.fs(), room.path("f")) == std::set<std::optional<std::string>>{std::nullopt, "1", "2", "3"});
  // A later rename never happens without the rename before it; otherwise the file would have two names.
  write_file(room.fs(), room.path("1"), "");
  require_ok(room.fs().sync_dir(room.dir()));
  require_ok(room.fs().rename(room.path("1"), room.path("2")));
  require_ok(room.fs().rename(room.path("2"), room.path("3")));
  std::set<std::string> places;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto clone = room.fs().crash_clone(seed);
    std::string found;
    for (const char* name : {"1", "2", "3"}) found += clone->exists(room.path(name)) ? name : "";
    places.insert(found);
  }
  REQUIRE(places == std::set<std::string>{"1", "2", "3"});
  // A sync of the directory of one end of a rename also makes the other end durable.
  require_ok(room.fs().create_dir(room.path("d")));
  require_ok(room.fs().rename(room.path("f"), room.path("d/f")));
  require_ok(room.fs().sync_dir(room.path("d")));
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto clone = room.fs().crash_clone(seed);
    REQUIRE_FALSE(clone->exists(room.path("f")));
  }
}

TEST_CASE("crash with unsynced sectors: each is kept, lost or torn, and synced sectors stay") {
  MemoryRoom room;
  const std::string before(2 * kSector + 100, 'a');
  const std::string added(3 * kSector, 'b');
  auto file = value_of(room.fs().create(room.path("f")));
  require_ok(file->append(before));
  require_ok(file->sync());
  require_ok(room.fs().sync_dir(room.dir()));
  require_ok(file->append(added));
  const std::string all = before + added;
  std::set<std::size_t> sizes;
  unsigned kept = 0, dropped = 0, torn = 0, out_of_order = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string found = *content_of(*room.fs().crash_clone(seed), room.path("f"));
    REQUIRE(found.size() >= before.size());
    REQUIRE(found.size() <= all.size());
    REQUIRE(found.substr(0, before.size()) == before);
    sizes.insert(found.size());
    bool gap = false;
    for (std::size_t at = 3 * kSector; at + kSector <= found.size(); at += kSector) {
      const Bytes sector = Bytes(found).substr(at, kSector);
      const bool none = sector.find('b') == Bytes::npos;
      const bool whole = sector.find('\0') == Bytes::npos;
      REQUIRE(sector.find_first_not_of(Bytes("b\0", 2)) == Bytes::npos);
      kept += whole;
      dropped += none;
      torn += !whole && !none;
      out_of_order += gap && whole;
      gap = gap || none;
    }
  }
  REQUIRE(sizes.contains(before.size()));
  REQUIRE(sizes.contains(all.size()));
  REQUIRE(sizes.size() > 50);
  REQUIRE(kept > 50);
  REQUIRE(dropped > 50);
  REQUIRE(torn > 10);
  REQUIRE(out_of_order > 5);
}

TEST_CASE("power loss during an unaligned punch: neighbouring bytes are unchanged") {
  MemoryRoom room;
  std::string content;
  for (int i = 0; content.size() < 6 * kSector; ++i) content += std::to_string(i) + ",";
  content.resize(6 * kSector);
  write_file(room.fs(), room.path("f"), content);
  require_ok(room.fs().sync_dir(room.dir()));
  const std::size_t from = kSector + 100, to = 4 * kSector + 7;
  require_ok(room.fs().punch_hole(room.path("f"), from, to - from));
  std::set<std::string> inside;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string found = *content_of(*room.fs().crash_clone(seed), room.path("f"));
    REQUIRE(found.substr(0, from) == content.substr(0, from));
    REQUIRE(found.substr(to) == content.substr(to));
    inside.insert(found.substr(from, to - from));
  }
  REQUIRE(inside.size() > 10);  // the bytes were torn in many ways
}

TEST_CASE("crash after unsynced punches and truncates: the crash may undo them") {
  MemoryRoom room;
  const std::string content(4 * kSector, 'x');
  write_file(room.fs(), room.path("f"), content);
  require_ok(room.fs().sync_dir(room.dir()));
  require_ok(room.fs().punch_hole(room.path("f"), kSector, 2 * kSector));
  bool whole = false, punched = false;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto clone = room.fs().crash_clone(seed);
    const std::string found = *content_of(*clone, room.path("f"));
    REQUIRE(found.size() == content.size());
    REQUIRE(found.substr(0, kSector) == content.substr(0, kSector));
    whole = whole || found == content;
    if (found.substr(kSector, 2 * kSector) == std::string(2 * kSector, '\0') && clone->used_bytes() == 2 * kSector)
      punched = true;
  }
  REQUIRE(whole);
  REQUIRE(punched);
  require_ok(room.fs().sync_file(room.path("f")));
  REQUIRE(outcomes(room.fs(), room.path("f")).size() == 1);
  require_ok(room.fs().truncate(room.path("f"), 10));
  REQUIRE(outcomes(room.fs(), room.path("f")).size() > 10);
  require_ok(room.fs().sync_file(room.path("f")));
  REQUIRE(outcomes(room.fs(), room.path("f")) == std::set<std::optional<std::string>>{content.substr(0, 10)});
}

TEST_CASE("crash at every step of an atomic write: the file has the old or the new content") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    MemoryRoom room;
    require_ok(write_file_atomically(room.fs(), room.dir(), "CURRENT", std::string(700, 'o')));
    require_ok(write_file_atomically(room.fs(), room.dir(), "CURRENT", std::string(900, 'n')));
    REQUIRE(*content_of(*room.fs().crash_clone(seed), room.path("CURRENT")) == std::string(900, 'n'));
  }
}

TEST_CASE("file system is full: a write is partial, and freed space is usable") {
  MemoryRoom room;
  room.fs().set_capacity(4 * kSector);
  auto file = value_of(room.fs().create(room.path("f")));
  require_ok(file->append(std::string(kSector + 10, 'x')));
  REQUIRE(room.fs().used_bytes() == 2 * kSector);
  REQUIRE(value_of(room.fs().disk_space("")).free_bytes == 2 * kSector);
  REQUIRE(file->append(std::string(3 * kSector, 'y')).code() == Code::kNoSpace);
  REQUIRE(file->size() == 4 * kSector);
  require_ok(room.fs().punch_hole(room.path("f"), 0, kSector));
  REQUIRE(room.fs().used_bytes() == 3 * kSector);
  require_ok(file->append("z"));
  REQUIRE(file->append(std::string(kSector, 'z')).code() == Code::kNoSpace);
  require_ok(room.fs().unlink(room.path("f")));
  REQUIRE(room.fs().used_bytes() == 4 * kSector);  // the file is still open
  require_ok(file->close());
  REQUIRE(room.fs().used_bytes() == 0);

  write_file(room.fs(), room.path("g"), std::string(3 * kSector, 'g'));
  room.fs().set_capacity(kSector);
  REQUIRE(value_of(room.fs().disk_space("")).free_bytes == 0);
  auto full = value_of(room.fs().create(room.path("h")));
  REQUIRE(full->append("h").code() == Code::kNoSpace);
  write_file(room.fs(), room.path("i"), "");
  require_ok(room.fs().rename(room.path("i"), room.path("g")));  // this replaces and frees g
  require_ok(full->append("h"));
  room.fs().set_capacity(0);
  require_ok(full->append(std::string(100 * kSector, 'h')));
}

TEST_CASE("file system fills up after a hole at the file's end: the last free sector is used, and no more") {
  for (std::uint64_t hole = 1; hole < 2 * kSector; hole += 97) {
    for (std::uint64_t sectors = 0; sectors < 4; ++sectors) {
      MemoryRoom room;
      auto file = value_of(room.fs().create(room.path("f")));
      require_ok(room.fs().truncate(room.path("f"), hole));
      room.fs().set_capacity(sectors * kSector + 1);
      (void)file->append(std::string(10 * kSector, 'x'));
      REQUIRE(room.fs().used_bytes() == sectors * kSector);
      const std::uint64_t expected = sectors == 0 ? hole : hole / kSector * kSector + sectors * kSector;
      REQUIRE(value_of(room.fs().file_size(room.path("f"))) == expected);
    }
  }
}

TEST_CASE("holder of a file lock is destroyed, or the machine crashes: the lock ends") {
  MemoryRoom room;
  auto lock = value_of(room.fs().lock(room.path("LOCK")));
  require_ok(room.fs().sync_dir(room.dir()));
  const auto clone = room.fs().crash_clone(1);
  const auto second = value_of(clone->lock(room.path("LOCK")));
  REQUIRE(clone->lock(room.path("LOCK")).status().code() == Code::kBusy);
  lock.reset();
  REQUIRE(value_of(room.fs().lock(room.path("LOCK"))) != nullptr);
}

TEST_CASE("file system is destroyed while files are open: the files stay usable") {
  std::unique_ptr<WritableFile> writer;
  std::unique_ptr<FileLock> lock;
  {
    MemoryFileSystem fs;
    writer = value_of(fs.create("f"));
    lock = value_of(fs.lock("LOCK"));
  }
  require_ok(writer->append("x"));
  REQUIRE(writer->size() == 1);
}

TEST_CASE("path is spelled with ./ or //: it names the same entry as without") {
  MemoryFileSystem fs;
  write_file(fs, "./a", "relative");
  write_file(fs, "/a", "absolute");
  REQUIRE(value_of(read_file(fs, "a")) == "relative");
  REQUIRE(value_of(read_file(fs, "//a")) == "absolute");
  REQUIRE(fs.tree() == std::vector<std::string>{"/a", "a"});
  REQUIRE(fs.exists("/"));
  REQUIRE(fs.exists(""));
  require_ok(fs.create_dir("d/"));
  require_ok(fs.sync_dir("d//"));
  REQUIRE_FALSE(fs.remove_dir("/").is_ok());
}

// The property test: random operations, then crashes. The model keeps for each entry every state since the entry's last sync, and
// for each file the bytes that are certain.
class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {
    require_ok(fs_.create_dir("d"));
    require_ok(fs_.sync_dir(""));
  }

  void step() {
    const std::string name = "d/" + std::to_string(random_.uniform(4));
    switch (random_.uniform(8)) {
      case 0:
      case 1:
        create(name);
        break;
      case 2: {
        if (open_ == nullptr) break;
        File& file = files_[open_id_];
        const std::string piece(1 + random_.uniform(3 * kSector), static_cast<char>('a' + random_.uniform(26)));
        require_ok(open_->append(piece));
        file.bytes += piece;
        break;
      }
      case 3:
        if (open_ == nullptr) break;
        require_ok(open_->sync());
        files_[open_id_].durable = files_[open_id_].bytes;
        break;
      case 4:
        if (now_.contains(name)) {
          require_ok(fs_.unlink(name));
          now_.erase(name);
          note(name);
        }
        break;
      case 5:
        rename(name, "d/" + std::to_string(random_.uniform(4)));
        break;
      case 6:
        if (random_.one_in(2)) break;
        require_ok(fs_.sync_dir("d"));
        for (auto& [entry, states] : history_) states = {now_.contains(entry) ? now_[entry] : 0};
        break;
      default:
        break;
    }
  }

  /// Returns how many entries differed from the state that programs saw.
  unsigned check_crash(std::uint64_t seed) {
    const auto clone = fs_.crash_clone(seed);
    const auto again = fs_.crash_clone(seed);
    REQUIRE(clone->tree() == again->tree());
    unsigned differ = 0;
    for (const auto& [entry, states] : history_) {
      const auto found = content_of(*clone, entry);
      REQUIRE(found == content_of(*again, entry));
      INFO("seed " << seed << ", entry " << entry);
      bool possible = false;
      for (const std::uint64_t id : states) possible = possible || (id == 0 ? !found : found && fits(*found, files_[id]));
      REQUIRE(possible);
      differ += found != content_of(fs_, entry);
    }
    return differ;
  }

 private:
  struct File {
    std::string bytes;
    std::string durable;
  };

  void create(const std::string& name) {
    auto made = fs_.create(name);
    REQUIRE(made.is_ok() == !now_.contains(name));
    if (!made.is_ok()) return;
    open_ = std::move(made).value();
    open_id_ = ++last_id_;
    now_[name] = open_id_;
    note(name);
  }
  void rename(const std::string& from, const std::string& to) {
    if (!now_.contains(from) || from == to) return;
    require_ok(fs_.rename(from, to));
    now_[to] = now_[from];
    now_.erase(from);
    note(from);
    note(to);
  }
  void note(const std::string& entry) {
    history_.try_emplace(entry, std::set<std::uint64_t>{0});
    history_[entry].insert(now_.contains(entry) ? now_[entry] : 0);
  }
  static bool fits(const std::string& found, const File& file) {
    if (found.size() < file.durable.size() || found.size() > file.bytes.size()) return false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool certain = i < file.durable.size();
      if (found[i] != file.bytes[i] && (certain || found[i] != '\0')) return false;
    }
    return true;
  }

  Random random_;
  MemoryFileSystem fs_;
  std::map<std::string, std::uint64_t> now_;                // entry -> file id, as programs see it
  std::map<std::string, std::set<std::uint64_t>> history_;  // entry -> file ids since its last sync; 0 is none
  std::map<std::uint64_t, File> files_;
  std::unique_ptr<WritableFile> open_;
  std::uint64_t open_id_ = 0, last_id_ = 0;
};

TEST_CASE("random operations, then a crash: each entry has one of its states since its last sync") {
  unsigned differ = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Model model(seed);
    for (int i = 0; i < 60; ++i) {
      model.step();
      if (i % 6 == 0) differ += model.check_crash(seed * 1000 + static_cast<std::uint64_t>(i));
    }
  }
  REQUIRE(differ > 1000);  // crashes must lose something
}

}  // namespace TEST_FILE
}  // namespace ebbtide
