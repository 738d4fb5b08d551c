#include <engine/charged_value.h>

#include <atomic>
#include <memory>

namespace ebbtide {
namespace {

/// The deleter of a charged value. Holds the charge, and the owner of the bytes if the value does not own them itself.
struct ReleaseCharge {
  ReleaseCharge(MemoryCharge* charge, SharedValue o)
      : account(charge->account()->shared_from_this()),
        kind(std::make_shared<std::atomic<MemoryAccount::Kind>>(charge->kind())),
        bytes(charge->give_up()),
        owner(std::move(o)) {}

  std::shared_ptr<MemoryAccount> account;
  std::shared_ptr<std::atomic<MemoryAccount::Kind>> kind;
  std::uint64_t bytes = 0;
  SharedValue owner;

  // Releases owner and charge here, not in a destructor: a weak_ptr to the value keeps the deleter alive.
  void operator()(const std::string* value) {
    if (owner == nullptr) delete value;
    owner.reset();
    account->release(kind->load(std::memory_order_relaxed), bytes);
  }
};

}  // namespace

SharedValue charged_value(std::string value, MemoryCharge* charge) {
  auto owned = std::make_unique<const std::string>(std::move(value));
  MemoryCharge part = charge->split(owned->size());
  if (part.bytes() == 0) return owned;
  return {owned.release(), ReleaseCharge(&part, nullptr)};
}

SharedValue charged_value(SharedValue value, MemoryCharge* charge) {
  const std::string* const bytes = value.get();
  MemoryCharge part = charge->split(bytes->size());
  if (part.bytes() == 0) return value;
  return {bytes, ReleaseCharge(&part, std::move(value))};
}

Status refused_charge(const MemoryAccount& account, std::uint64_t bytes) {
  std::string text = std::to_string(bytes) + " bytes are needed at once; storage.memory_budget is " +
                     std::to_string(account.budget()) + " bytes";
  if (bytes > account.most()) {
    text += ", of which at most " + std::to_string(account.most()) + " can be used for that. Raise storage.memory_budget";
  } else {
    text += ", and too much of it is in use now";
  }
  return Status::out_of_memory(text, bytes);
}

bool is_charged(const SharedValue& value) { return std::get_deleter<ReleaseCharge>(value) != nullptr; }

bool keep_charge(const SharedValue& value, MemoryAccount::Kind kind) {
  const auto* release = std::get_deleter<ReleaseCharge>(value);
  if (release == nullptr) return false;
  const MemoryAccount::Kind before = release->kind->exchange(kind, std::memory_order_relaxed);
  if (before != kind) release->account->move(before, kind, release->bytes);
  return true;
}

}  // namespace ebbtide
