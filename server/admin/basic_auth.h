// HTTP's basic authentication (RFC 7617).
#pragma once

#include <string>
#include <string_view>

namespace ebbtide {

/// Returns the credentials of an Authorization header: the Base64 form of "user:password".
[[nodiscard]] std::string basic_credentials(std::string_view user, std::string_view password);

/// Returns true if an Authorization header has these credentials. The time taken does not reveal how many of their bytes are
/// right.
[[nodiscard]] bool has_credentials(std::string_view header, std::string_view credentials);

}  // namespace ebbtide
