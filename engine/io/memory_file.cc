#include "io/memory_file.h"

#include <algorithm>

#include "base/invariant.h"

namespace ebbtide {

namespace {

constexpr std::uint64_t kSector = MemoryFile::kSectorBytes;

std::uint64_t sectors_of(std::uint64_t bytes) { return (bytes + kSector - 1) / kSector; }

/// Returns the bytes of one sector of `image`, a copy of the content; zeros after its end.
std::string sector_of(Bytes image, std::uint64_t sector) {
  std::string bytes(kSector, '\0');
  const std::uint64_t start = sector * kSector;
  if (start < image.size()) image.substr(start, kSector).copy(bytes.data(), kSector);
  return bytes;
}

}  // namespace

std::uint64_t MemoryFile::appendable(std::uint64_t length, std::uint64_t free_bytes) const {
  // If the last sector is allocated, bytes that fit into it need no further allocation.
  const std::uint64_t used_of_last = size() % kSector;
  const bool last_is_ours = used_of_last != 0 && sectors_[size() / kSector].allocated;
  const std::uint64_t in_last = last_is_ours ? kSector - used_of_last : 0;
  if (length <= in_last) return length;
  const std::uint64_t fresh = free_bytes / kSector * kSector;
  // If the file ends with a hole inside a sector, that sector is allocated first, and has room only for the bytes after the hole.
  const std::uint64_t lost = used_of_last != 0 && !last_is_ours ? std::min(fresh, used_of_last) : 0;
  return std::min(length, in_last + fresh - lost);
}

/// Marks the sectors as written, and as allocated or freed.
void MemoryFile::touch(std::uint64_t first, std::uint64_t end, bool allocate) {
  if (first >= end) return;
  if (end > sectors_.size()) sectors_.resize(end);
  for (std::uint64_t i = first; i < end; ++i) {
    Sector& sector = sectors_[i];
    sector.dirty = true;
    if (sector.allocated == allocate) continue;
    sector.allocated = allocate;
    allocated_sectors_ += allocate ? 1 : std::uint64_t{0} - 1;
  }
  if (dirty_first_ == dirty_end_) {
    dirty_first_ = first;
    dirty_end_ = end;
  } else {
    dirty_first_ = std::min(dirty_first_, first);
    dirty_end_ = std::max(dirty_end_, end);
  }
}

void MemoryFile::append(Bytes data) {
  const std::uint64_t from = size();
  data_.append(data);
  touch(from / kSector, data.empty() ? 0 : sectors_of(size()), true);
}

void MemoryFile::truncate(std::uint64_t size) {
  const std::uint64_t before = data_.size();
  data_.resize(size);
  if (size < before) {
    touch(sectors_of(size), sectors_of(before), false);
    if (size % kSector != 0 && sectors_[size / kSector].allocated) touch(size / kSector, size / kSector + 1, true);
  } else if (size > before) {
    touch(sectors_of(before), sectors_of(size), false);
  }
}

void MemoryFile::punch(std::uint64_t offset, std::uint64_t length) {
  if (offset >= size()) return;
  const std::uint64_t end = std::min(size(), length > size() - offset ? size() : offset + length);
  std::fill(data_.begin() + static_cast<std::ptrdiff_t>(offset), data_.begin() + static_cast<std::ptrdiff_t>(end), '\0');
  // A sector that is only partly in the range stays allocated.
  const std::uint64_t whole_first = sectors_of(offset);
  const std::uint64_t whole_end = end == size() ? sectors_of(end) : end / kSector;
  if (offset % kSector != 0 && sectors_[offset / kSector].allocated) touch(offset / kSector, offset / kSector + 1, true);
  if (end != size() && end % kSector != 0 && sectors_[end / kSector].allocated) touch(end / kSector, end / kSector + 1, true);
  touch(whole_first, whole_end, false);
}

void MemoryFile::sync() {
  durable_.resize(data_.size());
  for (std::uint64_t i = dirty_first_; i < dirty_end_; ++i) {
    Sector& sector = sectors_[i];
    if (!sector.dirty) continue;
    sector.dirty = false;
    sector.durable = sector.allocated;
    const std::uint64_t start = i * kSector;
    if (start < data_.size()) {
      const std::size_t length = static_cast<std::size_t>(std::min<std::uint64_t>(kSector, data_.size() - start));
      durable_.replace(start, length, data_, start, length);
    }
  }
  sectors_.resize(sectors_of(data_.size()));
  dirty_first_ = dirty_end_ = 0;
}

MemoryFile MemoryFile::synced(std::string bytes, std::vector<Sector> sectors) {
  MemoryFile file;
  sectors.resize(sectors_of(bytes.size()));
  for (Sector& sector : sectors) {
    sector.dirty = false;
    sector.durable = sector.allocated;
    if (sector.allocated) ++file.allocated_sectors_;
  }
  file.durable_ = bytes;
  file.data_ = std::move(bytes);
  file.sectors_ = std::move(sectors);
  return file;
}

MemoryFile MemoryFile::volatile_copy() const { return synced(data_, sectors_); }

MemoryFile MemoryFile::durable_copy() const {
  std::vector<Sector> sectors = sectors_;
  for (Sector& sector : sectors) sector.allocated = sector.durable;
  return synced(durable_, std::move(sectors));
}

MemoryFile MemoryFile::torn_copy(Random& random) const {
  const std::uint64_t low = std::min(data_.size(), durable_.size());
  const std::uint64_t high = std::max(data_.size(), durable_.size());
  const std::uint64_t size = random.one_in(3)   ? data_.size()
                             : random.one_in(2) ? durable_.size()
                                                : low + random.uniform(high - low + 1);
  // Each crash chooses the probability with which a sector is kept, so that some crashes keep few sectors and others most.
  const std::uint64_t kept_of_8 = random.uniform(9);
  std::string bytes = durable_;
  bytes.resize(sectors_.size() * kSector);
  std::vector<Sector> sectors = sectors_;
  for (std::uint64_t i = 0; i < sectors.size(); ++i) {
    Sector& sector = sectors[i];
    if (!sector.dirty) {
      sector.allocated = sector.durable;
      continue;
    }
    if (random.one_in(8)) {
      tear_sector(random, i, &bytes);
      sector.allocated = sector.allocated || sector.durable;
    } else if (random.uniform(8) < kept_of_8) {
      bytes.replace(i * kSector, kSector, sector_of(data_, i));
    } else {
      sector.allocated = sector.durable;
    }
  }
  bytes.resize(size);
  return synced(std::move(bytes), std::move(sectors));
}

/// Writes a mix of a sector's old and new bytes: new bytes then old bytes, old bytes then new bytes, or eight of each in turn.
void MemoryFile::tear_sector(Random& random, std::uint64_t sector, std::string* bytes) const {
  const std::string fresh = sector_of(data_, sector);
  const std::uint64_t start = sector * kSector;
  const std::uint64_t cut = random.uniform(kSector + 1);
  switch (random.uniform(3)) {
    case 0:
      bytes->replace(start, cut, fresh, 0, cut);
      break;
    case 1:
      bytes->replace(start + cut, kSector - cut, fresh, cut, kSector - cut);
      break;
    default:
      for (std::uint64_t at = 0; at < kSector; at += 8) {
        if (random.one_in(2)) bytes->replace(start + at, 8, fresh, at, 8);
      }
  }
}

}  // namespace ebbtide
