// Hashes, sets, sorted sets and lists in the form of DUMP's payloads (dump.h).
//
// DUMP writes one form of each type: a count, then the elements as strings, scores as f64. Redis converts the value to its own
// encoding. RESTORE reads all forms that Redis 7.4 reads:
//
//   1 list, 2 set, 4 hash                count, strings
//   3, 5 sorted set                      count, (string, score as text or f64)*
//   9 zipmap, 10 ziplist, 11 intset ...  the whole collection as one string in a packed form (packed.h)
//   14, 18 list                          count, parts of the list: ziplists, or listpacks and large elements
//   22, 24 hash                          24: soonest expiry u64; count, (expiry, field, value)*: DUMP writes 24 if fields expire
//   23, 25 hash                          25: soonest expiry u64; a listpack of fields, values and expiries in turns
//
// The expiry of a field is absolute, in ms, 0 for none; in type 24 it counts from the soonest, which is 1.
//
// A payload may come from any client, and its checksum is easily forged, so nothing in it is trusted. Beyond what Redis checks,
// elements must be different, scores must be numbers, and no bytes may follow the collection.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <engine/bytes.h>
#include <engine/result.h>

namespace ebbtide {

/// Returns the most bytes of the payload of a collection that takes `bytes` (collection/compact.h).
std::uint64_t most_dump_bytes(std::uint64_t bytes);
/// Returns the payload of a collection. kCorruption if its bytes are damaged.
Result<std::string> dump_collection(Bytes collection);

/// The types of payloads that RESTORE treats differently.
enum class DumpedType : std::uint8_t {
  kString,
  kCollection,
  kUnsupported,  ///< a stream, a function, or a value of a module
  kUnknown
};
/// Returns the type of a sound payload.
DumpedType dumped_type(Bytes payload);

/// Reserves memory: load_collection() calls it before it allocates `bytes`. An error ends the load.
using ReserveMemory = std::function<Status(std::uint64_t bytes)>;

/// Returns the bytes of the collection in a sound payload (collection/compact.h). Fails with Redis's error for a payload that is
/// not well-formed, and like `reserve`. If the collection is too large, fails like check_built_size(); the size in that error may
/// be that of a part. Memory up to kLargeValueBytes is not reserved, except for that of the result.
Result<std::string> load_collection(Bytes payload, const ReserveMemory& reserve);

}  // namespace ebbtide
