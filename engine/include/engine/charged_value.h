// Memory that is charged to the budget before it is allocated, and large values that carry their charge with them.
//
//   MemoryCharge charge;
//   if (!db->try_charge(MemoryAccount::Kind::kCommands, n)) return refused_charge(db->memory(), n);
//   charge.took(db->memory(), MemoryAccount::Kind::kCommands, n);
//   std::string bytes = ...;                                       // n bytes
//   SharedValue value = charged_value(std::move(bytes), &charge);  // the charge is the value's now
//
// Such a value is counted once, from before its allocation until its last owner has released it: batch, log, memtable, reply.
// A memtable that takes it in moves the charge to its own kind (keep_charge) and does not count the value itself.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <engine/memory_account.h>
#include <engine/status.h>
#include <engine/write_batch.h>

namespace ebbtide {

/// Bytes of one kind that are taken from an account, given back when this ends. One thread at a time. The account outlives it.
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

  /// `bytes` of `kind` were taken from `account` and are this one's from here on. One account and one kind for each charge.
  void took(MemoryAccount& account, Kind kind, std::uint64_t bytes) {
    account_ = &account;
    kind_ = kind;
    bytes_ += bytes;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// A charge of `bytes`, or of all there are if there are fewer, which this one has no more.
  [[nodiscard]] MemoryCharge split(std::uint64_t bytes) {
    MemoryCharge part;
    part.account_ = account_;
    part.kind_ = kind_;
    part.bytes_ = bytes < bytes_ ? bytes : bytes_;
    bytes_ -= part.bytes_;
    return part;
  }
  /// Adds what `other` has, of the same account and kind, to this one.
  void join(MemoryCharge&& other) {
    if (other.bytes_ == 0) return;
    took(*other.account_, other.kind_, std::exchange(other.bytes_, 0));
  }
  void release() {
    if (bytes_ != 0) account_->release(kind_, std::exchange(bytes_, 0));
  }
  /// The caller releases them from here on.
  [[nodiscard]] std::uint64_t give_up() { return std::exchange(bytes_, 0); }
  [[nodiscard]] MemoryAccount* account() const { return account_; }
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  MemoryAccount* account_ = nullptr;
  Kind kind_{};
  std::uint64_t bytes_ = 0;
};

/// `value` with as much of `charge` as it has bytes. That part is released with the last owner of the value, which may be after
/// the Db has been closed: a shared_ptr has to own the account, as a Db's does. Without a charge the value carries none.
SharedValue charged_value(std::string value, MemoryCharge* charge);
/// The same for bytes that are there: `value` is kept alive, and must not carry a charge itself.
SharedValue charged_value(SharedValue value, MemoryCharge* charge);

/// True if `value` carries a charge.
bool is_charged(const SharedValue& value);
/// The same. The charge is of `kind` from here on.
bool keep_charge(const SharedValue& value, MemoryAccount::Kind kind);

/// kOutOfMemory for a charge of `bytes` that `account` has refused. Names both sizes, and what to do if they never fit.
Status refused_charge(const MemoryAccount& account, std::uint64_t bytes);

}  // namespace ebbtide
