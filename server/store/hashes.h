// Hashes as values: lookups in a hash's bytes, and changes of a decoded hash.
#pragma once

#include <optional>
#include <vector>

#include <engine/seeded_hash.h>

#include "store/collection/compact.h"

namespace ebbtide {

/// Looks for a field in the bytes of a hash, without decoding them all. kCorruption if they are damaged before the field.
Result<std::optional<Bytes>> find_field(Bytes hash, Bytes field);

/// Returns a hash without the fields that have expired by `now`.
Hash without_expired(const Hash& hash, Millis now);

/// Changes a decoded hash. New fields come last, as in Redis. The bytes of fields and values must outlive the editor.
class HashEditor {
 public:
  /// `changes`: about how many calls follow. For many calls the editor makes an index of the fields; for few calls, each scans
  /// the fields.
  HashEditor(Hash hash, std::size_t changes);

  [[nodiscard]] std::optional<Bytes> find(Bytes field) const;
  /// Returns a field; null if it is absent. Valid until the next change.
  [[nodiscard]] const HashField* look_up(Bytes field) const;
  /// Sets the value and expiry (0: none) of a field. Returns true if the field is new.
  bool set(Bytes field, Bytes value, Millis expiry = 0);
  /// Removes a field. Returns false if it is absent.
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
  std::vector<bool> gone_;  // empty until the first removal; removed fields stay in fields_, so that index_ stays valid
  std::size_t removed_ = 0;
  const bool indexed_;
  BytesMap<std::size_t> index_;  // index of each field in fields_; used if indexed_
};

}  // namespace ebbtide
