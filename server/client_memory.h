// Charges the memory of connections, and of users, to the engine's memory budget.
//
// Clients can connect before the database is open. Until then this object only adds up their memory; attach() then charges the
// sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <engine/charged_value.h>
#include <engine/memory_account.h>

#include "machine/machine.h"
#include "net/settings.h"

namespace ebbtide {

/// Charges the memory of all clients. Thread-safe. Callers charge in large steps, so a mutex is fast enough.
class ClientMemoryAccount final : public ClientMemory {
 public:
  /// Charges the sums so far, and all later charges, to `account`. `budget`: the size of its budget, in bytes.
  void attach(MemoryAccount* account, std::uint64_t budget) {
    std::lock_guard lock(mutex_);
    account_ = account;
    budget_ = budget;
    account_->charge(MemoryAccount::Kind::kConnections, buffers_ + users_);
    account_->charge(MemoryAccount::Kind::kLargeValues, values_);
  }
  /// Stops charging. Must be called before the account is destroyed.
  void detach() {
    std::lock_guard lock(mutex_);
    if (account_ == nullptr) return;
    account_->release(MemoryAccount::Kind::kConnections, buffers_ + users_);
    account_->release(MemoryAccount::Kind::kLargeValues, values_);
    account_ = nullptr;
  }
  void set_budget(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    budget_ = bytes;
  }

  /// Sets the memory of the users and their rules to `bytes`, and charges the difference. A lack of room closes no client.
  void charge_users(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    if (account_ != nullptr && bytes > users_) account_->charge(MemoryAccount::Kind::kConnections, bytes - users_);
    if (account_ != nullptr && bytes < users_) account_->release(MemoryAccount::Kind::kConnections, users_ - bytes);
    users_ = bytes;
  }
  /// Returns true if the budget has room for `bytes` more, or if the database is still being opened.
  [[nodiscard]] bool has_room(std::uint64_t bytes) const {
    std::lock_guard lock(mutex_);
    return account_ == nullptr || account_->room() >= bytes;
  }

  void charge_buffers(std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    buffers_ += bytes;
    if (account_ == nullptr) return;
    account_->charge(MemoryAccount::Kind::kConnections, bytes);
    if (account_->room() != 0) with_room_ = buffers_;
  }
  void release_buffers(std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    buffers_ -= bytes;
    with_room_ = std::min(with_room_, buffers_);
    if (account_ != nullptr) account_->release(MemoryAccount::Kind::kConnections, bytes);
  }
  bool try_charge_values(std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (account_ != nullptr && !account_->try_charge(MemoryAccount::Kind::kLargeValues, bytes)) return false;
    values_ += bytes;
    // Freeing a value on another thread releases its charge, but its memory is free only once this thread has collected it.
    static thread_local std::uint64_t received = 0;
    if ((received += bytes) >= kCollectBytes) {
      received = 0;
      collect_freed_memory();
    }
    return true;
  }
  void charge_values(std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    values_ += bytes;
    if (account_ != nullptr) account_->charge(MemoryAccount::Kind::kLargeValues, bytes);
  }
  void release_values(std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    values_ -= bytes;
    if (account_ != nullptr) account_->release(MemoryAccount::Kind::kLargeValues, bytes);
  }
  std::shared_ptr<const std::string> own_value(std::shared_ptr<const std::string> value) override {
    std::lock_guard lock(mutex_);
    values_ -= value->size();
    if (account_ == nullptr) return value;  // no command keeps a value while the database is being opened
    MemoryCharge charge;
    charge.took(*account_, MemoryAccount::Kind::kLargeValues, value->size());
    return charged_value(std::move(value), &charge);
  }
  std::shared_ptr<const void> own_input(std::shared_ptr<const void> input, std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (account_ == nullptr) return input;
    auto owned = std::make_shared<OwnedInput>();
    owned->account = account_->shared_from_this();
    account_->charge(MemoryAccount::Kind::kConnections, bytes);
    owned->charge.took(*account_, MemoryAccount::Kind::kConnections, bytes);
    owned->input = std::move(input);
    return owned;
  }
  bool short_of_buffers() const override {
    std::lock_guard lock(mutex_);
    return is_short();
  }
  bool overdrawn() const override {
    std::lock_guard lock(mutex_);
    return is_short() && buffers_ > with_room_ + budget_ / kOverdrawnPart;
  }

 private:
  static constexpr std::uint64_t kCollectBytes = 1 << 20;  // receiving these bytes takes longer than collect_freed_memory()
  static constexpr std::uint64_t kOverdrawnPart = 32;  ///< overdrawn(): buffers have grown by 1 / kOverdrawnPart of the budget
  /// Buffers with less than 1 / kGoodPart of the budget are not the cause of its shortage, so no client is closed.
  static constexpr std::uint64_t kGoodPart = 8;

  struct OwnedInput {  // members are destroyed in reverse order: first the input, then its charge
    std::shared_ptr<MemoryAccount> account;
    MemoryCharge charge;
    std::shared_ptr<const void> input;
  };

  [[nodiscard]] bool is_short() const {  // the caller holds the mutex
    return account_ != nullptr && buffers_ > budget_ / kGoodPart && account_->room() == 0;
  }

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  MemoryAccount* account_ = nullptr;
  std::uint64_t budget_ = 0;
  std::uint64_t buffers_ = 0, values_ = 0, users_ = 0;
  std::uint64_t with_room_ = 0;  // value of buffers_ when the budget last had room
};

}  // namespace ebbtide
