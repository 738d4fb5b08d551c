// The text form of tickets, and the sums of a PurgeStatus.
#include <charconv>

#include <engine/purge.h>

namespace ebbtide {

const char* purge_place_name(PurgePlace place) {
  switch (place) {
    case PurgePlace::kMemTable:
      return "memtable";
    case PurgePlace::kTable:
      return "table";
    case PurgePlace::kLeaving:
      return "leaving";
    case PurgePlace::kLog:
      return "log";
    case PurgePlace::kManifest:
      return "manifest";
  }
  return "unknown";
}

std::string format_ticket(const PurgeTicket& ticket) {
  std::string text = "purge-" + std::to_string(ticket.born_by);
  if (ticket.tree) text += "-" + std::to_string(*ticket.tree);
  return text;
}

std::optional<PurgeTicket> parse_ticket(Bytes text) {
  constexpr Bytes kPrefix = "purge-";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  PurgeTicket ticket;
  const char* at = text.data() + kPrefix.size();
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(at, end, ticket.born_by);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    ticket.tree = 0;
    read = std::from_chars(read.ptr + 1, end, *ticket.tree);
  }
  // Each ticket has only one spelling, without leading zeros or further text.
  if (read.ec != std::errc() || read.ptr != end || text != format_ticket(ticket)) return std::nullopt;
  return ticket;
}

std::uint64_t PurgeStatus::files() const {
  std::uint64_t sum = 0;
  // The loop starts at 1, since a memtable is no file.
  for (std::size_t place = 1; place < kPurgePlaces; ++place) sum += left[place].files;
  return sum;
}

std::uint64_t PurgeStatus::bytes() const {
  std::uint64_t sum = 0;
  for (std::size_t place = 1; place < kPurgePlaces; ++place) sum += left[place].bytes;
  return sum;
}

}  // namespace ebbtide
