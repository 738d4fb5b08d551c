// Translates a redis.conf into this server's YAML, for `ebbtide-server --from-redis-conf FILE`.
#pragma once

#include <string>

#include <engine/result.h>

namespace ebbtide {

/// Returns YAML with the same settings as `text`, a redis.conf; `file` is its name for messages. Each directive is translated, or
/// is in a comment with its line and a reason. The reason says that it has no effect here, is not supported, or has a value that
/// this server refuses. kInvalidArgument: a line has unbalanced quotes, or the settings contradict each other. A pure function.
Result<std::string> yaml_from_redis_conf(const std::string& text, const std::string& file);

}  // namespace ebbtide
