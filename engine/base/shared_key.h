// An immutable key whose copies share one buffer. A copy costs as much as a copy of a pointer.
//
// The bounds of a range tombstone may have a megabyte each. The tombstone is copied often: into the runs of a memtable's
// TombstoneSet, into their fragments, and into the parts of a merge.
#pragma once

#include <atomic>
#include <compare>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <engine/bytes.h>

namespace ebbtide {

/// The bytes never change; an assignment replaces them by other bytes. Has the size of a pointer. Thread safety is as for
/// std::string, even for objects that share their bytes.
class SharedKey {
 public:
  SharedKey() = default;
  // Implicit, so that a bound is written like a string.
  SharedKey(Bytes text) {  // NOLINT(google-explicit-constructor)
    if (text.empty()) return;
    block_ = new (::operator new(sizeof(Block) + text.size())) Block{{1}, static_cast<std::uint32_t>(text.size())};
    std::memcpy(reinterpret_cast<char*>(block_ + 1), text.data(), text.size());
  }
  SharedKey(const std::string& text) : SharedKey(Bytes(text)) {}  // NOLINT(google-explicit-constructor)
  SharedKey(const char* text) : SharedKey(Bytes(text)) {}         // NOLINT(google-explicit-constructor)
  SharedKey(const SharedKey& other) : block_(other.block_) {
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  SharedKey(SharedKey&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SharedKey& operator=(SharedKey other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SharedKey() {
    if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) ::operator delete(block_);
  }

  operator Bytes() const {  // NOLINT(google-explicit-constructor)
    return block_ == nullptr ? Bytes() : Bytes(reinterpret_cast<const char*>(block_ + 1), block_->size);
  }
  [[nodiscard]] bool empty() const { return block_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return block_ == nullptr ? 0 : block_->size; }
  /// Returns true if both keys share one buffer.
  [[nodiscard]] bool shares_with(const SharedKey& other) const { return block_ == other.block_; }
  /// Returns the bytes of memory that all copies share; 0 for an empty key.
  [[nodiscard]] std::size_t shared_bytes() const { return block_ == nullptr ? 0 : sizeof(Block) + block_->size; }

  friend bool operator==(const SharedKey& a, const SharedKey& b) { return a.block_ == b.block_ || Bytes(a) == Bytes(b); }
  friend std::strong_ordering operator<=>(const SharedKey& a, const SharedKey& b) {
    return a.block_ == b.block_ ? std::strong_ordering::equal : Bytes(a) <=> Bytes(b);
  }
  // Comparisons with other types of text. They are templates, so that a std::string is not converted to a SharedKey.
  template <std::convertible_to<Bytes> Text>
  friend bool operator==(const SharedKey& a, const Text& b) {
    return Bytes(a) == Bytes(b);
  }
  template <std::convertible_to<Bytes> Text>
  friend std::strong_ordering operator<=>(const SharedKey& a, const Text& b) {
    return Bytes(a) <=> Bytes(b);
  }

 private:
  struct Block {  // a header; the key's bytes follow it in memory
    std::atomic<std::uint32_t> references;
    std::uint32_t size;
  };

  Block* block_ = nullptr;
};

}  // namespace ebbtide
