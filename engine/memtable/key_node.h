// Nodes in a memtable's arena: one for each key, with a chain of versions, newest first.
//
// Key nodes and versions are written completely before a release store publishes them. After that only their links change. Nodes
// and versions are never removed.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/arena.h"
#include "base/coding.h"
#include "base/entry.h"

namespace ebbtide {

/// One version of a key. In memory, optional fields (expiry, delete debt), which most versions do not have, follow this struct,
/// and then the value or a pointer to the value.
struct VersionNode {
  static constexpr std::uint8_t kFirst = 1, kHasExpiry = 2, kHasDebt = 4, kShared = 8, kElement = 16;

  std::atomic<VersionNode*> older;
  DeleteKey delete_key;
  std::uint64_t seq_kind_flags;  // seq << 8 | kind << 6 | flags
  std::uint32_t value_bytes;     // length of the value; 0 if it is shared

  static constexpr std::size_t kFieldsOffset = 28;  // optional fields begin in the struct's padding

  [[nodiscard]] SeqNum seq() const { return seq_kind_flags >> 8; }
  [[nodiscard]] std::uint8_t flags() const { return seq_kind_flags & 0x3f; }

  /// Returns the bytes that a version of `entry` takes, a multiple of 8.
  static std::size_t bytes_for(const Entry& entry, bool shared) {
    const std::size_t value = shared ? sizeof(void*) : entry.value.size();
    return (kFieldsOffset + (entry.expiry != 0 ? 8 : 0) + (entry.debt != 0 ? 8 : 0) + value + 7) & ~std::size_t{7};
  }
  /// Writes a version into `memory`, which has bytes_for() bytes. If `shared` is not null, it holds the value and must live as
  /// long as the arena.
  static VersionNode* create(char* memory, const Entry& entry, const std::shared_ptr<const std::string>* shared) {
    auto* node = new (memory) VersionNode;
    node->older.store(nullptr, std::memory_order_relaxed);
    node->delete_key = entry.delete_key;
    const unsigned flags = (entry.first ? kFirst : 0U) | (entry.expiry != 0 ? kHasExpiry : 0U) |
                           (entry.debt != 0 ? kHasDebt : 0U) | (shared != nullptr ? kShared : 0U) |
                           (entry.element ? kElement : 0U);
    node->seq_kind_flags = entry.seq << 8 | static_cast<std::uint64_t>(entry.kind) << 6 | flags;
    node->value_bytes = shared != nullptr ? 0 : static_cast<std::uint32_t>(entry.value.size());
    char* p = memory + kFieldsOffset;
    if (entry.expiry != 0) p = put(p, entry.expiry);
    if (entry.debt != 0) p = put(p, entry.debt);
    if (shared != nullptr) {
      put(p, shared);
    } else if (!entry.value.empty()) {
      std::memcpy(p, entry.value.data(), entry.value.size());
    }
    return node;
  }
  /// Sets all fields of `out` except the key.
  void read(Entry* out) const {
    const char* p = reinterpret_cast<const char*>(this) + kFieldsOffset;
    out->seq = seq();
    out->kind = static_cast<EntryKind>((seq_kind_flags >> 6) & 3);
    out->first = (flags() & kFirst) != 0;
    out->element = (flags() & kElement) != 0;
    out->delete_key = delete_key;
    out->expiry = (flags() & kHasExpiry) != 0 ? take<Millis>(&p) : 0;
    out->debt = (flags() & kHasDebt) != 0 ? take<Millis>(&p) : 0;
    out->shared = nullptr;
    out->large = {};
    if ((flags() & kShared) != 0) {
      out->shared = take<const std::shared_ptr<const std::string>*>(&p);
      out->value = Bytes(**out->shared);
    } else {
      out->value = Bytes(p, value_bytes);
    }
  }

 private:
  template <typename T>
  static char* put(char* p, T value) {
    std::memcpy(p, &value, sizeof(T));
    return p + sizeof(T);
  }
  template <typename T>
  static T take(const char** p) {
    T value;
    std::memcpy(&value, *p, sizeof(T));
    *p += sizeof(T);
    return value;
  }
};

/// A key and the head of its chain of versions. The key's bytes and its first version follow in the same allocation. So a lookup
/// of a key that was written only once reads adjacent cache lines.
struct KeyNode {
  std::atomic<VersionNode*> newest;
  std::uint32_t key_bytes;

  [[nodiscard]] Bytes key() const { return {reinterpret_cast<const char*>(this) + kKeyOffset, key_bytes}; }
  [[nodiscard]] bool has(Bytes other) const {
    return key_bytes == other.size() && same_bytes(key().data(), other.data(), other.size());
  }
  static std::size_t bytes_for(std::size_t key_bytes) { return (kKeyOffset + key_bytes + 7) & ~std::size_t{7}; }
  static KeyNode* create(char* memory, Bytes key) {
    auto* node = new (memory) KeyNode;
    node->newest.store(nullptr, std::memory_order_relaxed);
    node->key_bytes = static_cast<std::uint32_t>(key.size());
    if (!key.empty()) std::memcpy(memory + kKeyOffset, key.data(), key.size());
    return node;
  }
  static constexpr std::size_t kKeyOffset = 12;  // the key begins in the struct's padding
};

}  // namespace ebbtide
