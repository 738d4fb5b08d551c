#include "table/metadata.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/invariant.h"
#include "base/oldest.h"
#include "table/metadata_sections.h"

namespace ebbtide {
namespace {

constexpr std::size_t kHeaderBytes = 32;

void append_header(FileNum file, FileNum data_file, std::string* out) {
  put_u32(out, kTableMetadataMagic);
  put_u32(out, kTableVersion);
  put_u64(out, file);
  put_u64(out, data_file);
  put_u64(out, block_checksum(*out, file, 0));
}

// Checks the format version of a data file or a metadata file.
Status check_version(std::uint32_t version, const std::string& path) {
  if (kOldestTableVersion <= version && version <= kTableVersion) return Status::ok();
  return Status::unsupported(path + ": table format version " + std::to_string(version) + "; this program reads versions up to " +
                             std::to_string(kTableVersion));
}

}  // namespace

void PageMeta::add(const Entry& e) {
  if (entries == 0) {
    min_seq = max_seq = e.seq;
    flags |= kPagePlainOnly | kPageAllFirst | kPageAllExpire;
  }
  ++entries;
  min_seq = std::min(min_seq, e.seq);
  max_seq = std::max(max_seq, e.seq);
  if (!e.is_plain()) flags &= ~kPagePlainOnly;
  if (!e.first) flags &= ~kPageAllFirst;
  if (e.debt != 0) flags |= kPageHasDebts;
  if (e.is_large()) flags |= kPageHasLarge;
  if (e.expiry == 0) {
    flags &= ~kPageAllExpire;
  } else {
    min_expiry = older(min_expiry, e.expiry);
    max_expiry = std::max(max_expiry, e.expiry);
  }
  if (e.is_tombstone()) {
    flags |= kPageHasTombstones;
  } else if (e.delete_key == kNoStamp) {
    flags |= kPageHasUnstamped;
  } else {
    min_delete_key = std::min(min_delete_key, e.delete_key);
    max_delete_key = std::max(max_delete_key, e.delete_key);
  }
}

void append_permutation(std::uint32_t pages, const std::vector<std::uint8_t>& order, std::string* out) {
  const std::uint32_t bits = permutation_bits(pages);
  if (bits == 0) return;
  std::uint32_t word = 0, filled = 0;
  for (const std::uint8_t page : order) {
    word |= std::uint32_t{page} << filled;
    for (filled += bits; filled >= 8; filled -= 8, word >>= 8) put_u8(out, static_cast<std::uint8_t>(word));
  }
  if (filled > 0) put_u8(out, static_cast<std::uint8_t>(word));
}

void unpack_permutation(Bytes packed, std::uint32_t pages, std::uint64_t entries, std::vector<std::uint8_t>* order) {
  const std::uint32_t bits = permutation_bits(pages);
  order->assign(entries, 0);
  if (bits == 0) return;
  DEBUG_ASSERT(packed.size() >= permutation_bytes(pages, entries));
  std::uint32_t word = 0, filled = 0;
  std::size_t at = 0;
  for (std::uint8_t& page : *order) {
    while (filled < bits) {
      word |= std::uint32_t{static_cast<unsigned char>(packed[at++])} << filled;
      filled += 8;
    }
    page = static_cast<std::uint8_t>(word & ((1u << bits) - 1));
    word >>= bits;
    filled -= bits;
  }
}

std::string encode_data_header(std::uint32_t version, FileNum data_file, std::uint32_t unit, std::uint64_t* checksum) {
  std::string payload, block;
  put_u32(&payload, kTableDataMagic);
  put_u32(&payload, version);
  put_u64(&payload, data_file);
  put_u32(&payload, unit);
  put_u32(&payload, 0);
  *checksum = append_block(&block, payload, Compression::kNone, BlockKind::kFileHeader, data_header_bytes(unit), data_file, 0);
  return block;
}

Status check_data_header(Bytes block, std::uint32_t version, FileNum data_file, std::uint32_t unit, const std::string& path) {
  const BlockPlace place{&path, data_file, 0};
  TRY_ASSIGN(checked, check_block(block, BlockKind::kFileHeader, place));
  Bytes in = checked.payload;
  std::uint32_t magic = 0, its_version = 0, its_unit = 0;
  std::uint64_t file = 0;
  if (!get_u32(&in, &magic) || !get_u32(&in, &its_version) || magic != kTableDataMagic)
    return place.corruption("not a data file of a table");
  TRY(check_version(its_version, path));
  if (!get_u64(&in, &file) || !get_u32(&in, &its_unit) || its_version != version || file != data_file || its_unit != unit) {
    return place.corruption("header does not match the metadata file");
  }
  return Status::ok();
}

std::uint64_t TableMetadata::tile_entries(std::size_t tile) const {
  std::uint64_t sum = 0;
  for (std::uint32_t p = 0; p < tiles[tile].pages; ++p) sum += pages[tiles[tile].first_page + p].entries;
  return sum;
}

std::vector<FileExtent> join_extents(std::vector<FileExtent> extents) {
  std::sort(extents.begin(), extents.end(), [](const FileExtent& a, const FileExtent& b) { return a.offset < b.offset; });
  std::vector<FileExtent> joined;
  for (const FileExtent& extent : extents) {
    if (!joined.empty() && joined.back().offset + joined.back().length == extent.offset) {
      joined.back().length += extent.length;
    } else {
      joined.push_back(extent);
    }
  }
  return joined;
}

std::vector<FileExtent> TableMetadata::dead_extents() const {
  std::vector<FileExtent> dead = holes;
  for (const PageMeta& page : pages) {
    if (page.dropped() || page.replaced()) dead.push_back({page.offset, page.length});
  }
  return join_extents(std::move(dead));
}

bool TableMetadata::has_drops() const {
  return !holes.empty() ||
         std::any_of(pages.begin(), pages.end(), [](const PageMeta& page) { return page.dropped() || page.replaced(); });
}

bool TableMetadata::names_can_be_renewed() const {
  constexpr std::uint8_t kBoth = kTileStale | kTileContinues;
  return !tiles.empty() && range_tombstones.empty() &&
         std::none_of(tiles.begin(), tiles.end(), [](const TileMeta& tile) { return (tile.flags & kBoth) == kBoth; });
}

std::uint64_t TableMetadata::sum_checksums() const {
  std::uint64_t sum = 0;
  encode_data_header(data_version, data_file, unit, &sum);
  sum += large_checksum;
  for (const PageMeta& page : pages) {
    if (!page.dropped() && !page.replaced()) sum += page.checksum;
  }
  return sum;
}

std::string TableMetadata::encode(FileNum metadata_file, std::uint64_t* metadata_checksum) {
  std::string out;
  append_header(metadata_file, data_file, &out);
  SectionWriter writer(metadata_file, &out);
  // Replaced pages come first, since the page table says where they are. Leaves come before the top, which points to them.
  if (!replaced.empty()) {
    writer.begin(SectionType::kReplacedPages, 0);
    append_replaced_pages(this, metadata_file, &out);
    writer.end();
  }
  writer.begin(SectionType::kProperties, 0);
  append_properties(*this, &out);
  writer.end();
  writer.begin(SectionType::kPages, 0);
  append_page_table(*this, &out);
  writer.end();
  std::vector<FenceLeaf> leaves;
  writer.begin(SectionType::kFenceLeaves, 0);
  append_fence_leaves(*this, metadata_file, &out, &leaves);
  writer.end();
  writer.begin(SectionType::kFenceTop, 0);
  append_fence_top(*this, leaves, &out);
  writer.end();
  writer.add(SectionType::kPermutations, 0, permutations);
  for (std::size_t i = 0; i < filter_slices.size(); ++i) {
    writer.add(SectionType::kFilter, static_cast<std::uint32_t>(i), filter_slices[i]);
  }
  for (std::size_t i = 0; i < tombstone_filter_slices.size(); ++i) {
    writer.add(SectionType::kTombstoneFilter, static_cast<std::uint32_t>(i), tombstone_filter_slices[i]);
  }
  writer.begin(SectionType::kRangeTombstones, 0);
  append_range_tombstones(*this, &out);
  writer.end();
  if (!holes.empty()) {
    writer.begin(SectionType::kHoles, 0);
    append_holes(*this, &out);
    writer.end();
  }
  if (stats.points_at != kNoPoints) {
    writer.begin_optional(SectionType::kPoints);
    append_points(*this, &out);
    writer.end();
  }
  writer.finish();
  *metadata_checksum = block_checksum(out, metadata_file, 0);
  return out;
}

Result<TableMetadata> TableMetadata::decode(Bytes file, FileNum metadata_file, const std::string& path) {
  const BlockPlace start{&path, metadata_file, 0};
  Bytes header = file.substr(0, kHeaderBytes);
  std::uint32_t magic = 0, version = 0;
  std::uint64_t number = 0, checksum = 0;
  TableMetadata m;
  if (file.size() < kHeaderBytes) return start.corruption("metadata file is too short");
  if (!get_u32(&header, &magic) || !get_u32(&header, &version) || !get_u64(&header, &number) || !get_u64(&header, &m.data_file) ||
      !get_u64(&header, &checksum) || magic != kTableMetadataMagic ||
      checksum != block_checksum(file.substr(0, kHeaderBytes - 8), metadata_file, 0)) {
    return start.corruption("header of the metadata file is damaged");
  }
  TRY(check_version(version, path));
  if (number != metadata_file)
    return start.corruption("this is the content of metadata file " + std::to_string(number) + " (copied or renamed?)");
  TRY_ASSIGN(sections, SectionReader::open(file, kHeaderBytes, version, metadata_file, path));
  TRY(decode_properties(sections, version, &m));
  TRY(decode_page_table(sections, &m));
  TRY(decode_fences(sections, &m));
  TRY(decode_filters(sections, &m));
  TRY(decode_permutations(sections, &m));
  TRY(decode_range_tombstones(sections, &m));
  TRY(decode_holes(sections, &m));
  TRY(decode_points(sections, &m));
  TRY(check_whole(sections, m));
  return m;
}

}  // namespace ebbtide
