// Shared data of salvage. inspect_salvage_read.cc reads manifest and tables, inspect_salvage_log.cc reads the log,
// inspect_salvage_write.cc writes the new databases, and inspect_salvage.cc has the sequence of steps and the report.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch.h"
#include "cache/block_cache.h"
#include "memtable/memtable.h"
#include "table/table_reader.h"
#include "tools/inspect.h"
#include "tools/inspect_salvage_source.h"

namespace ebbtide {

/// A number above every seq.
inline constexpr SeqNum kBeyondAllSeqs = ~SeqNum{0};

/// A lost part: a file or a part of it that cannot be read.
struct SalvageLoss {
  std::string file;                     ///< file name without the directory
  std::optional<std::uint64_t> offset;  ///< offset in the file; without a value the whole file is lost
  std::optional<TreeId> tree;           ///< the tree whose data is lost; no value: it may be any tree
  KeyRange keys;                        ///< keys that were, or may have been, in the part
  SeqNum first = 0, last = 0;           ///< seqs of the first and last operation that the part may have had; 0 = unknown
  std::string what;                     ///< the fault, for the report
};

/// A lost part may have had deletes of these keys: if the newest version of a key has a seq below `below`, the key is possibly
/// deleted.
struct SalvageDoubt {
  KeyRange keys;
  SeqNum below = kBeyondAllSeqs;
};

/// A table with at least one readable part.
struct SalvageTable {
  std::shared_ptr<TableReader> reader;
  std::vector<KeyRange> good;  ///< key ranges that can be read without an error, ascending
  /// Entries of readable pages in damaged tiles, in (key, seq) order. Large values are read through `reader`.
  struct Rescued {
    std::string key, value;
    Entry entry;
  };
  std::vector<Rescued> rescued;
};

struct SalvageTree {
  TreeId id = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  bool stamp_known = true;
  VersionPtr version;      ///< null: the manifest does not have the tree
  SeqNum flushed_seq = 0;  ///< operations up to this seq are in tables
  std::vector<SalvageTable> tables;
  std::unique_ptr<MemTable> memtable;  ///< the tree's operations in the log
  std::vector<SalvageDoubt> doubts;

  /// True if all keys of the tree are possibly deleted.
  [[nodiscard]] bool all_in_doubt() const;
  [[nodiscard]] bool in_doubt(Bytes key, SeqNum newest) const;
};

struct Salvaged {
  std::map<TreeId, SalvageTree> trees;
  std::map<DatabaseId, TreeId> databases;
  VersionState state;  ///< the readable part of the manifest
  bool manifest_whole = false;
  SeqNum last_seq = 0;  ///< highest seq in all readable parts
  Millis time = 0;      ///< latest engine time in all readable parts
  std::vector<SalvageLoss> lost;
  std::vector<std::string> notes;

  SalvageTree& tree(TreeId id);
  /// For every tree whose tables may lack operations with a seq below `below`: adds a SalvageDoubt for all of its keys.
  void doubt_lacking(SeqNum below);
};

/// Reads the readable parts of the damaged directory DIR.
class SalvageReader {
 public:
  SalvageReader(SalvageSource& source, std::string dir);

  /// Fills `out`. kNotFound: DIR has no file of a database.
  Status read(Salvaged* out);

 private:
  Status read_manifest(Salvaged* out);
  Result<bool> take_manifest(FileNum file, bool whole_only, Salvaged* out);
  void read_tables(Salvaged* out);
  void read_strangers(Salvaged* out);
  void read_table(const TableFiles& files, const TableStats& stats, SalvageTree* tree, Salvaged* out);
  void scan_table(const std::shared_ptr<TableReader>& reader, SalvageTree* tree, Salvaged* out);
  void rescue_tile(std::uint32_t tile, const KeyRange& keys, SalvageTable* table, SalvageTree* tree, Salvaged* out);
  [[nodiscard]] bool tile_is_whole(const TableLookup& reader, const KeyRange& keys);

  SalvageSource& source_;
  const std::string dir_;
  Epoch epoch_;
  BlockCache cache_;
};

/// Reads the log in `dir` into the memtables of `out`.
Status salvage_log(SalvageSource& source, const std::string& dir, Salvaged* out);

/// A new database to write: the certain keys of each tree, the doubtful keys, or both.
struct SalvageTarget {
  std::string dir;
  bool certain = true, doubtful = false;
  const std::atomic<bool>* stop = nullptr;  ///< may be null; once true, the write ends with kAborted
};
struct SalvageWritten {
  std::uint64_t keys = 0, bytes = 0, tables = 0;
  std::map<DatabaseId, std::uint64_t> keys_by_database;
};
/// Writes one new database. After an error the new files are removed if possible. If there are no keys, the directory is created
/// only for the certain keys.
Result<SalvageWritten> write_salvaged(FileSystem& fs, const SalvageTarget& target, const Salvaged& salvaged);

}  // namespace ebbtide
