// Salvage: makes a new database of the readable parts of a damaged database. engine/docs/salvage.md has the rules.
//
//   1. Salvage reads the manifest as far as possible, then the tables that the manifest names, tile by tile, then the log.
//   2. Keys that an unreadable part may have deleted are doubtful.
//   3. Certain keys are written to OUT, doubtful keys to OUT-possibly-deleted. Both databases are verified.
//
// Salvage never writes to DIR. OUT opens only once all files in OUT are durable.
#include <algorithm>
#include <set>

#include <engine/index.h>
#include "base/number_name.h"
#include "io/file_names.h"
#include "tools/inspect_salvage.h"
#include "tree/text.h"

namespace ebbtide {
namespace {

std::string keys_text(const KeyRange& keys) {
  return (keys.start.empty() ? "*" : key_to_text(keys.start)) + ".." + (keys.end.empty() ? "*" : "<" + key_to_text(keys.end));
}

class Salvage {
 public:
  Salvage(FileSystem& fs, std::string dir, std::string out, const SalvageQuery& query)
      : fs_(fs),
        dir_(without_slashes(std::move(dir))),
        to_(without_slashes(std::move(out))),
        query_(query),
        source_(fs, query.stop) {}

  SalvageOutcome run() {
    const Status status = salvage();
    Inspection& report = outcome_.report;
    if (!status.is_ok()) {
      report.error(status);
      report.text += "Nothing was written.\n";
      outcome_.exit_status = 2;
    } else {
      outcome_.exit_status = found_.lost.empty() ? 0 : 1;
    }
    report.json.add("directory", dir_).add("out", to_).add("lost", lost_json_).add("notes", json_strings(found_.notes));
    report.json.add("written", written_json_).add("exit_status", static_cast<std::uint64_t>(outcome_.exit_status));
    return std::move(outcome_);
  }

 private:
  Status salvage() {
    TRY(check_places());
    TRY(lock_source());
    SalvageReader reader(source_, dir_);
    const Status read = reader.read(&found_);
    if (source_.stopped()) return Status::aborted("interrupted");
    TRY(read);
    note_unreadable();
    leave_out_indexes();
    place_trees();
    tell_lost();
    const std::string apart = possibly_deleted_dir(to_);
    const bool doubtful =
        std::any_of(found_.trees.begin(), found_.trees.end(), [](const auto& tree) { return !tree.second.doubts.empty(); });
    if (doubtful && !query_.include_possibly_deleted) {
      TRY(write({.dir = apart, .certain = false, .doubtful = true, .stop = query_.stop},
                "a lost part may have had deletes of these keys; the directory opens like any database"));
    }
    const Status status = write({.dir = to_, .certain = true, .doubtful = query_.include_possibly_deleted, .stop = query_.stop},
                                !doubtful                         ? "all readable data"
                                : query_.include_possibly_deleted ? "including possibly deleted keys"
                                                                  : "the certain keys");
    if (!status.is_ok() && fs_.exists(apart)) return status.with_context(apart + " was written, but " + to_ + " was not");
    return status;
  }

  Status check_places() {
    for (const std::string& to : {to_, possibly_deleted_dir(to_)}) {
      if (lies_within(to, dir_) || lies_within(dir_, to)) {
        return Status::invalid_argument(to + " and " + dir_ + ": neither may be inside the other");
      }
      if (!fs_.exists(to)) continue;
      TRY_ASSIGN(names, fs_.list(to));
      if (!names.empty()) return Status::exists(to + " is not empty; salvage writes to a new or an empty directory");
    }
    if (const std::string name = split_path(to_).name; name.empty() || name == "." || name == "..") {
      return Status::invalid_argument(
          "'" + to_ +
          "' does not end with a directory's name: give the whole path, since possibly deleted keys go to a second "
          "directory beside it");
    }
    if (const std::string parent = parent_path(to_); !parent.empty() && !fs_.exists(parent)) {
      return Status::not_found(parent + ", the parent directory of " + to_ + ", does not exist");
    }
    return fs_.list(dir_).status();
  }
  /// If locking fails for another reason than a running server, the directory is taken to be on a read-only file system.
  Status lock_source() {
    const std::string lock = join_path(dir_, kLockFileName);
    if (!fs_.exists(lock)) return Status::ok();
    auto held = fs_.lock(lock);
    if (held.status().code() == Code::kBusy)
      return held.status().with_context("a server has " + dir_ + " open; stop the server first");
    if (held.is_ok()) lock_ = std::move(held).value();
    return Status::ok();
  }

  void note_unreadable() {
    for (const SalvageSource::Unreadable& place : source_.unreadable()) {
      found_.notes.push_back(std::to_string(place.length) + " bytes at " + std::to_string(place.offset) +
                             " cannot be read: " + place.what);
    }
  }

  /// Leaves out the trees of indexes, since their entries may not match the salvaged records. The server builds an index again if
  /// its definition says that it is complete, but it has no tree (IndexCatalog::load).
  void leave_out_indexes() {
    for (auto at = found_.databases.begin(); at != found_.databases.end();) {
      const auto [number, id] = *at++;
      if (!is_index_tree(number) || index_number(number) == kCatalog) continue;
      found_.notes.push_back(number_name(number) + " is left out: the server builds the index again");
      found_.trees.erase(id);
      found_.databases.erase(number);
    }
  }

  /// Gives each tree whose database number is lost an unused number. Removes trees whose database was emptied.
  void place_trees() {
    std::set<TreeId> placed;
    for (const auto& [database, id] : found_.databases) placed.insert(id);
    DatabaseId free = 0;
    for (auto at = found_.trees.begin(); at != found_.trees.end();) {
      const SalvageTree& tree = at->second;
      if (placed.contains(at->first)) {
        ++at;
        continue;
      }
      const std::string name = "tree " + std::to_string(tree.id);
      if (found_.manifest_whole && tree.version != nullptr) {
        found_.notes.push_back(name + " belongs to no database: its database was emptied");
        at = found_.trees.erase(at);
        continue;
      }
      while (found_.databases.contains(free)) ++free;
      if (free >= kMaxDatabases) {
        found_.lost.push_back(
            {"MANIFEST", {}, tree.id, {}, 0, 0, name + ": its database number is unknown, and no number is free"});
        at = found_.trees.erase(at);
        continue;
      }
      found_.databases[free] = tree.id;
      found_.notes.push_back(name + ": its database number is unknown; it is database " + std::to_string(free) + " now" +
                             (tree.stamp_known ? "" : ", with the stamp mode write_time, which may be wrong"));
      ++at;
    }
  }

  std::string tree_text(const SalvageLoss& loss) const {
    if (!loss.tree) return "";
    std::string text = ", tree " + std::to_string(*loss.tree);
    for (const auto& [database, id] : found_.databases) {
      if (id == *loss.tree) text += " (" + number_name(database) + ")";
    }
    return text;
  }

  void tell_lost() {
    std::string& text = outcome_.report.text;
    for (const SalvageLoss& loss : found_.lost) {
      text += "lost: " + loss.file + (loss.offset ? " at " + std::to_string(*loss.offset) : "") + tree_text(loss) + ", keys " +
              keys_text(loss.keys);
      if (loss.first != 0 || loss.last != 0) {
        text += ", operations " + (loss.first != 0 ? std::to_string(loss.first) : "?") + " to " +
                (loss.last != 0 ? std::to_string(loss.last) : "?");
      }
      text += ": " + loss.what + "\n";
      JsonObject json;
      json.add("file", loss.file);
      if (loss.offset) json.add("offset", *loss.offset);
      if (loss.tree) json.add("tree", *loss.tree);
      json.add("from_key", key_to_text(loss.keys.start)).add("to_key", loss.keys.end.empty() ? "*" : key_to_text(loss.keys.end));
      if (loss.first != 0) json.add("first_operation", loss.first);
      if (loss.last != 0) json.add("last_operation", loss.last);
      lost_json_.add(json.add("what", loss.what).str());
    }
    for (const std::string& note : found_.notes) text += "note: " + note + "\n";
  }

  Status write(const SalvageTarget& target, const std::string& what) {
    TRY_ASSIGN(written, write_salvaged(fs_, target, found_));
    if (written.keys == 0 && !target.certain) return Status::ok();
    const Inspection verified = inspect_verify(fs_, target.dir);
    if (!verified.errors.empty())
      return Status::corruption("the new database " + target.dir + " is damaged: " + verified.errors.front());
    std::string by_database;
    JsonObject databases;
    for (const auto& [database, keys] : written.keys_by_database) {
      by_database += (by_database.empty() ? "" : ", ") + number_name(database) + ": " + std::to_string(keys);
      databases.add(std::to_string(database), keys);
    }
    outcome_.report.text += target.dir + " has " + std::to_string(written.keys) + " keys" +
                            (by_database.empty() ? "" : " (" + by_database + ")") + ": " + what + "\n";
    JsonObject json;
    json.add("directory", target.dir).raw("possibly_deleted", target.certain ? "false" : "true").add("keys", written.keys);
    json.add("tables", written.tables).add("bytes", written.bytes).add("databases", databases);
    written_json_.add(json.str());
    return Status::ok();
  }

  FileSystem& fs_;
  const std::string dir_, to_;
  const SalvageQuery query_;
  SalvageSource source_;
  std::unique_ptr<FileLock> lock_;
  Salvaged found_;
  SalvageOutcome outcome_;
  JsonArray lost_json_, written_json_;
};

}  // namespace

std::string possibly_deleted_dir(const std::string& out) { return without_slashes(out) + "-possibly-deleted"; }

SalvageOutcome inspect_salvage(FileSystem& fs, const std::string& dir, const std::string& out, const SalvageQuery& query) {
  return Salvage(fs, dir, out, query).run();
}

}  // namespace ebbtide
