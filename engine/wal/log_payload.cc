#include "wal/log_payload.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace ebbtide {

void LogPayload::add(std::string bytes) {
  const std::uint64_t length = bytes.size();
  parts_.push_back({.begin = size_, .bytes = std::move(bytes), .file = nullptr, .offset = 0, .length = length});
  size_ += length;
}

void LogPayload::add(std::shared_ptr<const RandomAccessFile> file, std::uint64_t offset, std::uint64_t length) {
  parts_.push_back({.begin = size_, .bytes = {}, .file = std::move(file), .offset = offset, .length = length});
  size_ += length;
}

Status LogPayload::read(std::uint64_t offset, std::size_t length, char* out) const {
  ASSERT(offset <= size_ && length <= size_ - offset);
  auto part =
      std::upper_bound(parts_.begin(), parts_.end(), offset, [](std::uint64_t at, const Part& p) { return at < p.begin; });
  if (part != parts_.begin()) --part;
  for (; length != 0; ++part) {
    const std::uint64_t at = offset - part->begin;
    const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(length, part->length - at));
    if (part->file == nullptr) {
      std::copy_n(part->bytes.data() + at, here, out);
    } else if (here != 0) {
      TRY(part->file->read(part->offset + at, here, out));
    }
    offset += here;
    out += here;
    length -= here;
  }
  return Status::ok();
}

Result<std::string> LogPayload::to_string() && {
  if (parts_.size() == 1 && parts_.front().file == nullptr) return std::move(parts_.front().bytes);
  std::string out(static_cast<std::size_t>(size_), '\0');
  TRY(read(0, out.size(), out.data()));
  return out;
}

}  // namespace ebbtide
