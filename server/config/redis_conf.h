// Translates a redis.conf into this server's YAML, for `ebbtide-server --from-redis-conf FILE`.
#pragma once

#include <string>

#include <engine/result.h>

namespace ebbtide {

/// Returns a YAML file whose settings have the same effect as those of `text`, a redis.conf; `file` is its name for messages.
/// Every directive is translated, or is in a comment with its line and the reason: it has no effect here, is not supported, or
/// has a value that this server refuses. kInvalidArgument: a line has unbalanced quotes, or the settings do not fit together. A
/// pure function.
Result<std::string> yaml_from_redis_conf(const std::string& text, const std::string& file);

}  // namespace ebbtide
