#include "store/dump.h"

#include <array>

#include "store/rdb.h"

namespace ebbtide {
namespace {

constexpr std::size_t kFooterBytes = 10, kCrcBytes = 8;
static_assert(1 + 9 + kFooterBytes <= kDumpOverheadBytes);
constexpr char kStringType = 0;

/// Makes tables for eight bytes at once: tables[k][b] is the CRC of byte b followed by k zero bytes.
constexpr std::array<std::array<std::uint64_t, 256>, 8> make_crc_tables() {
  constexpr std::uint64_t kPolynomial = 0x95ac9329ac4bc9b5u;  // 0xad93d23594c935a9 with its bits reversed
  std::array<std::array<std::uint64_t, 256>, 8> tables{};
  for (std::size_t b = 0; b < 256; ++b) {
    std::uint64_t crc = b;
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) tables[k][b] = tables[0][tables[k - 1][b] & 0xff] ^ tables[k - 1][b] >> 8;
  }
  return tables;
}

constexpr auto kCrcTables = make_crc_tables();

/// Returns the string in a sound payload as it is stored, maybe compressed.
std::optional<RdbString> stored_string(Bytes payload) {
  RdbSource source(dump_body(payload));
  const auto type = source.take_byte();
  return type && *type == kStringType ? source.take_string() : std::nullopt;
}

}  // namespace

std::uint64_t crc64(Bytes data, std::uint64_t before) {
  std::uint64_t crc = before;
  std::size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    crc ^= load_little(data.substr(i, 8));
    std::uint64_t next = 0;
    for (unsigned k = 0; k < 8; ++k) next ^= kCrcTables[7 - k][crc >> (8 * k) & 0xff];
    crc = next;
  }
  for (; i < data.size(); ++i) crc = kCrcTables[0][(crc ^ static_cast<unsigned char>(data[i])) & 0xff] ^ crc >> 8;
  return crc;
}

Bytes dump_body(Bytes payload) { return payload.substr(0, payload.size() - kFooterBytes); }

std::string begin_dump(std::uint64_t length) {
  std::string out;
  out.reserve(length + kDumpOverheadBytes);
  out.push_back(kStringType);
  append_rdb_length(&out, length);
  return out;
}

void end_dump(std::string* payload, unsigned version) {
  append_little(payload, version, 2);
  append_little(payload, crc64(*payload), kCrcBytes);
}

std::string dump_string(Bytes value) {
  std::string out(1, kStringType);
  if (!append_rdb_integer(&out, value)) {
    out = begin_dump(value.size());
    out += value;
  }
  end_dump(&out);
  return out;
}

bool dump_is_sound(Bytes payload) {
  if (payload.size() < kFooterBytes) return false;
  const std::size_t body = payload.size() - kFooterBytes;
  if (load_little(payload.substr(body, 2)) > kNewestRdbVersion) return false;
  return load_little(payload.substr(body + 2)) == crc64(payload.substr(0, body + 2));
}

std::uint64_t loaded_bytes(Bytes payload) {
  const auto string = stored_string(payload);
  return string ? string->length : 0;
}

std::optional<std::string> load_string(Bytes payload) {
  const auto string = stored_string(payload);
  return string ? unpack(*string) : std::nullopt;
}

}  // namespace ebbtide
