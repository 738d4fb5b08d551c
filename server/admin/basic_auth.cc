#include "admin/basic_auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

namespace ebbtide {
namespace {

constexpr std::string_view kScheme = "basic ";

/// Returns the SHA-256 of a text: comparing digests takes the same time for texts of any length.
std::array<unsigned char, SHA256_DIGEST_LENGTH> digest(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> out{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

}  // namespace

std::string basic_credentials(std::string_view user, std::string_view password) {
  const std::string plain = std::string(user) + ":" + std::string(password);
  std::string out((plain.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL adds a zero byte
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(plain.data()), static_cast<int>(plain.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

bool has_credentials(std::string_view header, std::string_view credentials) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  if (header.size() < kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), header.begin(), [&](char b, char a) { return same(a, b); })) {
    return false;
  }
  header.remove_prefix(kScheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  const auto given = digest(header), wanted = digest(credentials);
  return CRYPTO_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace ebbtide
