#include "table/metadata_sections.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/invariant.h"
#include "filter/bloom.h"

namespace ebbtide {
namespace {

constexpr std::size_t kDirectoryEntryBytes = 32;
constexpr std::size_t kFooterBytes = 32;
// Flag of a section in the directory: a reader that does not know the section's type may skip the section.
constexpr std::uint16_t kSectionOptional = 1;

// Two flags of a page that only the page table has: the lowest bits of its flags, below the flags of PageMeta.
constexpr std::uint32_t kHasDeleteKeys = 1, kHasExpiries = 2;
constexpr std::uint32_t kPageFieldBits = 2;

/// Maps differences of 32-bit numbers, modulo 2^32, to numbers that are small if the difference is near 0. unzigzag() is the
/// inverse.
std::uint32_t zigzag(std::uint32_t difference) { return difference << 1 ^ (0 - (difference >> 31)); }
std::uint32_t unzigzag(std::uint32_t number) { return number >> 1 ^ (0 - (number & 1)); }

/// Returns the section's name in engine/docs/formats.md, for messages.
std::string name_of(SectionType type) {
  switch (type) {
    case SectionType::kProperties:
      return "properties section";
    case SectionType::kPages:
      return "pages section";
    case SectionType::kFenceTop:
      return "fence top section";
    case SectionType::kFenceLeaves:
      return "fence leaves section";
    case SectionType::kFilter:
      return "filter section";
    case SectionType::kTombstoneFilter:
      return "tombstone filter section";
    case SectionType::kPermutations:
      return "permutations section";
    case SectionType::kRangeTombstones:
      return "range tombstones section";
    case SectionType::kReplacedPages:
      return "replaced pages section";
    case SectionType::kHoles:
      return "holes section";
    case SectionType::kPoints:
      return "points section";
  }
  return "section of type " + std::to_string(static_cast<unsigned>(type));
}

}  // namespace

void SectionWriter::begin(SectionType type, std::uint32_t index, bool optional) {
  begin_ = out_->size();
  ++count_;
  put_u16(&directory_, static_cast<std::uint16_t>(type));
  put_u16(&directory_, optional ? kSectionOptional : 0);
  put_u32(&directory_, index);
  put_u64(&directory_, begin_);
}

void SectionWriter::end() {
  const Bytes content = Bytes(*out_).substr(begin_);
  put_u64(&directory_, content.size());
  put_u64(&directory_, block_checksum(content, file_, begin_));
}

void SectionWriter::finish() {
  const std::uint64_t at = out_->size();
  out_->append(directory_);
  put_u64(out_, at);
  put_u32(out_, count_);
  put_u32(out_, kTableMetadataMagic);
  put_u32(out_, kTableVersion);
  put_u32(out_, 0);
  put_u64(out_, block_checksum(Bytes(*out_).substr(at), file_, at));
}

Result<SectionReader> SectionReader::open(Bytes file, std::uint64_t first, std::uint32_t file_version, FileNum number,
                                          const std::string& path) {
  SectionReader reader;
  reader.path_ = &path;
  reader.file_ = number;
  if (file.size() < first + kFooterBytes) return reader.place(first).corruption("metadata file is too short");
  const std::uint64_t footer_at = file.size() - kFooterBytes;
  Bytes footer = file.substr(footer_at);
  std::uint64_t directory_at = 0, checksum = 0;
  std::uint32_t count = 0, magic = 0, version = 0, zero = 0;
  get_u64(&footer, &directory_at);
  get_u32(&footer, &count);
  get_u32(&footer, &magic);
  get_u32(&footer, &version);
  get_u32(&footer, &zero);
  get_u64(&footer, &checksum);
  if (directory_at < first || directory_at > footer_at ||
      std::uint64_t{count} * kDirectoryEntryBytes != footer_at - directory_at || magic != kTableMetadataMagic ||
      version != file_version ||
      checksum != block_checksum(file.substr(directory_at, file.size() - 8 - directory_at), number, directory_at)) {
    return reader.place(footer_at).corruption("footer or section directory is damaged");
  }
  Bytes directory = file.substr(directory_at, footer_at - directory_at);
  std::uint64_t next = first;
  for (std::uint32_t i = 0; i < count; ++i) {
    Section section;
    std::uint16_t type = 0, flags = 0;
    std::uint64_t length = 0, sum = 0;
    get_u16(&directory, &type);
    get_u16(&directory, &flags);
    get_u32(&directory, &section.index);
    get_u64(&directory, &section.offset);
    get_u64(&directory, &length);
    get_u64(&directory, &sum);
    section.type = static_cast<SectionType>(type);
    if (section.offset != next || length > directory_at - next)
      return reader.place(section.offset).corruption("section does not follow the previous section, or is too long");
    section.content = file.substr(section.offset, length);
    next += length;
    if (block_checksum(section.content, number, section.offset) != sum) return reader.corruption(section, "checksum mismatch");
    if (type < 1 || type > static_cast<std::uint16_t>(SectionType::kPoints)) {
      if ((flags & kSectionOptional) != 0) continue;
      return Status::unsupported(path + ": section of unknown type " + std::to_string(type) + " at " +
                                 std::to_string(section.offset));
    }
    reader.sections_.push_back(section);
  }
  if (next != directory_at) return reader.place(next).corruption("bytes between the sections and their directory");
  return reader;
}

const SectionReader::Section* SectionReader::find(SectionType type, std::uint32_t index) const {
  for (const Section& section : sections_) {
    if (section.type == type && section.index == index) return &section;
  }
  return nullptr;
}

Result<SectionReader::Section> SectionReader::need(SectionType type) const {
  const Section* const section = find(type);
  if (section != nullptr) return *section;
  return place(0).corruption(name_of(type) + " is missing");
}

Status SectionReader::corruption(const Section& section, const std::string& what) const {
  return place(section.offset).corruption(name_of(section.type) + ": " + what);
}

// --- properties

void append_properties(const TableMetadata& m, std::string* out) {
  m.stats.encode(out);
  put_varint(out, m.data_bytes);
  put_u64(out, m.data_checksum);
  put_u64(out, m.large_checksum);
  put_varint(out, m.unit);
  put_varint(out, m.pages_per_tile);
  put_varint(out, m.page_size);
  put_varint(out, static_cast<unsigned>(m.compression));
  put_varint(out, static_cast<unsigned>(m.filter_kind));
  put_u64(out, std::bit_cast<std::uint64_t>(m.filter_bits_per_key));
  put_varint(out, m.filter_slices.size());
  put_varint(out, m.tombstone_filter_slices.size());
  put_varint(out, m.tiles.size());
  put_varint(out, m.pages.size());
  put_bytes(out, m.key_prefix);
  put_varint(out, m.data_version);
}

Status decode_properties(const SectionReader& sections, std::uint32_t version, TableMetadata* m) {
  TRY_ASSIGN(section, sections.need(SectionType::kProperties));
  Bytes in = section.content;
  auto stats = TableStats::decode(&in);
  if (!stats.is_ok()) return sections.corruption(section, std::string(stats.status().message()));
  m->stats = std::move(stats).value();
  std::uint32_t compression = 0, kind = 0;
  std::uint64_t bits = 0, slices = 0, tombstone_slices = 0, tiles = 0, pages = 0;
  if (!get_varint(&in, &m->data_bytes) || !get_u64(&in, &m->data_checksum) || !get_u64(&in, &m->large_checksum) ||
      !get_varint32(&in, &m->unit) || !get_varint32(&in, &m->pages_per_tile) || !get_varint32(&in, &m->page_size) ||
      !get_varint32(&in, &compression) || !get_varint32(&in, &kind) || !get_u64(&in, &bits) || !get_varint(&in, &slices) ||
      !get_varint(&in, &tombstone_slices) || !get_varint(&in, &tiles) || !get_varint(&in, &pages) ||
      !get_string(&in, &m->key_prefix)) {
    return sections.corruption(section, "malformed");
  }
  m->data_version = version;  // metadata of version 1 does not store data_version: both files then have version 1
  if (version > 1 && !get_varint32(&in, &m->data_version)) return sections.corruption(section, "malformed");
  if (!in.empty()) return sections.corruption(section, "malformed");
  m->filter_bits_per_key = std::bit_cast<double>(bits);
  if ((m->unit != kSmallUnit && m->unit != kPunchUnit) || m->pages_per_tile < 1 || m->pages_per_tile > 64 ||
      compression > static_cast<unsigned>(Compression::kZstd) || slices > 255 || tombstone_slices > 255 ||
      m->data_bytes < data_header_bytes(m->unit) || m->data_version < kOldestTableVersion || m->data_version > version) {
    return sections.corruption(section, "a value is out of range");
  }
  if (kind > static_cast<unsigned>(FilterKind::kCollectionsTwice)) {
    return Status::unsupported(
        std::string(sections.corruption(section, "filter of unknown kind " + std::to_string(kind)).message()));
  }
  // Each page takes at least a byte of the page table, and each tile at least one page. Larger counts are refused before memory
  // is allocated for them.
  TRY_ASSIGN(table, sections.need(SectionType::kPages));
  if (pages > table.content.size() || tiles > pages)
    return sections.corruption(section, "more pages than the page table has room for");
  m->compression = static_cast<Compression>(compression);
  m->filter_kind = static_cast<FilterKind>(kind);
  m->filter_slices.resize(slices);
  m->tombstone_filter_slices.resize(tombstone_slices);
  m->tiles.resize(tiles);
  m->pages.resize(pages);
  return Status::ok();
}

// --- page table

void append_page_table(const TableMetadata& m, std::string* out) {
  SeqNum base_seq = kMaxSeqNum;
  DeleteKey base_delete_key = kNoStamp;
  for (const PageMeta& page : m.pages) {
    if (page.entries > 0) base_seq = std::min(base_seq, page.min_seq);
    base_delete_key = std::min(base_delete_key, page.min_delete_key);
  }
  put_varint(out, base_seq);
  put_varint(out, base_delete_key);
  std::uint64_t end = data_header_bytes(m.unit);
  for (const PageMeta& page : m.pages) {
    const bool keys = page.entries > 0 && page.has_delete_keys();
    const bool expiries = page.entries > 0 && page.max_expiry != 0;
    put_varint(out, page.flags << kPageFieldBits | (keys ? kHasDeleteKeys : 0) | (expiries ? kHasExpiries : 0));
    put_varint(out, page.offset - end);
    put_varint(out, page.length);
    end = page.offset + page.length;
    if (page.replaced()) {
      put_varint(out, page.replaced_offset);
      put_varint(out, page.replaced_length);
    }
    put_varint(out, page.entries);
    if (page.entries == 0) continue;
    put_varint(out, page.min_seq - base_seq);
    put_varint(out, page.max_seq - page.min_seq);
    if (keys) {
      put_varint(out, page.min_delete_key - base_delete_key);
      put_varint(out, page.max_delete_key - page.min_delete_key);
    }
    if (expiries) {
      put_varint(out, page.min_expiry);
      put_varint(out, page.max_expiry - page.min_expiry);
    }
    put_u64(out, page.checksum);
  }
}

namespace {

// Reads one page's fields. `end`: offset in the data file at which the previous page ends. Returns false if a field is malformed.
bool read_page(Bytes* in, SeqNum base_seq, DeleteKey base_delete_key, std::uint64_t end, PageMeta* page) {
  std::uint32_t packed = 0;
  std::uint64_t gap = 0, span = 0;
  if (!get_varint32(in, &packed) || !get_varint(in, &gap) || !get_varint32(in, &page->length)) return false;
  page->flags = packed >> kPageFieldBits;
  page->offset = end + gap;
  if (page->offset < end) return false;
  if (page->replaced() && (!get_varint(in, &page->replaced_offset) || !get_varint32(in, &page->replaced_length))) return false;
  if (!get_varint32(in, &page->entries)) return false;
  if (page->entries == 0) return true;
  if (!get_varint(in, &page->min_seq) || !get_varint(in, &span)) return false;
  page->min_seq += base_seq;
  page->max_seq = page->min_seq + span;
  if ((packed & kHasDeleteKeys) != 0) {
    if (!get_varint(in, &page->min_delete_key) || !get_varint(in, &span)) return false;
    page->min_delete_key += base_delete_key;
    page->max_delete_key = page->min_delete_key + span;
  }
  if ((packed & kHasExpiries) != 0) {
    if (!get_varint(in, &page->min_expiry) || !get_varint(in, &span)) return false;
    page->max_expiry = page->min_expiry + span;
  }
  return get_u64(in, &page->checksum);
}

}  // namespace

Status decode_page_table(const SectionReader& sections, TableMetadata* m) {
  TRY_ASSIGN(section, sections.need(SectionType::kPages));
  const SectionReader::Section* const patches = sections.find(SectionType::kReplacedPages);
  Bytes in = section.content;
  SeqNum base_seq = 0;
  DeleteKey base_delete_key = 0;
  if (!get_varint(&in, &base_seq) || !get_varint(&in, &base_delete_key)) return sections.corruption(section, "malformed");
  std::uint64_t end = data_header_bytes(m->unit);
  for (PageMeta& page : m->pages) {
    if (!read_page(&in, base_seq, base_delete_key, end, &page)) return sections.corruption(section, "malformed");
    const bool dropped_whole = page.dropped() == (page.entries == 0);
    if ((page.flags & ~kPageFlagsMask) != 0 || !dropped_whole || page.offset % m->unit != 0 || page.length % m->unit != 0 ||
        page.length < kBlockTrailerBytes || page.length > padded_block_bytes(kMaxBlockBytes, m->unit) ||
        page.length > m->data_bytes || page.offset > m->data_bytes - page.length) {
      return sections.corruption(section, "a page is out of range");
    }
    end = page.offset + page.length;
    if (!page.replaced()) continue;
    if (patches == nullptr || page.replaced_length < kBlockTrailerBytes || page.replaced_length > patches->content.size() ||
        page.replaced_offset < patches->offset ||
        page.replaced_offset - patches->offset > patches->content.size() - page.replaced_length) {
      return sections.corruption(section, "a replaced page is out of range");
    }
  }
  return in.empty() ? Status::ok() : sections.corruption(section, "bytes after the last page");
}

// --- fences

void append_fence_leaves(const TableMetadata& m, FileNum file, std::string* out, std::vector<FenceLeaf>* leaves) {
  const std::size_t section = out->size();
  for (std::size_t t = 0; t < m.tiles.size();) {
    const std::size_t begin = out->size();
    const std::size_t until = std::min<std::size_t>(t + kTilesPerLeaf, m.tiles.size());
    FenceLeaf leaf;
    leaf.tiles = static_cast<std::uint32_t>(until - t);
    leaf.offset = begin - section;
    Bytes before;
    for (; t < until; ++t) {
      const Bytes separator = m.separators[t];
      const auto shared = static_cast<std::size_t>(
          std::mismatch(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(std::min(before.size(), separator.size())),
                        separator.begin())
              .first -
          before.begin());
      put_varint(out, shared);
      put_bytes(out, separator.substr(shared));
      put_u8(out, m.tiles[t].pages);
      put_u8(out, m.tiles[t].flags);
      before = separator;
    }
    leaf.length = out->size() - begin;
    leaf.checksum = block_checksum(Bytes(*out).substr(begin), file, begin);
    leaves->push_back(leaf);
  }
}

void append_fence_top(const TableMetadata& m, const std::vector<FenceLeaf>& leaves, std::string* out) {
  put_varint(out, leaves.size());
  std::size_t tile = 0;
  for (const FenceLeaf& leaf : leaves) {
    put_bytes(out, m.separators[tile]);
    put_varint(out, leaf.tiles);
    put_varint(out, leaf.offset);
    put_varint(out, leaf.length);
    put_u64(out, leaf.checksum);
    tile += leaf.tiles;
  }
}

namespace {

// The most bytes of separators that Fences can index. Leaves store shared prefixes only once, so a small damaged file could
// decode to more bytes.
constexpr std::uint64_t kMaxSeparatorBytes = 0xffffffffu;

// Decodes tiles [*tile, *tile + tiles) from one leaf, and moves *tile past them. Adds the bytes of their separators after the
// table's prefix to *bytes. Returns false if the leaf is malformed.
bool read_leaf(Bytes in, std::uint32_t tiles, Bytes first_separator, std::size_t* tile, std::uint64_t* page, std::uint64_t* bytes,
               TableMetadata* m) {
  std::string separator;
  for (std::uint32_t i = 0; i < tiles; ++i, ++*tile) {
    if (*tile >= m->tiles.size()) return false;
    std::uint64_t shared = 0;
    Bytes suffix;
    TileMeta& t = m->tiles[*tile];
    if (!get_varint(&in, &shared) || shared > separator.size() || !get_bytes(&in, &suffix) || !get_u8(&in, &t.pages) ||
        !get_u8(&in, &t.flags)) {
      return false;
    }
    separator.resize(shared);
    separator.append(suffix);
    *bytes += separator.size() - std::min(separator.size(), m->key_prefix.size());
    if (separator.size() > kMaxKeyBytes || *bytes > kMaxSeparatorBytes) return false;
    if (i == 0 && separator != first_separator) return false;
    m->separators.push_back(separator);
    t.first_page = static_cast<std::uint32_t>(*page);
    *page += t.pages;
  }
  return in.empty();
}

bool fences_in_order(const TableMetadata& m) {
  for (std::size_t t = 0; t < m.tiles.size(); ++t) {
    const TileMeta& tile = m.tiles[t];
    if (tile.pages < 1 || tile.pages > m.pages_per_tile + (m.pages_per_tile > 1 ? 1 : 0) || (tile.flags & ~kTileFlagsMask) != 0)
      return false;
    if (t == 0) {
      if (!m.separators[0].empty() || (tile.flags & kTileContinues) != 0) return false;
      continue;
    }
    if (Bytes(m.separators[t]).substr(0, m.key_prefix.size()) != Bytes(m.key_prefix)) return false;
    const int order = m.separators[t - 1].compare(m.separators[t]);
    if (order > 0 || (order == 0 && (tile.flags & kTileContinues) == 0)) return false;
  }
  return true;
}

}  // namespace

Status decode_fences(const SectionReader& sections, TableMetadata* m) {
  TRY_ASSIGN(top, sections.need(SectionType::kFenceTop));
  TRY_ASSIGN(leaves, sections.need(SectionType::kFenceLeaves));
  Bytes in = top.content;
  std::uint64_t count = 0, next = 0, page = 0, bytes = 0;
  std::size_t tile = 0;
  if (!get_varint(&in, &count)) return sections.corruption(top, "malformed");
  for (std::uint64_t i = 0; i < count; ++i) {
    FenceLeaf leaf;
    Bytes separator;
    if (!get_bytes(&in, &separator) || !get_varint32(&in, &leaf.tiles) || !get_varint(&in, &leaf.offset) ||
        !get_varint(&in, &leaf.length) || !get_u64(&in, &leaf.checksum) || leaf.offset != next ||
        leaf.length > leaves.content.size() - next) {
      return sections.corruption(top, "malformed");
    }
    const Bytes content = leaves.content.substr(leaf.offset, leaf.length);
    next += leaf.length;
    if (block_checksum(content, sections.place(0).file, leaves.offset + leaf.offset) != leaf.checksum) {
      return sections.corruption(leaves, "checksum mismatch of leaf " + std::to_string(i));
    }
    if (!read_leaf(content, leaf.tiles, separator, &tile, &page, &bytes, m)) return sections.corruption(leaves, "malformed");
  }
  if (!in.empty() || next != leaves.content.size() || tile != m->tiles.size() || page != m->pages.size()) {
    return sections.corruption(top, "does not match tiles and pages");
  }
  return fences_in_order(*m) ? Status::ok() : sections.corruption(leaves, "tiles are out of order");
}

// --- filters, permutations, range tombstones, replaced pages

Status decode_filters(const SectionReader& sections, TableMetadata* m) {
  const auto take = [&](SectionType type, std::vector<std::string>* slices) -> Status {
    for (std::size_t i = 0; i < slices->size(); ++i) {
      const auto* section = sections.find(type, static_cast<std::uint32_t>(i));
      if (section == nullptr) return sections.place(0).corruption("a filter slice is missing");
      auto parsed = BloomView::parse(section->content);
      if (!parsed.is_ok()) return sections.corruption(*section, std::string(parsed.status().message()));
      // If the number of columns differed from the pages per tile, the filter would hide keys.
      if (parsed->columns() != (type == SectionType::kFilter ? m->pages_per_tile : 1))
        return sections.corruption(*section, "wrong number of columns");
      (*slices)[i].assign(section->content);
    }
    return Status::ok();
  };
  if (m->filter_kind == FilterKind::kNone && m->filter_slices.size() + m->tombstone_filter_slices.size() > 0) {
    return sections.place(0).corruption("filter slices, although the table has no filter");
  }
  TRY(take(SectionType::kFilter, &m->filter_slices));
  return take(SectionType::kTombstoneFilter, &m->tombstone_filter_slices);
}

Status decode_permutations(const SectionReader& sections, TableMetadata* m) {
  TRY_ASSIGN(section, sections.need(SectionType::kPermutations));
  std::uint64_t bytes = 0;
  for (std::size_t t = 0; t < m->tiles.size(); ++t) {
    bytes += permutation_bytes(m->tiles[t].pages, m->tile_entries(t));
    if (bytes > section.content.size()) return sections.corruption(section, "too short");
  }
  if (bytes != section.content.size()) return sections.corruption(section, "too long");
  m->permutations.assign(section.content);
  // Each page number must occur as often as that page has entries.
  std::vector<std::uint8_t> order;
  for (std::size_t t = 0, at = 0; t < m->tiles.size(); ++t) {
    const TileMeta& tile = m->tiles[t];
    if (tile.pages == 1) continue;
    const std::uint64_t entries = m->tile_entries(t);
    unpack_permutation(section.content.substr(at), tile.pages, entries, &order);
    at += permutation_bytes(tile.pages, entries);
    std::uint64_t counts[128] = {};
    for (const std::uint8_t page : order) ++counts[page];
    for (std::uint32_t p = 0; p < 128; ++p) {
      if (counts[p] != (p < tile.pages ? m->pages[tile.first_page + p].entries : 0))
        return sections.corruption(section, "does not match the pages");
    }
  }
  return Status::ok();
}

void append_range_tombstones(const TableMetadata& m, std::string* out) {
  put_varint(out, m.range_tombstones.size());
  for (const RangeTombstone& t : m.range_tombstones) {
    put_bytes(out, t.start);
    put_bytes(out, t.end);
    put_varint(out, t.seq);
    put_varint(out, t.birth);
  }
}

Status decode_range_tombstones(const SectionReader& sections, TableMetadata* m) {
  TRY_ASSIGN(section, sections.need(SectionType::kRangeTombstones));
  Bytes in = section.content;
  std::uint64_t count = 0;
  if (!get_varint(&in, &count)) return sections.corruption(section, "malformed");
  for (std::uint64_t i = 0; i < count; ++i) {
    RangeTombstone t;
    Bytes start, end;
    if (!get_bytes(&in, &start) || !get_bytes(&in, &end) || !get_varint(&in, &t.seq) || !get_varint(&in, &t.birth)) {
      return sections.corruption(section, "malformed");
    }
    t.start = start;
    t.end = end;
    if (!t.end.empty() && t.end <= t.start) return sections.corruption(section, "a range is empty");
    m->range_tombstones.push_back(std::move(t));
  }
  return in.empty() ? Status::ok() : sections.corruption(section, "bytes after the last tombstone");
}

void append_holes(const TableMetadata& m, std::string* out) {
  std::uint64_t end = data_header_bytes(m.unit);
  put_varint(out, m.holes.size());
  for (const FileExtent& hole : m.holes) {
    put_varint(out, hole.offset - end);
    put_varint(out, hole.length);
    end = hole.offset + hole.length;
  }
}

// Decodes the holes. Checks that no page overlaps a hole, since holes are punched without a further check.
Status decode_holes(const SectionReader& sections, TableMetadata* m) {
  const SectionReader::Section* const section = sections.find(SectionType::kHoles);
  if (section == nullptr) return Status::ok();
  Bytes in = section->content;
  std::uint64_t count = 0, end = data_header_bytes(m->unit);
  if (!get_varint(&in, &count)) return sections.corruption(*section, "malformed");
  std::size_t page = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    FileExtent hole;
    std::uint64_t gap = 0;
    if (!get_varint(&in, &gap) || !get_varint(&in, &hole.length)) return sections.corruption(*section, "malformed");
    if (gap > m->data_bytes - end || hole.length == 0 || hole.length > m->data_bytes - end - gap || gap % m->unit != 0 ||
        hole.length % m->unit != 0) {
      return sections.corruption(*section, "a hole is out of range");
    }
    hole.offset = end + gap;
    end = hole.offset + hole.length;
    while (page < m->pages.size() && m->pages[page].offset + m->pages[page].length <= hole.offset) ++page;
    if (page < m->pages.size() && m->pages[page].offset < end) return sections.corruption(*section, "a hole overlaps a page");
    m->holes.push_back(hole);
  }
  return in.empty() ? Status::ok() : sections.corruption(*section, "bytes after the last hole");
}

// Stores differences from the previous page, modulo 2^32. They are small, since neighbouring pages have near points.
void append_points(const TableMetadata& m, std::string* out) {
  PointBounds before{0, 0, 0, 0};
  for (const PageMeta& page : m.pages) {
    if (page.entries == 0) continue;
    const PointBounds& b = page.points;
    put_varint(out, zigzag(b.min_x - before.min_x));
    put_varint(out, zigzag(b.min_y - before.min_y));
    put_varint(out, b.max_x - b.min_x);
    put_varint(out, b.max_y - b.min_y);
    before = b;
  }
}

Status decode_points(const SectionReader& sections, TableMetadata* m) {
  if (m->stats.points_at == kNoPoints) return Status::ok();
  TRY_ASSIGN(section, sections.need(SectionType::kPoints));
  Bytes in = section.content;
  PointBounds before{0, 0, 0, 0};
  for (PageMeta& page : m->pages) {
    if (page.entries == 0) continue;
    std::uint32_t x = 0, y = 0, width = 0, height = 0;
    if (!get_varint32(&in, &x) || !get_varint32(&in, &y) || !get_varint32(&in, &width) || !get_varint32(&in, &height))
      return sections.corruption(section, "malformed");
    PointBounds& b = page.points;
    b.min_x = before.min_x + unzigzag(x);
    b.min_y = before.min_y + unzigzag(y);
    b.max_x = b.min_x + width;
    b.max_y = b.min_y + height;
    if (b.min_x > b.max_x || b.min_y > b.max_y) return sections.corruption(section, "bounds are out of range");
    if (!m->stats.points.encloses(b)) return sections.corruption(section, "bounds lie outside of those of the table");
    before = b;
  }
  return in.empty() ? Status::ok() : sections.corruption(section, "bytes after the last page");
}

void append_replaced_pages(TableMetadata* m, FileNum file, std::string* out) {
  Compressor compressor(m->compression);
  for (const auto& [index, payload] : m->replaced) {
    PageMeta& page = m->pages[index];
    ASSERT(page.replaced());
    Compression used{};
    const Bytes compressed = compressor.compress(payload, &used);
    page.replaced_offset = out->size();
    page.replaced_length = static_cast<std::uint32_t>(padded_block_bytes(compressed.size(), 1));
    page.checksum = append_block(out, compressed, used, BlockKind::kPage, page.replaced_length, file, page.replaced_offset);
  }
}

Status check_whole(const SectionReader& sections, const TableMetadata& m) {
  std::uint64_t entries = 0;
  for (const PageMeta& page : m.pages) entries += page.entries;
  if (entries != m.stats.entries) return sections.place(0).corruption("pages and properties disagree on the number of entries");
  if (m.range_tombstones.size() != m.stats.range_tombstones) {
    return sections.place(0).corruption("range tombstones section and properties disagree on the number of range tombstones");
  }
  // A table with a filter must have filter slices for each kind of page that it has: without them, lookups would not find the
  // keys of these pages.
  const bool filtered = m.filter_kind != FilterKind::kNone;
  for (const PageMeta& page : m.pages) {
    const auto& slices = (page.flags & kPageTombstones) != 0 ? m.tombstone_filter_slices : m.filter_slices;
    if (filtered && !page.dropped() && slices.empty()) return sections.place(0).corruption("pages without a filter slice");
  }
  for (const TileMeta& tile : m.tiles) {
    // Only the last page of a tile can be the page of its tombstones, and only if h > 1. Each other page must have a filter
    // column.
    for (std::uint32_t p = 0; p < tile.pages; ++p) {
      const bool tombstones = (m.pages[tile.first_page + p].flags & kPageTombstones) != 0;
      if (tombstones ? (p + 1 != tile.pages || m.pages_per_tile == 1) : p >= m.pages_per_tile) {
        return sections.place(0).corruption("a tile has too many pages, or a page of tombstones where none is allowed");
      }
    }
  }
  if (m.sum_checksums() != m.data_checksum)
    return sections.place(0).corruption("page checksums do not add up to the data checksum");
  return Status::ok();
}

}  // namespace ebbtide
