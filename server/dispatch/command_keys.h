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

/// Returns the position of the key after the key at `position`. The positions of a command's keys are spec.first, then next_key()
/// of each, up to `last`, which last_key() returns. If spec.first is 0, the command has no keys.
inline int next_key(const KeySpec& spec, int position, int last) {
  if (spec.has_store) return position < last ? last : last + 1;
  return spec.count_at == 0 ? position + spec.step : std::max(position, spec.count_at) + 1;
}
/// Returns the position of the last key, at most that of the last argument. A key count that is not a number, or exceeds the
/// number of arguments that follow it, counts as 0.
int last_key(const KeySpec& spec, std::span<const Bytes> arguments);
/// Returns the number of keys according to argument spec.count_at; 0 if that is invalid. Requires spec.count_at != 0.
int counted_keys(const KeySpec& spec, std::span<const Bytes> arguments);

/// Returns the position of the key after the last option STORE of SORT, or STORE or STOREDIST of GEORADIUS; 0 if there is none,
/// and for other commands.
int stored_key(const KeySpec& spec, std::span<const Bytes> arguments);
/// Returns the first option by which SORT reads keys that are not among its arguments: "BY", if its pattern has a *, or "GET". ""
/// if there is none.
Bytes pattern_option(const CommandSpec& spec, std::span<const Bytes> arguments);
/// Returns true if SORT stores a result that depends on keys that are not among its arguments. While it runs on its loop it then
/// holds all key locks, since no key may change between its reads and its commit.
bool stores_from_patterns(const CommandSpec& spec, std::span<const Bytes> arguments);
/// Returns true if a command with the flag kWrite writes nothing with these arguments.
inline bool only_reads(const CommandSpec& spec, std::span<const Bytes> arguments) {
  return spec.keys.has_store && stored_key(spec.keys, arguments) == 0;
}

/// Appends the keys as engine keys with hashes, in the order of the arguments. Keys that must be escaped are put into `escaped`,
/// whose strings stay in place while it grows; `escaped_used` of them are in use. Fails if a key is too long.
Status collect_keys(const KeySpec& spec, const Args& args, std::vector<LookupKey>* keys, std::deque<std::string>* escaped,
                    std::size_t* escaped_used);

/// Fails like collect_keys() if a key is too long even without escapes.
Status check_key_lengths(const KeySpec& spec, const Args& args);

/// Returns the access (KeySpec::Access) to the key at `position` among the arguments. It may depend on the command's options.
std::uint16_t key_access(const CommandSpec& spec, std::span<const Bytes> arguments, int position);

/// Returns the user key of an engine key; the engine key itself if it is not a user's key.
std::string user_key(Bytes engine_key);

/// Returns the database that COPY or MOVE writes its last key to; `selected` if the arguments name none, or for other commands.
DatabaseId target_database(const CommandSpec& spec, const Args& args, DatabaseId selected);

}  // namespace ebbtide
