// The inputs of cost model and tuner: the system, which is given, and the tuning, which a tuner chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <engine/status.h>
#include "filter/monkey.h"

namespace ebbtide {

/// The layout of data in levels. T is the size ratio; level 1 is the first level on disk, as in the papers; L is the last level.
enum class Layout : std::uint8_t {
  kLeveling,      ///< file by file: level i has T^i buffers and one run
  kTiering,       ///< whole levels: K_i = T - 1
  kLazyLeveling,  ///< whole levels: K_i = T - 1 before level L, 1 at level L
  kOneLeveling,   ///< leveling, with a level of up to R whole buffers before it
  kFluid,         ///< whole levels: one K for levels before L, another for level L
  kKlsm,          ///< whole levels: any K_i
  kGarnering,     ///< file by file: one run a level, capacities by Autumn's Eq. 5
};
inline constexpr Layout kLayouts[] = {Layout::kLeveling, Layout::kTiering, Layout::kLazyLeveling, Layout::kOneLeveling,
                                      Layout::kFluid,    Layout::kKlsm,    Layout::kGarnering};
/// Returns the layout's name: leveling, tiering, lazy_leveling, one_leveling, fluid, klsm or garnering.
std::string_view layout_name(Layout layout);
std::optional<Layout> parse_layout(std::string_view name);

/// The inputs for the costs that deletes have in addition to the costs of writes. With the defaults these costs are 0.
struct DeleteWork {
  /// Fraction of writes that are deletes, 0 to 1.
  double share = 0;
  /// Writes within one delete deadline; 0 = no deadline. Deletes must have reached the last level by the deadline (Lethe, section
  /// 4.1).
  double writes_per_deadline = 0;
  double entries_per_file = 65536;  ///< entries of a file, at least 1: one delete makes a merge rewrite a whole file
  /// Secondary range deletes per operation of the mix. Each reads and writes N / (B h) pages (Lethe, Eq. 1).
  double secondary_per_operation = 0;
};

struct System {
  double entries = 0;            ///< N, at least 1
  double entry_bytes = 0;        ///< E, above 0
  double page_bytes = 4096;      ///< a page holds B = page_bytes / entry_bytes entries
  double memory_bits = 0;        ///< m: memory of buffer and filters together
  double write_asymmetry = 1;    ///< f_a: cost of writing a page / cost of reading it
  double sequential_cost = 1;    ///< f_seq: cost of a page in a sequential access / cost in a random access
  double range_selectivity = 0;  ///< S_RQ: fraction of all entries that a range read returns
  /// Measured fraction of page reads that miss the block cache, by level from level 1 on; the last value holds for all deeper
  /// levels. Empty = no cache. Merges and long scans do not use the cache.
  std::vector<double> miss_ratios;
  FilterCurve filter_curve = FilterCurve::kIdeal;
  DeleteWork deletes;

  [[nodiscard]] double entries_per_page() const { return page_bytes / entry_bytes; }
  [[nodiscard]] double data_bits() const { return entries * entry_bytes * 8; }
};
/// Returns kInvalidArgument with the field, its value and the allowed values, if a field is out of range.
Status check_system(const System& system);

/// A configuration of the tree (Phi in Endure, section 3).
struct Tuning {
  Layout layout = Layout::kLeveling;
  double size_ratio = 10;  ///< T, at least 2
  double filter_bits = 0;  ///< m_filt, bits of all filters together
  double buffer_bits = 0;  ///< m_buf, above 0
  /// kFluid: K of the levels before L, then K of level L. kKlsm: K_i from level 1 on; the last value holds for all deeper levels.
  /// Other layouts ignore `runs`.
  std::vector<double> runs;
  double scaling_ratio = 1;  ///< c of kGarnering, in (0, 1]
  int level0_runs = 4;       ///< R of kOneLeveling and kGarnering, at least 1
  double tile_pages = 1;     ///< h of KiWi, at least 1
};
/// Returns kInvalidArgument with the field, its value and the allowed values, if a field is out of range.
Status check_tuning(const Tuning& tuning);

}  // namespace ebbtide
