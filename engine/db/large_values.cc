#include "db/large_values.h"

#include <unordered_map>

#include "base/mutex.h"

namespace ebbtide {
namespace {
constexpr auto kKind = MemoryAccount::Kind::kLargeValues;
}

struct LargeValues::State {
  explicit State(std::shared_ptr<MemoryAccount> a) : account(std::move(a)) {}
  const std::shared_ptr<MemoryAccount> account;
  Mutex mutex;
  std::unordered_map<const std::string*, std::weak_ptr<Charged>> held GUARDED_BY(mutex);
};

// A value and its charge. What readers are given shares the ownership of this, not of the value.
struct LargeValues::Charged {
  Charged(std::shared_ptr<State> s, SharedValue v) : state(std::move(s)), value(std::move(v)) {}
  ~Charged() {
    state->account->release(kKind, value->size());
    MutexLock lock(state->mutex);
    // Somebody may have met the value in its table meanwhile, and hold it anew.
    if (auto it = state->held.find(value.get()); it != state->held.end() && it->second.expired()) state->held.erase(it);
  }
  Charged(const Charged&) = delete;
  Charged& operator=(const Charged&) = delete;

  const std::shared_ptr<State> state;
  const SharedValue value;  // the last to go: until then nothing else can have its address
};

LargeValues::LargeValues(std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge)
    : state_(std::make_shared<State>(std::move(account))), on_charge_(std::move(on_charge)) {}

Result<SharedValue> LargeValues::read(const TableReader& table, const LargeValueRef& ref) {
  if (auto resident = table.large_if_resident(ref); resident != nullptr) return hold(std::move(resident), false);
  if (!state_->account->try_charge(kKind, ref.length)) {
    return Status::out_of_memory("storage.memory_budget has no room for a value of " + std::to_string(ref.length) + " bytes");
  }
  on_charge_();
  auto value = table.read_large(ref);
  if (!value.is_ok()) {
    state_->account->release(kKind, ref.length);
    return value.status();
  }
  return hold(std::move(value).value(), true);
}

// `charged`: for this call already. Two who read the same value at once end with one charge.
SharedValue LargeValues::hold(SharedValue value, bool charged) {
  const std::string* const bytes = value.get();
  std::shared_ptr<Charged> held;
  bool fresh = false;
  {
    MutexLock lock(state_->mutex);
    std::weak_ptr<Charged>& slot = state_->held[bytes];
    held = slot.lock();
    if (held == nullptr) {
      fresh = true;
      held = std::make_shared<Charged>(state_, std::move(value));
      slot = held;
    }
  }
  if (fresh && !charged) state_->account->charge(kKind, bytes->size());
  if (!fresh && charged) state_->account->release(kKind, bytes->size());
  return {std::move(held), bytes};
}

}  // namespace ebbtide
