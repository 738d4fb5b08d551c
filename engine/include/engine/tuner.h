// Advises settings for a workload: computes what operations cost under given settings, and finds the settings for which they
// cost least. Needs no database.
//
// Costs are expected numbers of random page reads, from a closed model of a full tree: Huynh et al., "Towards flexibility and
// robustness of LSM trees" (Endure, VLDB Journal 2024), Eqs. 4 to 9, with the levels, filters and merges of this engine.
// engine/docs/tuner.md explains the model and its accuracy.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/options.h>
#include <engine/result.h>
#include <engine/workload.h>

namespace ebbtide {

/// A number for each kind of operation: its share of a workload, its count in a window of time, or its cost in page reads.
struct OperationFigures {
  double empty_read = 0;  ///< point read of an absent key
  double read = 0;        ///< point read of an existing key
  double range = 0;       ///< range read
  double write = 0;       ///< insert, update or delete
};

/// Data, memory, device and workload. The first four fields have no default.
struct TunerQuestion {
  double entries = 0;         ///< number of entries, at least 1
  double entry_bytes = 0;     ///< bytes of an entry, key and value, at least 1
  double memory_bytes = 0;    ///< memory for memtable and filters together, above 0
  OperationFigures workload;  ///< shares of the expected workload, at least 0, which sum to 1
  /// The largest Kullback-Leibler divergence, in nats, of the real workload from the expected one; at least 0 (Endure, section
  /// 6.2). 0: the workload stays as expected, 0.25: it moves a little, 2: a lot. If rho is above 0, each share counts as at
  /// least 1 %.
  double rho = 0;
  double page_bytes = 4096;
  double write_asymmetry = 1;    ///< cost of writing a page / cost of reading it, 0 to 1e6
  double sequential_cost = 1;    ///< cost of a page in a sequential access / cost in a random access, 0 to 1e6
  double range_selectivity = 0;  ///< fraction of all entries that a range read returns
  /// For each level from level 1 on: the fraction of page reads that miss the block cache, 0 to 1. The last value holds for all
  /// deeper levels. Empty: there is no cache.
  std::vector<double> miss_ratios;
  double delete_share = 0;          ///< fraction of the writes that are deletes, 0 to 1
  double writes_per_deadline = 0;   ///< number of writes in the time of a delete deadline; 0: no deadline
  double entries_per_file = 65536;  ///< entries of a table file, at least 1: a merge for a deadline rewrites whole files
  double stamp_deletes = 0;         ///< deletes by stamp, per operation of the workload, 0 to 1
  /// Pages of a delete tile, 1 to 64. 0: advise() chooses the best number; without deletes by stamp, that is 1.
  std::uint32_t pages_per_tile = 0;
  /// Layouts to choose from: leveling, tiering, lazy_leveling, one_leveling, fluid, klsm, garnering. Empty: all.
  std::vector<std::string> layouts;
  /// Limit of (bytes on disk during the longest merge / bytes of the data); 1 or more.
  double max_transient_space = std::numeric_limits<double>::infinity();
  double max_merge_bytes = std::numeric_limits<double>::infinity();  ///< most bytes that one merge may write
};

struct TunerAdvice {
  std::string layout;     ///< one of TunerQuestion::layouts
  PolicySettings policy;  ///< for TreeSettings::policy; validate() accepts it
  std::uint64_t memtable_bytes = 0;
  double filter_bits_per_key = 0;    ///< for TreeSettings::filter_bits_per_key
  std::uint32_t pages_per_tile = 1;  ///< for TreeSettings::pages_per_tile
  bool measures_tiles = false;   ///< true: set TreeSettings::pages_per_tile to 0 (auto); pages_per_tile above is the measured h
  OperationFigures costs;        ///< page reads of an operation; the cost of a write includes merges for the delete deadline
  double delete_work = 0;        ///< page reads per write of the merges for the delete deadline
  double stamp_delete_cost = 0;  ///< page reads of a delete by stamp
  double mean_cost = 0;   ///< page reads of an average operation of the expected workload (Eq. 2), with its deletes by stamp
  double worst_cost = 0;  ///< largest mean_cost of all workloads within rho of the expected one; mean_cost if rho is 0
  OperationFigures worst_workload;  ///< shares of the workload whose mean cost is worst_cost
  double write_amplification = 0;
  double longest_merge_bytes = 0;
  double transient_space = 1;  ///< bytes on disk during the longest merge / bytes of the data
};

/// Returns the best settings of each layout that this engine accepts, the lowest worst_cost first (Problems 1 and 2). Size ratios
/// go from 2 to 1024; with a large one a merge may rewrite the whole tree, unless TunerQuestion limits merges. Takes about
/// 10 ms for leveling and tiering, and about 300 ms for all layouts. kInvalidArgument: a field is out of range or a layout is
/// unknown (the message names it), or no settings keep the limits.
Result<std::vector<TunerAdvice>> advise(const TunerQuestion& question);

/// Sets question->workload to the mean mix of a history's windows, and question->rho to the largest divergence of a window from
/// that mean (section 6.2). `windows` are counts of operations, in order of time; adjacent windows are merged until each has
/// 1,000 operations. kInvalidArgument: fewer than 1,000 operations in all, or a negative count; then `question` is unchanged.
Status set_uncertainty(std::span<const OperationFigures> windows, TunerQuestion* question);

/// The settings of a tree that the model depends on.
struct TunerSettings {
  PolicySettings policy;  ///< validate() accepts it
  std::uint64_t memtable_bytes = 0;
  double filter_bits_per_key = 0;
  std::uint32_t pages_per_tile = 1;

  bool operator==(const TunerSettings&) const = default;
};
/// Returns what operations cost under the given settings. TunerQuestion::memory_bytes and the limits have no effect.
/// kUnsupported: the model has no formula for the policy (bigtable, constant, exploring, concurrent, min_latency, binomial).
/// kInvalidArgument: a field is out of range.
Result<TunerAdvice> costs_under(const TunerQuestion& question, const TunerSettings& settings);

/// Returns the cost of a change of settings: the page reads of the merges that bring a full tree into its new shape. If `to` has
/// larger filters or another tile size, the result is at least the page reads of rewriting all data, since existing files keep
/// their filters and tiles. kUnsupported and kInvalidArgument: as costs_under().
Result<double> change_cost(const TunerQuestion& question, const TunerSettings& from, const TunerSettings& to);

// --- advice from a database's own history

/// The mix of a workload, and how much it varies.
struct WorkloadSummary {
  OperationCounts total;  ///< sum of all windows
  bool enough = false;    ///< false: there are fewer than 1,000 operations, so rho and divergence are unknown (0)
  /// Share of each kind of operation. If `enough`: the mean over all windows, with each share at least 1 %; else the mix of
  /// `total`.
  OperationFigures mean;
  double rho = 0;                 ///< the largest divergence of a window from the mean, in nats (section 6.2)
  double divergence = 0;          ///< divergence of the newest windows (1,000 operations or more) from the mean, in nats
  double entries_per_range = 0;   ///< average number of entries that a range read passes
  double operations_per_day = 0;  ///< operations in a day at the mean rate since the oldest window
};
/// Returns the summary of a history. `windows` are in order of time.
WorkloadSummary summarize(std::span<const WorkloadWindow> windows);

/// Values that recommend() uses instead of the measured ones.
struct RecommendOptions {
  std::optional<double> rho;                 ///< 0 or more
  std::optional<OperationFigures> workload;  ///< shares that sum to 1
  std::optional<double> memory_bytes;        ///< for memtable and filters, above 0; no value: as much as they have now
};

/// Advised settings, compared with the present ones.
struct Proposal {
  TunerAdvice advice;
  /// Page reads of the merges that a change to `advice` causes (change_cost()); 0 if the model has no formula for today's policy.
  double change_cost = 0;
  /// Page reads that `advice` saves in a day: at the mean workload if rho is 0; otherwise each of the two settings is judged at
  /// its own worst workload. 0 if unknown.
  double saved_per_day = 0;
  /// True if the change costs less than it saves in a day, and an operation costs at least a tenth less.
  bool worthwhile = false;
  std::string verdict;  ///< says in one sentence whether the change is worth it, and why
};

/// The result of recommend(). If there is no advice at all, `verdict` says why, and the proposals are empty.
struct Recommendation {
  WorkloadSummary summary;
  TunerQuestion question;  ///< the inputs of the model; rho is the rho of `robust`
  TunerSettings settings;  ///< the present settings
  struct Tiles {
    std::uint32_t pages = 1;  ///< h of the advised settings
    bool measured = false;    ///< true if the advised setting is auto: the engine then measures h
  };
  Tiles tiles;
  std::optional<TunerAdvice> today;  ///< costs of today's settings; no value: the model has no formula for the policy
  std::optional<Proposal> nominal;   ///< the cheapest settings for the mean workload
  std::optional<Proposal> robust;    ///< the settings with the lowest worst cost within rho; no value if rho is 0
  std::string verdict;               ///< says in one sentence whether a change of settings is worth it, and why

  /// Returns the proposal that `verdict` judges; nullptr if there is none.
  [[nodiscard]] const Proposal* judged() const { return robust ? &*robust : nominal ? &*nominal : nullptr; }
};

/// Advises settings for a database from its history. The advised settings keep within kMostTransientSpace during merges. Takes
/// up to half a second. kInvalidArgument: an option is out of range.
Result<Recommendation> recommend(const Workload& workload, const RecommendOptions& options);
/// Returns the present settings of the database's tree, which recommend() compares with. If TreeSettings::filter_memory is set,
/// filter_bits_per_key is computed from it.
TunerSettings settings_now(const Workload& workload);
/// Returns what operations cost under the database's settings, at its mean workload. Returns no value if that is unknown: there
/// are too few operations, there are no tables, or the model has no formula for the policy.
std::optional<TunerAdvice> costs_now(const Workload& workload);
/// Returns advised settings as names and values for CONFIG SET, for example "databases.0.policy.name" and "klsm".
std::vector<std::pair<std::string, std::string>> database_config(DatabaseId database, const TunerAdvice& advice);
inline constexpr double kMostTransientSpace = 1.5;  ///< the value of TunerQuestion::max_transient_space in recommend()
/// If a smaller fraction of the page reads misses the block cache, recommend() advises no change: the model's costs are reads
/// from the disk.
inline constexpr double kLeastMissRatio = 0.05;
/// A change is worthwhile only if it lowers the cost of an operation by this fraction or more: a smaller gain is within the
/// model's error.
inline constexpr double kLeastGain = 0.1;

}  // namespace ebbtide
