// A consistent view for reads: one database at one sequence number and one engine time.
//
// There are two kinds:
//   * a *pass view* costs two loads and no reference count. It is valid while the thread holds its PassGuard (a span of
//     commands). Its results point into memtables and cached pages.
//   * a *leased view* (Db::lease) owns what it reads, may live for minutes and move between threads, and can be revoked.
//
// Fetch and retry: with ReadMode::kResident a read never waits for the disk. It adds missing pages to the MissSet and returns
// kNotResident. The caller collects as many misses as possible, passes the set to Db::fetch, and runs the command again.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/iterator.h>
#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

struct ReadEnv;    // db/read/view_parts.h: shared by all views of a database
struct ViewParts;  // the same
struct TreeView;   // db/trees/tree_view.h: memtables and runs of one tree at one moment
class Lease;       // db/trees/lease_registry.h

/// xxh3 of the key with a fixed seed, the one hash of the engine.
std::uint64_t hash_key(Bytes key);

/// A page, or a large value, that a read lacked: where it is, and the open table that has it.
struct PageMiss {
  const void* table = nullptr;     ///< the table reader, kept alive by MissSet::keep_alive
  std::uint32_t page = 0;          ///< number of the page in its table; unused for a large value
  std::uint64_t large_offset = 0;  ///< large values: where it lies (LargeValueRef); 0 = a page
  std::uint64_t large_stored_bytes = 0;
  std::uint64_t large_length = 0;
  std::uint64_t part_offset = 0;  ///< large values: the bytes that are wanted, within the value
  std::uint64_t part_bytes = 0;
  bool ahead = false;  ///< for a later read: cached, not pinned, so that pages for this read have room
};

/// The pages and large values that a command's reads lacked and, after the fetch, the pins that keep them in memory for its next
/// run. A command keeps its set over all its runs and clears it at the end. One owner at a time; not thread-safe.
struct MissSet {
  struct LargeValue {
    const void* table;
    std::uint64_t offset;
    std::uint64_t part_offset;  ///< where `value` begins within the large value: it may be a part of it
    std::shared_ptr<const std::string> value;
  };
  std::vector<PageMiss> pages;                          ///< still to be fetched; Db::fetch empties it
  std::vector<std::shared_ptr<const void>> keep_alive;  ///< tables of `pages`, and pinned pages after a fetch
  std::vector<LargeValue> large;                        ///< large values that were fetched
  bool refused = false;  ///< the memory budget had no room for all misses: reads that still miss one return kOutOfMemory

  std::uint64_t refused_bytes = 0;  ///< if `refused`: approximate bytes of all misses together

  [[nodiscard]] bool empty() const { return pages.empty(); }
  void clear() {
    pages.clear();
    keep_alive.clear();
    large.clear();
    refused = false;
    refused_bytes = 0;
  }
};

/// Runs the fetches of one event loop without another thread (Db::new_fetch_queue). One thread at a time. Must be destroyed
/// before its Db.
class FetchQueue {
 public:
  /// Ends every started fetch, its `done` included; waits for running reads.
  virtual ~FetchQueue() = default;
  /// Starts the reads of new fetches, and calls `done` of completed ones. Never waits.
  virtual void poll() = 0;
  /// For epoll: readable when poll() has a `done` to call.
  [[nodiscard]] virtual int descriptor() const = 0;
};

enum class ReadMode : std::uint8_t {
  kResident,  ///< never wait for the disk; misses go to the MissSet
  kBlocking,  ///< read what is missing on this thread
};

/// The place of a large value whose bytes were not read. The fields are private to the engine.
struct LargePlace {
  const void* table = nullptr;  ///< the open table that has it; null: the value is at hand
  std::uint64_t offset = 0;
  std::uint64_t stored_bytes = 0;
};

/// The current entry of a key. `value` is valid as long as the view (pass view: until its PassGuard ends).
struct Found {
  Bytes value;                      ///< empty if `large` is set
  std::shared_ptr<const void> pin;  ///< set if the value lies in a buffer of its own (large values); keep it to keep `value`
                                    ///< and, of a value above kLargeValueBytes, a std::string
  std::uint64_t length = 0;         ///< bytes of the value, also of one that was not read
  LargePlace large;                 ///< set by ReadView::locate alone; valid as long as `value` would be
  EntryKind kind = EntryKind::kValue;
  SeqNum seq = 0;
  Millis expiry = 0;
  DeleteKey stamp = kNoStamp;

  /// The value as a shared one that a batch can hold without a copy. Null if it must be copied.
  [[nodiscard]] std::shared_ptr<const std::string> shared() const {
    if (value.size() <= kLargeValueBytes || pin == nullptr) return nullptr;
    auto whole = std::static_pointer_cast<const std::string>(pin);
    return whole->data() == value.data() && whole->size() == value.size() ? std::move(whole) : nullptr;
  }
};

/// Some bytes of a value. Valid as long as the view and the Found that they were read from or, if `pin` is set, as long as the
/// pin.
struct ValuePart {
  Bytes bytes;
  std::shared_ptr<const void> pin;
};

/// Results of the stages of ReadView::prefetch for one key, so that later stages and get() do not repeat a search. Valid under
/// the PassGuard of the stages; afterwards begin with stage 0 again. It stores results for tables only, which never change, so
/// get() still sees concurrent writes. The fields are private to the engine.
struct LookupState {
  static constexpr std::uint32_t kRuns = 16;  ///< further, older runs are searched without stored results
  static constexpr std::uint32_t kNoPage = ~std::uint32_t{0};

  const void* tables = nullptr;            ///< the searched set of tables; null: no stage has run
  const void* table = nullptr;             ///< the newest table that may have the key; null: none found yet
  const void* block = nullptr;             ///< the first page of that table that may have the key, if it is in memory
  const void* found = nullptr;             ///< before `block` is known: how far the search in the cache got
  std::uint64_t columns = 0;               ///< the pages of the tile that may have the key, as bits
  std::uint32_t tile = 0;                  ///< number of the tile; before stage 3: how far the search for it got
  std::uint32_t page = 0;                  ///< number of the first page that may have the key, or kNoPage
  std::uint16_t outside = 0;               ///< bit r: no file of run r has the key within its bounds
  std::uint16_t denied = 0;                ///< bit r: run r's filter rules the key out
  std::uint8_t stage = 0;                  ///< the next stage that has work to do
  bool tombstones = false;                 ///< the tile's page of tombstones may have the key
  std::array<std::uint16_t, kRuns> files;  ///< by run: the file whose bounds contain the key
};

class ReadView {
 public:
  /// Stages of prefetch().
  static constexpr int kPrefetchStages = 7;

  ReadView() = default;

  /// Looks up the current entry of `key` and fills in `found`. kNotFound: absent, deleted or expired; then found->seq is that of
  /// the newest version, usually a tombstone, and unchanged if there is none. kNotResident: only with ReadMode::kResident; misses
  /// were added. kOutOfMemory: the memory budget has no room for a missing page or value. kRevoked, kCorruption, kIoError. Only
  /// for the view's thread.
  [[nodiscard]] Status get(const LookupKey& key, Found* found) const;

  /// Like get(), but reads no byte of a large value: found->large has its place, and found->value is empty. found->length is
  /// always the value's length. Needs no memory for the value.
  [[nodiscard]] Status locate(const LookupKey& key, Found* found) const;
  /// Completes a Found of this view's locate(): reads the value if it was not read. Afterwards `found` is as after get(). Errors
  /// as of get().
  [[nodiscard]] Status read(Found* found) const;
  /// Returns bytes [offset, offset + length) of a located value; the range must be inside it. Reads only the blocks with these
  /// bytes; a block has up to 256 KiB of the value. Errors as of get().
  [[nodiscard]] Status read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const;
  /// Like read_part(), but copies to.size() bytes from `offset` on to the caller's memory, which the caller has charged. With
  /// ReadMode::kBlocking it charges nothing else.
  [[nodiscard]] Status copy_part(const Found& found, std::uint64_t offset, std::span<char> to) const;

  /// Starts the memory loads that get() will need. Call stages 0 to kPrefetchStages - 1 in order, each for a whole span of keys,
  /// so that their cache misses overlap. Changes no result. With key.state set, each stage and get() use the results of the stage
  /// before; without it, stages after 1 do nothing. A blind write needs only stage 0.
  void prefetch(const LookupKey& key, int stage) const;
  /// All stages, for all of the keys.
  void prefetch(std::span<const LookupKey* const> keys) const;
  /// Adds the first page that get() will need to `misses`, if prefetch() with key.state has found that it is not in memory.
  void add_expected_miss(const LookupKey& key, MissSet* misses) const;

  [[nodiscard]] SeqNum seq() const { return seq_; }
  [[nodiscard]] Millis now() const { return now_; }
  [[nodiscard]] DatabaseId database() const { return database_; }
  /// The stamp mode of the tree. If there is none: of the tree that the first write will create.
  [[nodiscard]] StampMode stamp_mode() const;
  /// False when the database never had a write: everything is absent.
  [[nodiscard]] bool has_tree() const { return tree_ != nullptr; }
  [[nodiscard]] MissSet* misses() const { return misses_; }
  [[nodiscard]] ReadMode mode() const { return mode_; }

 private:
  friend struct ViewParts;
  ReadEnv* env_ = nullptr;
  const TreeView* tree_ = nullptr;
  SeqNum seq_ = 0;
  Millis now_ = 0;
  MissSet* misses_ = nullptr;
  ReadMode mode_ = ReadMode::kBlocking;
  DatabaseId database_ = 0;
  std::shared_ptr<Lease> lease_;  ///< null for a pass view
};

}  // namespace ebbtide
