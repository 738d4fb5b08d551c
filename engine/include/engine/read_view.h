// A consistent view for reads: one database at one sequence number and one engine time.
//
// There are two kinds:
//   * a *pass view* (Db::view) costs two loads and no reference count. It is valid while the thread holds its PassGuard, for
//     example during a span of commands. Its results point into memtables and cached pages.
//   * a *leased view* (Db::lease) owns the memory and files that it reads, may live for minutes and move between threads, and
//     can be revoked.
//
// Fetch and retry: with ReadMode::kResident a read never waits for the disk. It adds missing pages to the MissSet and returns
// kNotResident. The caller collects as many misses as possible, passes the set to Db::fetch, and runs the command again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <engine/iterator.h>
#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

struct ReadEnv;    // db/read/view_parts.h: shared by all views of a database
struct ViewParts;  // db/read/view_parts.h: the parts of a view
struct TreeView;   // db/trees/tree_view.h: memtables and runs of one tree at one moment
class Lease;       // db/trees/lease_registry.h

/// Returns xxh3 of the key with a fixed seed. The engine uses no other hash of keys.
std::uint64_t hash_key(Bytes key);

/// A page, or a part of a large value, that a read needed but did not find in memory.
struct PageMiss {
  const void* table = nullptr;     ///< the table reader, kept alive by MissSet::keep_alive
  std::uint32_t page = 0;          ///< number of the page in its table; unused for a large value
  std::uint64_t large_offset = 0;  ///< offset of the large value in the file (LargeValueRef); 0 = the miss is a page
  std::uint64_t large_stored_bytes = 0;
  std::uint64_t large_length = 0;
  std::uint64_t part_offset = 0;  ///< large values: offset of the first wanted byte within the value
  std::uint64_t part_bytes = 0;
  bool ahead = false;  ///< true for a page that only a later read needs: fetch caches but does not pin it, to save memory
};

/// The pages and large values that a command's reads did not find in memory, and after a fetch the pages and values themselves.
/// The command finds them in the set when it runs again, even if the block cache has no room for them. A command keeps its set
/// until it has finished, and then clears it. One owner at a time; not thread-safe.
struct MissSet {
  struct PageId {
    const void* table;
    std::uint32_t page;  ///< number of the page in its table
    bool operator==(const PageId&) const = default;
  };
  struct PageIdHash {
    std::size_t operator()(const PageId& id) const {
      return (reinterpret_cast<std::uintptr_t>(id.table) / alignof(std::max_align_t) + id.page) * 0x9e3779b97f4a7c15U >> 16;
    }
  };
  struct LargeValue {
    const void* table;
    std::uint64_t offset;
    std::uint64_t part_offset;  ///< offset within the large value at which `value`, which may be a part, begins
    std::shared_ptr<const std::string> value;
  };
  std::vector<PageMiss> pages;                          ///< pages that Db::fetch must read; fetch empties the list
  std::vector<std::shared_ptr<const void>> keep_alive;  ///< tables of `pages` and `fetched`, and the charge for `fetched`
  /// Pins of the pages that were fetched. The type of a page is private to the engine.
  std::unordered_map<PageId, std::shared_ptr<const void>, PageIdHash> fetched;
  std::vector<LargeValue> large;  ///< large values, or parts of them, that were fetched
  /// True if the memory budget had no room for all misses: reads of pages or values that are still missing return kOutOfMemory.
  bool refused = false;

  std::uint64_t refused_bytes = 0;  ///< if `refused`: approximate sum of the bytes of all misses

  [[nodiscard]] bool empty() const { return pages.empty(); }
  /// Returns the pin of a page that was fetched; null for other pages.
  [[nodiscard]] const std::shared_ptr<const void>* find(const void* table, std::uint32_t page) const {
    if (fetched.empty()) return nullptr;
    const auto have = fetched.find({table, page});
    return have == fetched.end() ? nullptr : &have->second;
  }
  void clear() {
    pages.clear();
    if (!fetched.empty()) fetched = {};  // clear() would keep the buckets, and write all of them each time
    keep_alive.clear();
    large.clear();
    refused = false;
    refused_bytes = 0;
  }
};

/// Carries out the fetches of one event loop without another thread (Db::new_fetch_queue). For one thread at a time. Destroy the
/// queue before its Db.
class FetchQueue {
 public:
  /// Waits for running reads, ends every started fetch and calls its `done`.
  virtual ~FetchQueue() = default;
  /// Starts the reads of new fetches, and calls `done` of completed fetches. Never waits.
  virtual void poll() = 0;
  /// Returns a file descriptor for epoll: readable when poll() has a `done` to call.
  [[nodiscard]] virtual int descriptor() const = 0;
};

enum class ReadMode : std::uint8_t {
  kResident,  ///< never wait for the disk; misses go to the MissSet
  kBlocking,  ///< read missing pages on the calling thread
};

/// The location of a large value that was not read. The fields are private to the engine.
struct LargePlace {
  const void* table = nullptr;  ///< the open table that has the value; null: the value is in memory
  std::uint64_t offset = 0;
  std::uint64_t stored_bytes = 0;
};

/// The current entry of a key. `value` is valid as long as the view; for a pass view, until the PassGuard ends.
struct Found {
  Bytes value;  ///< empty if `large` is set
  /// Owner of the value's bytes; null if the view owns them. `value` is valid at least as long as `pin` is held. If the value
  /// is longer than kLargeValueBytes, `pin` is a std::string.
  std::shared_ptr<const void> pin;
  std::uint64_t length = 0;  ///< bytes of the value, also if the value was not read
  LargePlace large;          ///< set only by ReadView::locate; valid as long as `value` would be
  EntryKind kind = EntryKind::kValue;
  SeqNum seq = 0;
  Millis expiry = 0;
  DeleteKey stamp = kNoStamp;
  /// The engine time at which a collection died: its header is the newest version of the key, but has expired, or a delete by
  /// stamp covers it. 0 in all other cases. The collection's elements may still exist. A batch that writes the key must first
  /// delete them (delete_range() over element_range(), with `died` as birth), since nothing else finds them once the header has a
  /// newer version.
  Millis died = 0;
  // --- The engine never sets these. A caller that replaces a collection header in `value` by the collection's elements keeps the
  // header here.
  Bytes key;     ///< the collection's engine key
  Bytes header;  ///< the value of the collection's header entry; valid as long as `pin`

  /// Returns the value as a shared value that a batch can hold without a copy, or null if the value must be copied.
  [[nodiscard]] std::shared_ptr<const std::string> shared() const {
    if (value.size() <= kLargeValueBytes || pin == nullptr) return nullptr;
    auto whole = std::static_pointer_cast<const std::string>(pin);
    return whole->data() == value.data() && whole->size() == value.size() ? std::move(whole) : nullptr;
  }
};

/// Some bytes of a value. If `pin` is set, `bytes` are valid as long as the pin. Otherwise they are valid as long as the view and
/// the Found from which they were read.
struct ValuePart {
  Bytes bytes;
  std::shared_ptr<const void> pin;
};

/// Results of the stages of ReadView::prefetch for one key, so that later stages and get() do not repeat a search. The results
/// are valid under the PassGuard of the stages; under another guard begin with stage 0 again. They are positions in tables,
/// which never change; get() still searches the memtables, so it sees concurrent writes. The fields are private to the engine.
struct LookupState {
  static constexpr std::uint32_t kRuns = 16;  ///< older runs after the first 16 are searched without stored results
  static constexpr std::uint32_t kNoPage = ~std::uint32_t{0};

  const void* tables = nullptr;  ///< the view's list of tables; null: no stage has run
  const void* table = nullptr;   ///< the newest table that may have the key; null: none found yet
  const void* block = nullptr;   ///< the first page of `table` that may have the key, if that page is in memory
  const void* found = nullptr;   ///< while `block` is searched: the position that the search in the block cache has reached
  std::uint64_t columns = 0;     ///< bit i is 1 if page i of the tile may have the key
  std::uint32_t tile = 0;        ///< number of the tile; before stage 3: the position that the search for the tile has reached
  std::uint32_t page = 0;        ///< number of the first page that may have the key, or kNoPage
  std::uint16_t outside = 0;     ///< bit r is 1 if no file of run r has the key within its bounds
  std::uint16_t denied = 0;      ///< bit r is 1 if run r's filter denies the key
  std::uint8_t stage = 0;        ///< the next stage that has work to do
  bool tombstones = false;       ///< true if the tile's page of tombstones may have the key
  std::array<std::uint16_t, kRuns> files;  ///< by run: the file whose bounds contain the key
};

class ReadView {
 public:
  /// Stages of prefetch().
  static constexpr int kPrefetchStages = 7;

  ReadView() = default;

  /// Looks up the current entry of `key` and fills in `found`. kNotFound: the key is absent, deleted or expired. Then
  /// found->seq is the seq of the newest version, usually a tombstone, and found->died is set; both are unchanged if no version
  /// was found. kNotResident, only with ReadMode::kResident: missing pages were added to the MissSet. kOutOfMemory: the memory
  /// budget has no room for a missing page or value. Other errors: kRevoked, kCorruption, kIoError. Call get() only on the
  /// view's thread.
  [[nodiscard]] Status get(const LookupKey& key, Found* found) const;

  /// Like get(), but does not read a large value and charges no memory for it: found->value is empty, and found->large states
  /// where the value is. found->length is the value's length in any case.
  [[nodiscard]] Status locate(const LookupKey& key, Found* found) const;
  /// Reads the value of `found`, which locate() of this view has filled in, unless the value was read already. After the call
  /// `found` is as after get(). Errors are those of get().
  [[nodiscard]] Status read(Found* found) const;
  /// Returns bytes [offset, offset + length) of a located value; the range must be inside the value. Reads only the blocks that
  /// contain these bytes; a block has up to 256 KiB of the value. Errors are those of get().
  [[nodiscard]] Status read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const;
  /// Like read_part(), but copies to.size() bytes from `offset` on to the caller's memory, which the caller has charged. With
  /// ReadMode::kBlocking the call charges no other memory.
  [[nodiscard]] Status copy_part(const Found& found, std::uint64_t offset, std::span<char> to) const;

  /// Starts the memory loads that get() will need. Changes no result. Call stages 0 to kPrefetchStages - 1 in order, each for a
  /// whole span of keys, so that their cache misses overlap. If key.state is not null, each stage and get() use the results of
  /// the previous stage; if it is null, stages after 1 do nothing. A write without a read of its key needs only stage 0.
  void prefetch(const LookupKey& key, int stage) const;
  /// Runs all stages for all of the keys.
  void prefetch(std::span<const LookupKey* const> keys) const;
  /// Starts the memory loads that may_have_collection() and a write of the keys will need.
  void prefetch_collections(std::span<const LookupKey* const> keys) const;
  /// Adds the first page that get() will need to `misses`, if the stages of prefetch() with key.state found that the page is
  /// not in memory.
  void add_expected_miss(const LookupKey& key, MissSet* misses) const;

  [[nodiscard]] SeqNum seq() const { return seq_; }
  [[nodiscard]] Millis now() const { return now_; }
  [[nodiscard]] DatabaseId database() const { return database_; }
  /// Returns the stamp mode of the database's tree, or, if there is no tree yet, of the tree that the first write will create.
  [[nodiscard]] StampMode stamp_mode() const;
  /// Returns false if the database never had a write: then all keys are absent.
  [[nodiscard]] bool has_tree() const { return tree_ != nullptr; }
  /// Returns false if get() would surely not find a collection (is_collection()) under `key`: a put of the key then needs no
  /// debt (PutOptions::debt). True may be a false positive; only get() is exact. Costs less than get(), since it tests only
  /// filters of tables that have collections, and reads no page. Call it only on the view's thread.
  [[nodiscard]] bool may_have_collection(const LookupKey& key) const;
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
