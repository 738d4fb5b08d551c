// Writes keys, which may contain any bytes, as text for people or for JSON.
#pragma once

#include <string>
#include <string_view>

#include <engine/bytes.h>

namespace ebbtide {

/// Returns the bytes in double quotes. Printable ASCII stays as it is; a quote and a backslash get a backslash before them. Any
/// other byte becomes `escape` and two lower-case hex digits. `escape` is "\x" for people, and "\u00" for JSON: a JSON reader
/// then gets one character per byte.
[[nodiscard]] std::string quote(Bytes bytes, std::string_view escape);

}  // namespace ebbtide
