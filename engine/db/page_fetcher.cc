#include "db/page_fetcher.h"

#include <algorithm>
#include <atomic>
#include <tuple>

#include "cache/block_cache.h"
#include "table/table_reader.h"

namespace ebbtide {
namespace {

// The charge of the pages of one fetch: kept by the set, beside their pins.
struct PageCharge {
  explicit PageCharge(std::shared_ptr<MemoryAccount> a) : account(std::move(a)) {}
  ~PageCharge() { account->release(kKind, bytes.load(std::memory_order_relaxed)); }
  PageCharge(const PageCharge&) = delete;
  PageCharge& operator=(const PageCharge&) = delete;

  /// False if the budget has no room for the page.
  bool add(const void* page) {
    const std::uint64_t size = static_cast<const CachedBlock*>(page)->size;
    if (!account->try_charge(kKind, size)) return false;
    bytes.fetch_add(size, std::memory_order_relaxed);
    return true;
  }

  static constexpr auto kKind = MemoryAccount::Kind::kPages;
  const std::shared_ptr<MemoryAccount> account;
  std::atomic<std::uint64_t> bytes{0};
};

// What the parts of one fetch share. The last part to finish moves the results into the set and calls back.
struct Fetch {
  MissSet* misses;
  LargeValues* large_values;
  std::atomic<std::uint64_t>* pages_read;
  std::shared_ptr<PageCharge> charge;
  std::function<void()> done;
  std::vector<PageMiss> wanted;
  std::vector<std::shared_ptr<const void>> pins;  // by index of `wanted`
  std::vector<SharedValue> large;
  std::atomic<std::size_t> next{0}, left{0};
  std::atomic<bool> refused{false};
};

void read_one(Fetch& fetch, std::size_t i) {
  const PageMiss& miss = fetch.wanted[i];
  const auto* table = static_cast<const TableReader*>(miss.table);
  if (miss.large_offset != 0) {
    auto value = fetch.large_values->read(*table, {table, miss.large_offset, miss.large_stored_bytes, miss.large_length});
    if (value.status().code() == Code::kOutOfMemory) fetch.refused = true;
    if (value.is_ok()) fetch.large[i] = std::move(value).value();
    return;
  }
  if (fetch.refused) return;
  ReadCounters counters;
  auto pin = table->fetch_page(miss.page, &counters);
  fetch.pages_read->fetch_add(counters.pages_read, std::memory_order_relaxed);
  if (!pin.is_ok()) return;
  if (fetch.charge->add(pin->get())) {
    fetch.pins[i] = std::move(pin).value();
  } else {
    fetch.refused = true;
  }
}

void finish(Fetch& fetch) {
  for (std::size_t i = 0; i < fetch.wanted.size(); ++i) {
    if (fetch.pins[i]) fetch.misses->keep_alive.push_back(std::move(fetch.pins[i]));
    if (fetch.large[i]) {
      fetch.misses->large.push_back({fetch.wanted[i].table, fetch.wanted[i].large_offset, std::move(fetch.large[i])});
    }
  }
  if (fetch.refused) fetch.misses->refused = true;
}

// The same page or value may be wanted for many keys.
void drop_duplicates(std::vector<PageMiss>* pages) {
  const auto place = [](const PageMiss& m) { return std::tie(m.table, m.large_offset, m.page); };
  std::sort(pages->begin(), pages->end(), [&](const PageMiss& a, const PageMiss& b) { return place(a) < place(b); });
  pages->erase(
      std::unique(pages->begin(), pages->end(), [&](const PageMiss& a, const PageMiss& b) { return place(a) == place(b); }),
      pages->end());
}

}  // namespace

PageFetcher::PageFetcher(unsigned threads, std::shared_ptr<MemoryAccount> account, LargeValues& large)
    : account_(std::move(account)), large_(large) {
  if (threads != 0) pool_ = std::make_unique<ThreadPool>(threads, "ebbtide-fetch", 0);
}

// The pool drops what has not started, and nobody would call `done`.
PageFetcher::~PageFetcher() {
  while (pool_ != nullptr && pool_->run_one()) {
  }
}

bool PageFetcher::fetch(MissSet* misses, std::function<void()> done) {
  auto fetch = std::make_shared<Fetch>();
  fetch->misses = misses;
  fetch->large_values = &large_;
  fetch->pages_read = &pages_read_;
  fetch->charge = std::make_shared<PageCharge>(account_);
  misses->keep_alive.push_back(fetch->charge);
  drop_duplicates(&misses->pages);
  ReadCounters counters;
  for (const PageMiss& miss : misses->pages) {
    if (miss.large_offset == 0) {
      const auto* table = static_cast<const TableReader*>(miss.table);
      if (auto pin = table->fetch_page_if_cached(miss.page, &counters)) {
        if (fetch->charge->add(pin.get())) {
          misses->keep_alive.push_back(std::move(pin));
        } else {
          misses->refused = true;
        }
        continue;
      }
    }
    fetch->wanted.push_back(miss);
  }
  pages_read_.fetch_add(counters.pages_read, std::memory_order_relaxed);
  misses->pages.clear();
  if (fetch->wanted.empty()) return true;
  fetch->pins.resize(fetch->wanted.size());
  fetch->large.resize(fetch->wanted.size());
  if (pool_ == nullptr) {
    for (std::size_t i = 0; i < fetch->wanted.size(); ++i) read_one(*fetch, i);
    finish(*fetch);
    return true;
  }
  fetch->done = std::move(done);
  const std::size_t parts = std::min<std::size_t>(fetch->wanted.size(), pool_->width());
  fetch->left.store(parts, std::memory_order_relaxed);
  for (std::size_t part = 0; part < parts; ++part) {
    pool_->submit(Priority::kHigh, [fetch] {
      for (std::size_t i = fetch->next.fetch_add(1); i < fetch->wanted.size(); i = fetch->next.fetch_add(1)) read_one(*fetch, i);
      if (fetch->left.fetch_sub(1) == 1) {
        finish(*fetch);
        fetch->done();
      }
    });
  }
  return false;
}

}  // namespace ebbtide
