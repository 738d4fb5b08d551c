// Values that the cost model and the tuner take: the system, which a tuner does not choose, and the tuning, which it does.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <engine/status.h>
#include "filter/monkey.h"

namespace ebbtide {

/// How data lies in levels. T is the size ratio; level 1 is the first on the disk, as in the papers; L is the last level.
enum class Layout : std::uint8_t {
  kLeveling,      ///< file by file: level i has T^i buffers and one run
  kTiering,       ///< whole levels: K_i = T - 1
  kLazyLeveling,  ///< whole levels: K_i = T - 1, and 1 at level L
  kOneLeveling,   ///< leveling behind a level of up to R whole buffers
  kFluid,         ///< whole levels: one K for levels before L, another for level L
  kKlsm,          ///< whole levels: any K_i
  kGarnering,     ///< file by file: one run a level, capacities by Autumn's Eq. 5
};
inline constexpr Layout kLayouts[] = {Layout::kLeveling, Layout::kTiering, Layout::kLazyLeveling, Layout::kOneLeveling,
                                      Layout::kFluid,    Layout::kKlsm,    Layout::kGarnering};
/// leveling, tiering, lazy_leveling, one_leveling, fluid, klsm, garnering.
std::string_view layout_name(Layout layout);
std::optional<Layout> parse_layout(std::string_view name);

/// Deletes, as far as they cost more than other writes. Zeros: they do not.
struct DeleteWork {
  /// Fraction of writes that are deletes, 0 to 1.
  double share = 0;
  /// Writes within one deadline; 0 = no deadline. Deletes must have reached the last level by then (Lethe, section 4.1).
  double writes_per_deadline = 0;
  double entries_per_file = 65536;  ///< at least 1; a file is rewritten as a whole for one delete
  /// Range deletes by the second key per operation of the mix. Each reads and writes the pages of N / (B h) (Lethe, Eq. 1).
  double secondary_per_operation = 0;
};

struct System {
  double entries = 0;            ///< N, at least 1
  double entry_bytes = 0;        ///< E, above 0
  double page_bytes = 4096;      ///< a page holds B = page_bytes / entry_bytes entries
  double memory_bits = 0;        ///< m, for buffer and filters together
  double write_asymmetry = 1;    ///< f_a: cost of writing a page / cost of reading it
  double sequential_cost = 1;    ///< f_seq: cost of a page in a sequential access / in a random one
  double range_selectivity = 0;  ///< S_RQ: fraction of all entries that a range read returns
  /// Measured fraction of page reads that miss the block cache, by level from level 1 on; the last one is for all deeper levels. Empty
  /// = no cache. Merges and long scans do not use the cache.
  std::vector<double> miss_ratios;
  FilterCurve filter_curve = FilterCurve::kIdeal;
  DeleteWork deletes;

  [[nodiscard]] double entries_per_page() const { return page_bytes / entry_bytes; }
  [[nodiscard]] double data_bits() const { return entries * entry_bytes * 8; }
};
/// kInvalidArgument names the field, its value and what is allowed.
Status check_system(const System& system);

/// A configuration: Phi of Endure, section 3.
struct Tuning {
  Layout layout = Layout::kLeveling;
  double size_ratio = 10;  ///< T, at least 2
  double filter_bits = 0;  ///< m_filt, of all filters together
  double buffer_bits = 0;  ///< m_buf, above 0
  /// kFluid: K of levels before L, K of level L. kKlsm: K_i from level 1 on, the last one for all deeper levels. Others: ignored.
  std::vector<double> runs;
  double scaling_ratio = 1;  ///< c of kGarnering, in (0, 1]
  int level0_runs = 4;       ///< R of kOneLeveling and kGarnering, at least 1
  double tile_pages = 1;     ///< h of KiWi, at least 1
};
/// kInvalidArgument names the field, its value and what is allowed.
Status check_tuning(const Tuning& tuning);

}  // namespace ebbtide
