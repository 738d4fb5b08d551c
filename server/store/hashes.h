// Hashes as values: lookups in a hash's bytes, and changes of a decoded hash.
#pragma once

#include <optional>
#include <vector>

#include <engine/seeded_hash.h>

#include "store/collection/compact.h"

namespace ebbtide {

/// Looks for a field in the bytes of a hash, without decoding them. kCorruption if they are damaged up to the field.
Result<std::optional<Bytes>> find_field(Bytes hash, Bytes field);

/// Returns a hash without the fields that have expired by `now`.
Hash without_expired(const Hash& hash, Millis now);

/// Changes a decoded hash. New fields come last, as in Redis. Views of fields and values must outlive it.
class HashEditor {
 public:
  /// `changes`: about how many calls follow. For many calls the editor makes an index of the fields; for few, each call scans
  /// them.
  HashEditor(Hash hash, std::size_t changes);

  [[nodiscard]] std::optional<Bytes> find(Bytes field) const;
  /// Returns a field; null if there is none. Valid until the next change.
  [[nodiscard]] const HashField* look_up(Bytes field) const;
  /// Gives a field a value and an expiry (0: none). Returns true if the field is new.
  bool set(Bytes field, Bytes value, Millis expiry = 0);
  /// Returns false if there is no such field.
  bool remove(Bytes field);
  /// Returns the number of fields.
  [[nodiscard]] std::size_t size() const { return fields_.size() - removed_; }
  /// Returns the changed hash. Must be the last call.
  [[nodiscard]] Hash take();

 private:
  static constexpr std::size_t kFewChanges = 4;
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  [[nodiscard]] std::size_t place_of(Bytes field) const;

  Hash fields_;
  std::vector<bool> gone_;  // empty until the first removal; places stay, so that the index stays right
  std::size_t removed_ = 0;
  const bool indexed_;
  BytesMap<std::size_t> index_;  // place of each field in fields_; used if indexed_
};

}  // namespace ebbtide
