// Memory that is charged to the budget before it is allocated, and large values that own their charge.
//
//   MemoryCharge charge;
//   if (!db->try_charge(MemoryAccount::Kind::kCommands, n)) return refused_charge(db->memory(), n);
//   charge.took(db->memory(), MemoryAccount::Kind::kCommands, n);
//   std::string bytes = ...;                                       // n bytes
//   SharedValue value = charged_value(std::move(bytes), &charge);  // from here on the value owns the charge
//
// A charged value is counted once, from before its allocation until its last owner (batch, log, memtable or reply) has released
// it. A memtable that takes the value changes the charge to kMemTables (keep_charge) and does not count the value again.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <engine/memory_account.h>
#include <engine/status.h>
#include <engine/write_batch.h>

namespace ebbtide {

/// Bytes charged to an account under one kind; the destructor releases them. For one thread at a time. The account must outlive
/// the charge.
class MemoryCharge {
 public:
  using Kind = MemoryAccount::Kind;

  MemoryCharge() = default;
  ~MemoryCharge() { release(); }
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(other.account_), kind_(other.kind_), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    if (this == &other) return *this;
    release();
    account_ = other.account_;
    kind_ = other.kind_;
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;

  /// Adds `bytes` that the caller has charged to `account` under `kind`; this object will release them. All calls on one object
  /// must name the same account and kind.
  void took(MemoryAccount& account, Kind kind, std::uint64_t bytes) {
    account_ = &account;
    kind_ = kind;
    bytes_ += bytes;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Moves `bytes`, or all bytes if there are fewer, to a new charge and returns it.
  [[nodiscard]] MemoryCharge split(std::uint64_t bytes) {
    MemoryCharge part;
    part.account_ = account_;
    part.kind_ = kind_;
    part.bytes_ = bytes < bytes_ ? bytes : bytes_;
    bytes_ -= part.bytes_;
    return part;
  }
  /// Adds the bytes of `other`, which has the same account and kind, to this charge.
  void join(MemoryCharge&& other) {
    if (other.bytes_ == 0) return;
    took(*other.account_, other.kind_, std::exchange(other.bytes_, 0));
  }
  void release() {
    if (bytes_ != 0) account_->release(kind_, std::exchange(bytes_, 0));
  }
  /// Returns the charged bytes and forgets the charge: the caller must release them.
  [[nodiscard]] std::uint64_t give_up() { return std::exchange(bytes_, 0); }
  [[nodiscard]] MemoryAccount* account() const { return account_; }
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  MemoryAccount* account_ = nullptr;
  Kind kind_{};
  std::uint64_t bytes_ = 0;
};

/// Returns `value` as a shared value that owns value.size() bytes of `charge`. The last owner of the result releases them. Since
/// it may outlive the Db, a shared_ptr must own the account (it does in a Db). If `charge` is null or empty, the result has no
/// charge.
SharedValue charged_value(std::string value, MemoryCharge* charge);
/// Like the function above, for a value that is shared already: the result keeps `value` alive. `value` must not have a charge
/// yet.
SharedValue charged_value(SharedValue value, MemoryCharge* charge);

/// Returns true if `value` has a charge.
bool is_charged(const SharedValue& value);
/// Moves the charge of `value` to the kind `kind`. Returns false if `value` has no charge.
bool keep_charge(const SharedValue& value, MemoryAccount::Kind kind);

/// Returns the error kOutOfMemory for a charge of `bytes` that `account` has refused. The message contains `bytes` and the
/// budget. If `bytes` can never fit, the message names the setting to raise.
Status refused_charge(const MemoryAccount& account, std::uint64_t bytes);

}  // namespace ebbtide
