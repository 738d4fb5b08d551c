// The sections of a metadata file, each encoded and decoded on its own. Only table/metadata.cc includes this file.
#pragma once

#include <string>
#include <vector>

#include "table/metadata.h"

namespace ebbtide {

/// The numbers are part of the format.
enum class SectionType : std::uint16_t {
  kProperties = 1,
  kPages = 2,
  kFenceTop = 3,
  kFenceLeaves = 4,
  kFilter = 5,           ///< a slice of the filter; the section's index is the slice's number
  kTombstoneFilter = 6,  ///< a slice of the filter of tombstones; the section's index is the slice's number
  kPermutations = 7,
  kRangeTombstones = 8,
  kReplacedPages = 9,
  kHoles = 10,
  kPoints = 11,  ///< optional: a reader that does not know this type reads more pages
};

/// Appends sections to the content of a file; finish() appends their directory and the footer.
class SectionWriter {
 public:
  SectionWriter(FileNum file, std::string* out) : file_(file), out_(out) {}
  /// Begins a section: all bytes that are appended to the file until end() belong to it.
  void begin(SectionType type, std::uint32_t index) { begin(type, index, false); }
  /// Begins a section that readers may skip.
  void begin_optional(SectionType type) { begin(type, 0, true); }
  void end();
  void add(SectionType type, std::uint32_t index, Bytes content) {
    begin(type, index);
    out_->append(content);
    end();
  }
  void finish();

 private:
  void begin(SectionType type, std::uint32_t index, bool optional);

  FileNum file_;
  std::string* out_;
  std::string directory_;
  std::uint32_t count_ = 0;
  std::uint64_t begin_ = 0;
};

/// The sections of a metadata file, as its directory lists them. Their checksums were verified.
class SectionReader {
 public:
  struct Section {
    SectionType type{};
    std::uint32_t index = 0;
    std::uint64_t offset = 0;
    Bytes content;
  };
  /// Reads the directory of `file`, the content of a metadata file, and verifies all checksums. Checks that the sections are
  /// adjacent and fill the file from offset `first` to the directory. `number` is the file's number; `path` is used in
  /// messages.
  static Result<SectionReader> open(Bytes file, std::uint64_t first, std::uint32_t file_version, FileNum number,
                                    const std::string& path);
  /// Returns the section of this type and index, or null if there is none. No two sections have the same type and index.
  [[nodiscard]] const Section* find(SectionType type, std::uint32_t index = 0) const;
  /// Like find(), but returns kCorruption if the section is missing.
  Result<Section> need(SectionType type) const;
  [[nodiscard]] Status corruption(const Section& section, const std::string& what) const;
  [[nodiscard]] BlockPlace place(std::uint64_t offset) const { return {path_, file_, offset}; }

 private:
  std::vector<Section> sections_;
  const std::string* path_ = nullptr;
  FileNum file_ = kNoFile;
};

/// A leaf of the two-level fence index: up to kTilesPerLeaf tiles. Each leaf has a checksum, so that leaves can be cached
/// separately.
struct FenceLeaf {
  std::uint32_t tiles = 0;
  std::uint64_t offset = 0;  ///< offset of the leaf in its section
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;
};
inline constexpr std::uint32_t kTilesPerLeaf = 128;

void append_properties(const TableMetadata& m, std::string* out);
void append_page_table(const TableMetadata& m, std::string* out);
void append_fence_leaves(const TableMetadata& m, FileNum file, std::string* out, std::vector<FenceLeaf>* leaves);
void append_fence_top(const TableMetadata& m, const std::vector<FenceLeaf>& leaves, std::string* out);
void append_range_tombstones(const TableMetadata& m, std::string* out);
void append_holes(const TableMetadata& m, std::string* out);
void append_points(const TableMetadata& m, std::string* out);
void append_replaced_pages(TableMetadata* m, FileNum file, std::string* out);

Status decode_properties(const SectionReader& sections, std::uint32_t version, TableMetadata* m);
Status decode_page_table(const SectionReader& sections, TableMetadata* m);
Status decode_fences(const SectionReader& sections, TableMetadata* m);
Status decode_filters(const SectionReader& sections, TableMetadata* m);
Status decode_permutations(const SectionReader& sections, TableMetadata* m);
Status decode_range_tombstones(const SectionReader& sections, TableMetadata* m);
Status decode_holes(const SectionReader& sections, TableMetadata* m);
Status decode_points(const SectionReader& sections, TableMetadata* m);
/// Checks properties that span several sections.
Status check_whole(const SectionReader& sections, const TableMetadata& m);

}  // namespace ebbtide
