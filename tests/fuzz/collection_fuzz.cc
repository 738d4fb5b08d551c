// Fuzzes the bytes of collections: any input is decoded or refused, and what was decoded is encoded to the same bytes.
#include "fuzz.h"
#include "store/collection/compact.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebbtide;
  const Bytes bytes(reinterpret_cast<const char*>(data), size);
  if (const auto hash = decode_hash(bytes); hash.is_ok()) {
    const bool needless_expiries = bytes[1] != 0 && !has_expiries(*hash);  // all are 0, and are not encoded
    FUZZ_CHECK(needless_expiries || encode(*hash) == bytes);
    FUZZ_CHECK(needless_expiries || encoded_bytes(*hash) == size);
  }
  if (const auto set = decode_set(bytes); set.is_ok()) FUZZ_CHECK(encode(CollectionType::kSet, *set) == bytes);
  if (const auto list = decode_list(bytes); list.is_ok()) FUZZ_CHECK(encode(CollectionType::kList, *list) == bytes);
  if (const auto members = decode_sorted_set(bytes); members.is_ok()) {
    bool negative_zero = false;  // is encoded as 0
    for (const ScoredMember& each : *members) negative_zero |= each.score == 0 && 1 / each.score < 0;
    FUZZ_CHECK(negative_zero || encode(*members) == bytes);
    FUZZ_CHECK(encoded_bytes(*members) == size);
  }
  const auto type = collection_type_of(bytes);
  FUZZ_CHECK(type.has_value() || !decode_list(bytes).is_ok());
  return 0;
}
