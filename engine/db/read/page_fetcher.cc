#include "db/read/page_fetcher.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cache/block_cache.h"
#include "io/file_system.h"
#include "table/table_reader.h"

namespace ebbtide {
namespace {

std::uint64_t memory_of(const void* page) { return BlockCache::memory_of(static_cast<const CachedBlock*>(page)); }

bool is_index(const PageMiss& miss) { return miss.large_offset == 0 && miss.page == kIndexMiss; }

// The charge for the pages of one fetch. The MissSet holds the charge as long as the pages' pins.
struct PageCharge {
  PageCharge(std::shared_ptr<MemoryAccount> a, const std::function<void()>& f) : account(std::move(a)), on_charge(f) {}
  ~PageCharge() { account->release(kKind, bytes.load(std::memory_order_relaxed)); }
  PageCharge(const PageCharge&) = delete;
  PageCharge& operator=(const PageCharge&) = delete;

  /// Returns false if the budget has no room for the page.
  bool add(const void* page) {
    const std::uint64_t size = memory_of(page);
    if (!account->try_charge(kKind, size)) return false;
    bytes.fetch_add(size, std::memory_order_relaxed);
    on_charge();
    return true;
  }

  static constexpr auto kKind = MemoryAccount::Kind::kPages;
  const std::shared_ptr<MemoryAccount> account;
  const std::function<void()>& on_charge;  // the fetcher's function, which outlives all fetches
  std::atomic<std::uint64_t> bytes{0};
};

}  // namespace

// The state of one fetch, which all its parts share. Each part reads its own elements of `wanted`. The last part to end passes
// the results to the MissSet and calls `done`.
struct PageFetch {
  MissSet* misses;
  LargeValues* large_values;
  std::atomic<std::uint64_t>* pages_read;
  std::shared_ptr<PageCharge> charge;
  std::function<void()> done;
  std::vector<PageMiss> wanted;
  std::vector<std::shared_ptr<const void>> pins;  // pinned pages, by index of `wanted`
  std::vector<LargeValues::Part> large;
  std::atomic<std::size_t> next{0}, left{0};  // index that the next thread reads; number of parts that have not ended
  std::atomic<bool> refused{false};
  std::atomic<std::uint64_t> refused_bytes{0};

  void refuse(std::uint64_t bytes) {
    refused = true;
    refused_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }

  // Returns the pin of an index that was read; null if too many indexes are pinned: then the fetch counts as refused. Indexes are
  // not charged here, since they are counted as memory of tables.
  std::shared_ptr<const void> pin_of_index(const TableLookup& table, std::shared_ptr<const void> pin) {
    if (!table.is_crowded()) return pin;
    refuse(static_cast<const TableReader*>(pin.get())->memory_bytes());
    return nullptr;
  }

  // Keeps the pin of a page or index that was read. Drops the pin of a page that was read ahead, or for which there is no memory.
  void keep(std::size_t i, Result<std::shared_ptr<const void>> pin) {
    if (!pin.is_ok()) return;  // the command gets the error when it runs again
    if (wanted[i].ahead) return;
    if (is_index(wanted[i])) {
      pins[i] = pin_of_index(*static_cast<const TableLookup*>(wanted[i].table), std::move(pin).value());
    } else if (charge->add(pin->get())) {
      pins[i] = std::move(pin).value();
    } else {
      refuse(memory_of(pin->get()));
    }
  }

  void read(std::size_t i) {
    const PageMiss& miss = wanted[i];
    const auto* table = static_cast<const TableLookup*>(miss.table);
    if (miss.large_offset != 0) {
      const LargeValueRef ref{table, miss.large_offset, miss.large_stored_bytes, miss.large_length};
      auto part = large_values->read_part(*table, ref, miss.part_offset, miss.part_bytes);
      if (part.status().code() == Code::kOutOfMemory) refuse(miss.part_bytes);
      if (part.is_ok()) large[i] = std::move(part).value();
      return;
    }
    if (refused) return;
    ReadCounters counters;
    keep(i, table->fetch_page(miss.page, &counters));
    pages_read->fetch_add(counters.pages_read, std::memory_order_relaxed);
  }

  // Passes the pin of a page or an index to the MissSet.
  void give(const PageMiss& miss, std::shared_ptr<const void> pin) {
    if (is_index(miss)) {
      misses->keep_alive.push_back(std::move(pin));
    } else {
      misses->fetched.insert_or_assign({miss.table, miss.page}, std::move(pin));
    }
  }

  void hand_over() {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (pins[i]) give(wanted[i], std::move(pins[i]));
      if (large[i].value == nullptr) continue;
      misses->large.push_back({wanted[i].table, wanted[i].large_offset, large[i].offset, std::move(large[i].value)});
    }
    if (!refused) return;
    misses->refused = true;
    misses->refused_bytes = refused_bytes + charge->bytes.load(std::memory_order_relaxed);
    for (const MissSet::LargeValue& have : misses->large) misses->refused_bytes += have.value->size();
  }

  void end_part() {
    if (left.fetch_sub(1) != 1) return;
    hand_over();
    done();
  }
};

namespace {

// Most bytes that one fetch decompresses on its caller's event loop: about a millisecond of work. Evicted pages are freed only
// after the pass, so this also limits the memory of one pass.
constexpr std::uint64_t kAtOnceBytes = 1 << 20;

// Removes duplicates: several keys may need the same page or value, some of them only ahead of time (PageMiss::ahead).
void drop_duplicates(std::vector<PageMiss>* pages) {
  const auto place = [](const PageMiss& m) { return std::tie(m.table, m.large_offset, m.page, m.part_offset, m.part_bytes); };
  std::sort(pages->begin(), pages->end(),
            [&](const PageMiss& a, const PageMiss& b) { return std::tuple(place(a), a.ahead) < std::tuple(place(b), b.ahead); });
  pages->erase(
      std::unique(pages->begin(), pages->end(), [&](const PageMiss& a, const PageMiss& b) { return place(a) == place(b); }),
      pages->end());
}

std::uint64_t large_bytes(const std::vector<PageMiss>& pages) {
  std::uint64_t bytes = 0;
  for (const PageMiss& miss : pages) bytes += miss.part_bytes;
  return bytes;
}

}  // namespace

// The queue of one event loop. Each page is a part of its fetch.
class PageFetcher::Queue final : public FetchQueue {
 public:
  Queue(PageFetcher& fetcher, std::unique_ptr<ReadQueue> reads) : fetcher_(fetcher), reads_(std::move(reads)) {}
  ~Queue() override {
    while (reads_->unfinished() != 0) {
      reads_->submit();
      reads_->wait();
      reap(reads_->unfinished());
    }
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void poll() override {
    if (reads_->unfinished() == 0) return;
    reads_->submit();
    reap(kMostAtOnce);
  }
  [[nodiscard]] int descriptor() const override { return reads_->descriptor(); }

  /// Queues the read of a page. Returns false if a thread must do the read instead.
  bool add(const std::shared_ptr<PageFetch>& fetch, std::size_t i) {
    const PageMiss& miss = fetch->wanted[i];
    if (miss.large_offset != 0) return false;
    const TableLookup::PagePlace place = static_cast<const TableLookup*>(miss.table)->page_place(miss.page);
    if (place.file == nullptr) return false;
    const std::size_t tag = free_.empty() ? waiting_.size() : free_.back();
    if (!reads_->add(*place.file, place.offset, place.length, tag)) return false;
    if (free_.empty()) {
      waiting_.emplace_back();
    } else {
      free_.pop_back();
    }
    waiting_[tag] = {fetch, i};
    return true;
  }

 private:
  // Most pages processed in one call: each page is checked and decompressed on the loop's thread, while other clients wait.
  static constexpr std::size_t kMostAtOnce = 64;

  struct Waiting {
    std::shared_ptr<PageFetch> fetch;
    std::size_t index = 0;
  };

  void reap(std::size_t most) {
    reads_->reap(most, [this](std::uint64_t tag, std::optional<Bytes> block) {
      const Waiting ended = std::exchange(waiting_[tag], {});
      free_.push_back(tag);
      take(ended, block);
    });
  }

  void take(const Waiting& ended, std::optional<Bytes> block) {
    PageFetch& fetch = *ended.fetch;
    if (!block.has_value()) return fetcher_.read_again(ended.fetch, ended.index);
    const PageMiss& miss = fetch.wanted[ended.index];
    ReadCounters counters;
    if (!fetch.refused) {
      fetch.keep(ended.index, static_cast<const TableLookup*>(miss.table)->take_page(miss.page, *block, &counters));
    }
    fetch.pages_read->fetch_add(counters.pages_read, std::memory_order_relaxed);
    fetch.end_part();
  }

  PageFetcher& fetcher_;
  const std::unique_ptr<ReadQueue> reads_;
  std::vector<Waiting> waiting_;  // running reads; the index is the tag of the read
  std::vector<std::size_t> free_;
};

PageFetcher::PageFetcher(unsigned threads, std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge,
                         LargeValues& large)
    : account_(std::move(account)), on_charge_(std::move(on_charge)), large_(large) {
  if (threads != 0) pool_ = std::make_unique<ThreadPool>(threads, "ebbtide-fetch", 0);
}

// Runs the tasks that have not started: the pool would drop them, and their `done` would never be called.
PageFetcher::~PageFetcher() {
  while (pool_ != nullptr && pool_->run_one()) {
  }
}

std::unique_ptr<FetchQueue> PageFetcher::new_queue(FileSystem& fs) {
  if (pool_ == nullptr) return nullptr;  // everything is read on the calling thread
  auto reads = fs.new_read_queue();
  return reads == nullptr ? nullptr : std::make_unique<Queue>(*this, std::move(reads));
}

// Begins a fetch: pins pages that need no wait. Decompresses at most kAtOnceBytes of them, since the caller is an event loop. The
// other pages remain in `wanted`.
std::shared_ptr<PageFetch> PageFetcher::begin(MissSet* misses) {
  auto fetch = std::make_shared<PageFetch>();
  fetch->misses = misses;
  fetch->large_values = &large_;
  fetch->pages_read = &pages_read_;
  fetch->charge = std::make_shared<PageCharge>(account_, on_charge_);
  misses->keep_alive.push_back(fetch->charge);
  drop_duplicates(&misses->pages);
  ReadCounters counters;
  std::uint64_t unpacked = 0;
  for (const PageMiss& miss : misses->pages) {
    if (miss.large_offset == 0) {
      const auto* table = static_cast<const TableLookup*>(miss.table);
      const std::uint64_t read = counters.pages_read;
      const bool may_read = unpacked < kAtOnceBytes || pool_ == nullptr;
      if (auto pin = may_read ? table->fetch_page_if_cached(miss.page, &counters) : table->pin_page(miss.page)) {
        if (is_index(miss)) {
          if (auto kept = fetch->pin_of_index(*table, std::move(pin)); kept != nullptr) fetch->give(miss, std::move(kept));
          continue;
        }
        if (counters.pages_read != read) unpacked += static_cast<const CachedBlock*>(pin.get())->size;
        if (miss.ahead) continue;
        if (fetch->charge->add(pin.get())) {
          fetch->give(miss, std::move(pin));
        } else {
          fetch->refuse(memory_of(pin.get()));
        }
        continue;
      }
    }
    fetch->wanted.push_back(miss);
  }
  pages_read_.fetch_add(counters.pages_read, std::memory_order_relaxed);
  misses->pages.clear();
  if (const std::uint64_t bytes = large_bytes(fetch->wanted);
      bytes > account_->most()) {  // read no large value: the command needs all of them, and they would not fit together
    std::erase_if(fetch->wanted, [](const PageMiss& miss) { return miss.large_offset != 0; });
    fetch->refuse(bytes);
  }
  fetch->pins.resize(fetch->wanted.size());
  fetch->large.resize(fetch->wanted.size());
  return fetch;
}

bool PageFetcher::fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue) {
  const std::shared_ptr<PageFetch> fetch = begin(misses);
  std::vector<PageMiss>& wanted = fetch->wanted;
  if (wanted.empty()) {
    fetch->hand_over();
    return true;
  }
  if (pool_ == nullptr) {
    for (std::size_t i = 0; i < wanted.size(); ++i) fetch->read(i);
    fetch->hand_over();
    return true;
  }
  fetch->done = std::move(done);
  // Large values come last, since threads read them.
  const auto large = std::stable_partition(wanted.begin(), wanted.end(), [](const PageMiss& m) { return m.large_offset == 0; });
  const auto pages = static_cast<std::size_t>(large - wanted.begin());
  // This call counts as one part, so that the fetch does not end before all parts have begun.
  fetch->left.store(1 + pages, std::memory_order_relaxed);
  std::size_t queued = 0;
  if (queue != nullptr) {
    while (queued < pages && static_cast<Queue*>(queue)->add(fetch, queued)) ++queued;
  }
  fetch->left.fetch_sub(pages - queued);
  if (queued < wanted.size()) read_by_threads(fetch, queued);
  fetch->end_part();
  return false;
}

void PageFetcher::read_by_threads(const std::shared_ptr<PageFetch>& fetch, std::size_t first) {
  const std::size_t parts = std::min<std::size_t>(fetch->wanted.size() - first, pool_->width());
  fetch->next.store(first, std::memory_order_relaxed);
  fetch->left.fetch_add(parts, std::memory_order_relaxed);
  for (std::size_t part = 0; part < parts; ++part) {
    pool_->submit(Priority::kHigh, [fetch] {
      for (std::size_t i = fetch->next.fetch_add(1); i < fetch->wanted.size(); i = fetch->next.fetch_add(1)) fetch->read(i);
      fetch->end_part();
    });
  }
}

void PageFetcher::read_again(std::shared_ptr<PageFetch> fetch, std::size_t i) {
  pool_->submit(Priority::kHigh, [fetch = std::move(fetch), i] {
    fetch->read(i);
    fetch->end_part();
  });
}

}  // namespace ebbtide
