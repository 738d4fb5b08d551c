#include "dispatch/command_keys.h"

#include <algorithm>
#include <limits>

#include <engine/read_view.h>

#include "dispatch/arg_cursor.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {

Status collect_keys(const KeySpec& spec, const Args& args, std::vector<LookupKey>* keys, std::deque<std::string>* escaped,
                    std::size_t* escaped_used) {
  const int argc = static_cast<int>(args.size());
  const int last = std::min(spec.last_of(argc), argc - 1);
  for (int i = spec.first; i != 0 && i <= last; i += spec.step) {
    const Bytes user_key = args[static_cast<std::size_t>(i)];
    Bytes key = user_key;
    if (needs_escape(key)) [[unlikely]] {
      if (*escaped_used == escaped->size()) escaped->emplace_back();
      key = escape_key(key, &(*escaped)[(*escaped_used)++]);
    }
    if (key.size() > kMaxKeyBytes) [[unlikely]] {
      return reply_error("ERR a key of " + std::to_string(user_key.size()) +
                         " bytes is too long: " + std::to_string(kMaxKeyBytes) + " bytes are allowed, zero bytes counting twice");
    }
    keys->push_back({key, hash_key(key)});
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
