#include "dispatch/command_keys.h"

#include <algorithm>
#include <limits>

#include <engine/read_view.h>

#include "dispatch/arg_cursor.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Returns the access of SET to its key: the option GET also reads the old value. `first`: index of the first option.
std::uint16_t access_of_set(std::span<const Bytes> arguments, std::size_t first) {
  for (std::size_t i = first; i < arguments.size(); ++i) {
    if (equal_ignoring_case(arguments[i], "get")) return KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate;
  }
  return KeySpec::kOw | KeySpec::kUpdate;
}

/// Returns the access of BITFIELD to its key: if all operations are GETs, it only reads. `first`: index of the first operation.
/// An invalid operation is treated as a write.
std::uint16_t access_of_bitfield(std::span<const Bytes> arguments, std::size_t first) {
  for (std::size_t i = first; i < arguments.size();) {
    if (!equal_ignoring_case(arguments[i], "get") || i + 2 >= arguments.size()) {
      if (!equal_ignoring_case(arguments[i], "overflow") || i + 1 >= arguments.size()) {
        return KeySpec::kRw | KeySpec::kAccess | KeySpec::kUpdate;
      }
      i += 2;
    } else {
      i += 3;
    }
  }
  return KeySpec::kRo | KeySpec::kAccess;
}

/// Calls `visit(option, index of its value)` for each option of SORT that has one value, in order. Stops if a value is missing:
/// the command then fails anyway.
template <typename Visit>
void visit_sort_options(std::span<const Bytes> arguments, Visit visit) {
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const auto is = [word = arguments[i]](Bytes option) { return equal_ignoring_case(word, option); };
    if (is("limit")) {
      i += 2;
    } else if (is("by") || is("get") || is("store")) {
      if (++i < arguments.size()) visit(arguments[i - 1], i);
    }
  }
}

Status too_long_key(std::size_t bytes) {
  return reply_error("ERR a key of " + std::to_string(bytes) + " bytes is too long: " + std::to_string(kMaxKeyBytes) +
                     " bytes are allowed, zero bytes counting twice");
}

}  // namespace

int stored_key(const KeySpec& spec, std::span<const Bytes> arguments) {
  int position = 0;
  if (!spec.has_store) return position;
  if (spec.store_from != 0) {
    const auto from = static_cast<std::size_t>(spec.store_from);
    for (std::size_t i = from; i + 1 < arguments.size(); ++i) {
      if (!equal_ignoring_case(arguments[i], "store") && !equal_ignoring_case(arguments[i], "storedist")) continue;
      position = static_cast<int>(++i);
    }
    return position;
  }
  visit_sort_options(arguments, [&position](Bytes option, std::size_t at) {
    if (equal_ignoring_case(option, "store")) position = static_cast<int>(at);
  });
  return position;
}

Bytes pattern_option(const CommandSpec& spec, std::span<const Bytes> arguments) {
  Bytes first;
  if (spec.scope != KeyScope::kPatterns) return first;
  visit_sort_options(arguments, [&](Bytes option, std::size_t at) {
    if (!first.empty()) return;
    if (equal_ignoring_case(option, "get")) first = "GET";
    // As in Redis, a pattern ends at a zero byte.
    if (equal_ignoring_case(option, "by") && shown(arguments[at], Bytes::npos).find('*') != Bytes::npos) first = "BY";
  });
  return first;
}

bool stores_from_patterns(const CommandSpec& spec, std::span<const Bytes> arguments) {
  return spec.scope == KeyScope::kPatterns && stored_key(spec.keys, arguments) != 0 && !pattern_option(spec, arguments).empty();
}

int counted_keys(const KeySpec& spec, std::span<const Bytes> arguments) {
  const auto after = static_cast<std::int64_t>(arguments.size()) - spec.count_at - 1;
  const auto count = after > 0 ? parse_integer(arguments[static_cast<std::size_t>(spec.count_at)]) : std::nullopt;
  return count && *count > 0 && *count <= after ? static_cast<int>(*count) : 0;
}

int last_key(const KeySpec& spec, std::span<const Bytes> arguments) {
  const int argc = static_cast<int>(arguments.size());
  if (spec.count_at != 0) [[unlikely]]
    return spec.count_at + counted_keys(spec, arguments);
  if (spec.has_store) [[unlikely]]
    return std::max(spec.first, stored_key(spec, arguments));
  return std::min(spec.last_of(argc), argc - 1);
}

std::uint16_t key_access(const CommandSpec& spec, std::span<const Bytes> arguments, int position) {
  if (spec.name == "set") return access_of_set(arguments, 3);
  if (spec.name == "stamp.set") return access_of_set(arguments, 4);
  if (spec.name == "bitfield") return access_of_bitfield(arguments, 2);
  if (spec.keys.has_store && position != spec.keys.first) return KeySpec::kOw | KeySpec::kUpdate;
  const int argc = static_cast<int>(arguments.size());
  for (const KeySpec& part : spec.key_specs) {
    if (!part.keyword.empty()) continue;  // the key after an option (has_store)
    const int last = part.count_at == 0 ? part.last_of(argc) : argc - 1;
    if (position >= part.first && position <= last) return part.access;
  }
  return spec.keys.access;
}

Status collect_keys(const KeySpec& spec, const Args& args, std::vector<LookupKey>* keys, std::deque<std::string>* escaped,
                    std::size_t* escaped_used) {
  const int last = last_key(spec, args.list);
  for (int i = spec.first; i != 0 && i <= last; i = next_key(spec, i, last)) {
    const Bytes user_key = args[static_cast<std::size_t>(i)];
    Bytes key = user_key;
    if (needs_escape(key)) [[unlikely]] {
      if (*escaped_used == escaped->size()) escaped->emplace_back();
      key = escape_key(key, &(*escaped)[(*escaped_used)++]);
    }
    if (key.size() > kMaxKeyBytes) [[unlikely]]
      return too_long_key(user_key.size());
    keys->push_back({key, hash_key(key)});
  }
  return Status::ok();
}

Status check_key_lengths(const KeySpec& spec, const Args& args) {
  const int last = args.shared_list.empty() ? 0 : last_key(spec, args.list);  // arguments too long for a key are in shared_list
  for (int i = spec.first; i != 0 && i <= last; i = next_key(spec, i, last)) {
    const std::size_t bytes = args[static_cast<std::size_t>(i)].size();
    if (bytes > kMaxKeyBytes) return too_long_key(bytes);
  }
  return Status::ok();
}

std::string user_key(Bytes engine_key) {
  std::string buffer;
  const auto key = unescape_key(engine_key, &buffer);
  return std::string(key.is_ok() ? *key : engine_key);
}

DatabaseId target_database(const CommandSpec& spec, const Args& args, DatabaseId selected) {
  Bytes named;
  if (spec.name == "move") {
    named = args[2];
  } else if (spec.name == "copy") {
    for (ArgCursor cursor(args, 3); !cursor.done();) {
      if (!cursor.take_option("DB", &named)) cursor.take();
    }
  }
  const auto number = parse_integer(named);
  return number && *number >= 0 && *number < std::numeric_limits<std::int32_t>::max() ? static_cast<DatabaseId>(*number)
                                                                                      : selected;
}

}  // namespace ebbtide
