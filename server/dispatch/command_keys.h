// Collects the keys of a command as engine keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <engine/status.h>
#include <engine/types.h>

#include "dispatch/spec.h"
#include "resp/args.h"

namespace ebbtide {

/// Returns the position of the key after the key at `position`. A loop over the keys begins at spec.first and ends once the
/// position exceeds `last`, the result of last_key(). If spec.first is 0, the command has no keys.
inline int next_key(const KeySpec& spec, int position, int last) {
  if (spec.has_store) return position < last ? last : last + 1;
  return spec.count_at == 0 ? position + spec.step : std::max(position, spec.count_at) + 1;
}
/// Returns the position of the last key; never a position after the last argument. A key count that is not a number, or exceeds
/// the number of arguments after it, is taken as 0.
int last_key(const KeySpec& spec, std::span<const Bytes> arguments);
/// Returns the key count in argument spec.count_at; 0 if it is invalid (last_key()). Requires spec.count_at != 0.
int counted_keys(const KeySpec& spec, std::span<const Bytes> arguments);

/// Returns the position of the key after the last option STORE (SORT), or STORE or STOREDIST (GEORADIUS). Returns 0 if the option
/// is missing, and for other commands.
int stored_key(const KeySpec& spec, std::span<const Bytes> arguments);
/// Returns the first option by which SORT reads keys that are not among its arguments: "GET", or "BY" with a pattern that has a
/// *. Returns "" if SORT has no such option.
Bytes pattern_option(const CommandSpec& spec, std::span<const Bytes> arguments);
/// Returns true if SORT stores a result that depends on keys that are not among its arguments. On its loop, such a SORT holds all
/// key locks: no key may change between its reads and its commit.
bool stores_from_patterns(const CommandSpec& spec, std::span<const Bytes> arguments);
/// Returns true if a command with the flag kWrite writes nothing with these arguments.
inline bool only_reads(const CommandSpec& spec, std::span<const Bytes> arguments) {
  return spec.keys.has_store && stored_key(spec.keys, arguments) == 0;
}

/// Appends the keys to `keys` as engine keys with hashes, in the order of the arguments. Keys that need escapes are escaped into
/// strings of `escaped`, of which the first `*escaped_used` are in use. A deque's strings keep their addresses when it grows.
/// Fails if a key is too long.
Status collect_keys(const KeySpec& spec, const Args& args, std::vector<LookupKey>* keys, std::deque<std::string>* escaped,
                    std::size_t* escaped_used);

/// Checks key lengths without escaping the keys. Fails like collect_keys() if a key is too long even without escapes.
Status check_key_lengths(const KeySpec& spec, const Args& args);

/// Returns the access (KeySpec::Access) to the key at `position` among the arguments. The access may depend on the command's
/// options.
std::uint16_t key_access(const CommandSpec& spec, std::span<const Bytes> arguments, int position);

/// Returns the user key of an engine key. Returns the engine key itself if it is not made from a user key.
std::string user_key(Bytes engine_key);

/// Returns the database to which COPY or MOVE writes its last key. Returns `selected` for other commands, and if the arguments
/// name no database.
DatabaseId target_database(const CommandSpec& spec, const Args& args, DatabaseId selected);

}  // namespace ebbtide
