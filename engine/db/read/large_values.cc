#include "db/read/large_values.h"

#include <unordered_map>

#include <engine/charged_value.h>

#include "base/mutex.h"

namespace ebbtide {
namespace {
constexpr auto kKind = MemoryAccount::Kind::kLargeValues;
}

struct LargeValues::State {
  explicit State(std::shared_ptr<MemoryAccount> a) : account(std::move(a)) {}
  const std::shared_ptr<MemoryAccount> account;
  Mutex mutex;
  std::unordered_map<const std::string*, std::weak_ptr<const std::string>> held GUARDED_BY(mutex);
};

// A value that readers hold, and its charge. The readers' pointers own this object.
struct LargeValues::Held {
  Held(std::shared_ptr<State> s, SharedValue v) : state(std::move(s)), value(std::move(v)) {}
  ~Held() {
    MutexLock lock(state->mutex);
    // Erases the value from the list of held values, unless another thread has begun to hold it.
    if (auto it = state->held.find(value.get()); it != state->held.end() && it->second.expired()) state->held.erase(it);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const std::shared_ptr<State> state;
  const SharedValue value;  // freed last: until then no other value can have the same address
};

// A part of a value for one reader, and its charge.
struct LargeValues::ChargedPart {
  ChargedPart(std::shared_ptr<MemoryAccount> a, std::uint64_t length) : account(std::move(a)), bytes(length, '\0') {}
  ~ChargedPart() { account->release(kKind, bytes.size()); }
  ChargedPart(const ChargedPart&) = delete;
  ChargedPart& operator=(const ChargedPart&) = delete;

  const std::shared_ptr<MemoryAccount> account;
  std::string bytes;
};

LargeValues::LargeValues(std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge)
    : state_(std::make_shared<State>(std::move(account))), on_charge_(std::move(on_charge)) {}

Status LargeValues::charge(std::uint64_t bytes) {
  if (!state_->account->try_charge(kKind, bytes)) return refused_charge(*state_->account, bytes);
  on_charge_();
  return Status::ok();
}

Result<SharedValue> LargeValues::read(const TableLookup& table, const LargeValueRef& ref) {
  if (auto resident = table.large_if_resident(ref); resident != nullptr) return hold(std::move(resident), false);
  TRY(charge(ref.length));
  auto value = table.read_large(ref);
  if (!value.is_ok()) {
    state_->account->release(kKind, ref.length);
    return value.status();
  }
  return hold(std::move(value).value(), true);
}

Result<LargeValues::Part> LargeValues::read_part(const TableLookup& table, const LargeValueRef& ref, std::uint64_t offset,
                                                 std::uint64_t length) {
  if (offset == 0 && length == ref.length) {
    TRY_ASSIGN(whole, read(table, ref));
    return Part{0, std::move(whole)};
  }
  if (auto resident = table.large_if_resident(ref); resident != nullptr) return Part{0, hold(std::move(resident), false)};
  TRY(charge(length));
  const auto part = std::make_shared<ChargedPart>(state_->account, length);
  TRY(table.copy_large(ref, offset, part->bytes));
  return Part{offset, {part, &part->bytes}};
}

// Returns a pointer that holds the value and its charge. `charged`: the caller has already charged the value. If two threads read
// the same value at the same time, it is charged once in the end.
SharedValue LargeValues::hold(SharedValue value, bool charged) {
  const std::string* const bytes = value.get();
  MemoryCharge charge;
  if (charged) charge.took(*state_->account, kKind, bytes->size());
  MutexLock lock(state_->mutex);
  std::weak_ptr<const std::string>& slot = state_->held[bytes];
  if (SharedValue held = slot.lock(); held != nullptr) return held;
  if (!charged) {
    state_->account->charge(kKind, bytes->size());
    charge.took(*state_->account, kKind, bytes->size());
  }
  SharedValue held = charged_value(SharedValue(std::make_shared<Held>(state_, std::move(value)), bytes), &charge);
  slot = held;
  return held;
}

}  // namespace ebbtide
