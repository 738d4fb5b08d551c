// Writes bytes as text for people and for JSON, since keys may have any bytes.
#pragma once

#include <string>
#include <string_view>

#include <engine/bytes.h>

namespace ebbtide {

/// Returns the bytes in double quotes. Printable ASCII stands for itself; a quote and a backslash get a backslash before them.
/// Any other byte becomes `escape` and two lower-case hex digits. `escape` is "\x" for people, and "\u00" for JSON, whose readers
/// then get each byte as a character.
[[nodiscard]] std::string quote(Bytes bytes, std::string_view escape);

}  // namespace ebbtide
