#include "db/page_fetcher.h"

#include <atomic>

#include "table/table_reader.h"

namespace ebbtide {
namespace {

// What the parts of one fetch share. The last part to finish moves the results into the set and calls back.
struct Fetch {
  MissSet* misses;
  std::function<void()> done;
  std::vector<PageMiss> wanted;
  std::vector<std::shared_ptr<const void>> pins;  // by index of `wanted`
  std::vector<std::shared_ptr<const std::string>> large;
  std::atomic<std::size_t> next{0}, left{0};
};

void read_one(Fetch& fetch, std::size_t i) {
  const PageMiss& miss = fetch.wanted[i];
  const auto* table = static_cast<const TableReader*>(miss.table);
  if (miss.large_offset != 0) {
    auto value = table->read_large({table, miss.large_offset, miss.large_stored_bytes, miss.large_length});
    if (value.is_ok()) fetch.large[i] = std::move(value).value();
  } else {
    auto pin = table->fetch_page(miss.page);
    if (pin.is_ok()) fetch.pins[i] = std::move(pin).value();
  }
}

void finish(Fetch& fetch) {
  for (std::size_t i = 0; i < fetch.wanted.size(); ++i) {
    if (fetch.pins[i]) fetch.misses->keep_alive.push_back(std::move(fetch.pins[i]));
    if (fetch.large[i]) {
      fetch.misses->large.push_back({fetch.wanted[i].table, fetch.wanted[i].large_offset, std::move(fetch.large[i])});
    }
  }
}

}  // namespace

PageFetcher::PageFetcher(unsigned threads) {
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
  for (const PageMiss& miss : misses->pages) {
    if (miss.large_offset == 0) {
      const auto* table = static_cast<const TableReader*>(miss.table);
      if (auto pin = table->fetch_page_if_cached(miss.page)) {
        misses->keep_alive.push_back(std::move(pin));
        continue;
      }
    }
    fetch->wanted.push_back(miss);
  }
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
