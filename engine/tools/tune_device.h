// Measures the device's parameters in the cost model: page size, write asymmetry and sequential cost.
//
// The measurement writes one file in the given directory, in large chunks and with a sync at the end, as merges do. Then it reads
// the file in large chunks, and reads pages of several sizes at random offsets. Reads bypass the system's page cache if the file
// system allows direct reads; if not, the times may be those of memory. The file is removed in every case, also after an error
// and after a requested stop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <engine/result.h>
#include "base/clock.h"
#include "io/file_system.h"

namespace ebbtide {

struct DeviceTest {
  std::string dir;
  std::uint64_t file_bytes = std::uint64_t{256} << 20;  ///< at least kDevicePiece
  int random_reads = 2000;                              ///< number of reads for each page size; at least 1
  std::uint64_t seed = 1;
  /// Called every kDeviceProgressNs with a line without a newline.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::function<bool()> stopped = [] { return false; };  ///< returns true to end the measurement
};

inline constexpr std::uint64_t kDevicePiece = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kDeviceProgressNs = 2'000'000'000;
/// Share of the disk that must stay free while the file exists: a server refuses writes if a smaller share is free.
inline constexpr double kDeviceFreeShare = 0.05;
/// Name of the file in the directory.
inline constexpr const char* kDeviceFileName = "ebbtide-tune.device";
inline constexpr std::uint64_t kDevicePageSizes[] = {4096, 8192, 16384, 32768, 65536};
/// The recommended page is the largest page whose random read takes at most this many times as long as the random read of the
/// smallest page.
inline constexpr double kDevicePageSlack = 1.1;

struct DeviceFigures {
  std::vector<double> random_read_us;  ///< by kDevicePageSizes
  double sequential_bytes_per_us = 0;  ///< reads in sequence, in large chunks
  double write_bytes_per_us = 0;       ///< writes in large chunks, with the sync
  bool direct = false;                 ///< false: reads may come from the system's page cache
  double page_bytes = 4096;            ///< the recommended page
  double write_asymmetry = 1;          ///< time to write a page / time to read a page, both in sequence (f_a)
  double sequential_cost = 1;          ///< time to read a page in sequence / time to read a page at a random offset (f_seq)
};

/// Measures the device of test.dir. kInvalidArgument: a value of `test` is out of range. kNoSpace: the disk is too full; the
/// message has the free and the needed bytes. kNoSpace or kIoError: a call failed. kAborted: a stop was requested. The file does
/// not exist afterwards, unless its removal failed, which is an error, too.
Result<DeviceFigures> measure_device(FileSystem& fs, const Clock& clock, const DeviceTest& test);

/// Returns page_size, write_asymmetry and sequential_cost as YAML for --file. Comments in the YAML have the measured times, and
/// the keys for a server's configuration.
std::string device_yaml(const DeviceFigures& figures);
std::string device_json(const DeviceFigures& figures);

}  // namespace ebbtide
