#include "resp/disposal.h"

#include <atomic>
#include <utility>

namespace ebbtide {
namespace {

std::atomic<Disposer*> installed{nullptr};

}  // namespace

void set_disposer(Disposer* disposer) { installed.store(disposer, std::memory_order_release); }

void let_go(std::shared_ptr<const void> garbage, bool is_long) {
  if (!is_long || garbage == nullptr) return;
  if (Disposer* disposer = installed.load(std::memory_order_acquire); disposer != nullptr) disposer->dispose(std::move(garbage));
}

}  // namespace ebbtide
